"""What accounts have used, counting half after every half-life. Fair share looks at the past, DRF at the present.

The unit is the GPU-hour; sixteen CPU-hours count as one, about what a server has of both.
"""

from collections.abc import Mapping
from math import exp, expm1, log
from typing import NamedTuple

from ares.core.queue.drf import Amounts
from ares.core.queue.tree import ROOT, ShareTree, levels
from ares.model.profile import Share

CPUS_PER_GPU = 16
# Rates are whole numbers of this, so that adding and taking away leaves nothing behind.
_PER_GPU_HOUR = 1000 * CPUS_PER_GPU * 3600.0
# An account that used less than this part of its siblings' use is left out: old accounts must not dilute shares.
_NEGLIGIBLE = 0.001


def weighed(held: Amounts) -> int:
    """What is held, in thousandths of CPUs."""
    return CPUS_PER_GPU * held.gpu_milli + held.cpu_milli


class _Meter:
    """A decayed sum: `value` as of `at`, growing by `rate` a second since."""

    __slots__ = ("at", "rate", "value")

    def __init__(self, at: float) -> None:
        self.value = 0.0
        self.rate = 0
        self.at = at

    def read(self, now: float, life: float) -> float:
        # Nothing is known of the time before the last change: the answer is as of then.
        past = max(0.0, now - self.at) / life
        return self.value * exp(-past) - self.rate * life * expm1(-past)

    def add(self, amount: float, at: float, life: float) -> None:
        """Adds `amount` at once. A late amount is added as decayed as it would be by now."""
        self._forward(at, life)
        self.value += amount * exp((at - self.at) / life)

    def flow(self, rate: int, at: float, life: float) -> None:
        """`rate` more a second from `at` on."""
        if at >= self.at:
            self._forward(at, life)
        else:
            self.value -= rate * life * expm1((at - self.at) / life)
        if self.value < 0.0:
            self.value = 0.0
        self.rate += rate

    def _forward(self, at: float, life: float) -> None:
        if at > self.at:
            past = (at - self.at) / life
            self.value = self.value * exp(-past) - self.rate * life * expm1(-past)
            self.at = at


class UsageData(NamedTuple):
    """The whole state of the decayed use, as plain data."""

    accounts: tuple[str, ...]
    # By path: the value, the rate, and as of when.
    meters: dict[str, tuple[float, int, float]]
    # By job: its account, its rate, and since when.
    running: dict[str, tuple[str, int, float]]


class DecayedUsage:
    """Decayed use per account, kept for every level. The order in which changes arrive does not matter."""

    __slots__ = ("_children", "_life", "_meters", "_paths", "_running", "_sums", "_tree")

    def __init__(self, half_life_s: float) -> None:
        self._life = half_life_s / log(2.0)
        self._meters: dict[str, _Meter] = {}
        self._children: dict[str, list[str]] = {}
        # The meters of each account: the whole cluster, its tenant, its team, its user.
        self._paths: dict[str, tuple[_Meter, ...]] = {}
        self._running: dict[str, tuple[str, int, float]] = {}
        self._tree = ShareTree({})
        # The siblings' weights by parent, as of one moment: many accounts ask for the same.
        self._sums: dict[str, tuple[float, float]] = {}

    @property
    def data(self) -> UsageData:
        meters = {path: (meter.value, meter.rate, meter.at) for path, meter in self._meters.items()}
        return UsageData(tuple(self._paths), meters, dict(self._running))

    def restore(self, data: UsageData) -> None:
        """Goes on from the state of another instance."""
        self._meters, self._children, self._paths = {}, {}, {}
        for account in data.accounts:
            self._touch(account, 0.0)
        for path, (value, rate, at) in data.meters.items():
            meter = self._meters[path]
            meter.value, meter.rate, meter.at = value, rate, at
        self._running = dict(data.running)
        self._sums.clear()

    def index(self, tree: Mapping[str, Share]) -> ShareTree:
        """The declared shares by parent, kept until another profile comes."""
        if self._tree.declared is not tree:
            self._tree = ShareTree(tree)
            self._sums.clear()
        return self._tree

    def charge(self, account: str, gpu_s: float, cpu_s: float, at: float) -> None:
        """Use that is over, as of `at`."""
        for meter in self._touch(account, at):
            meter.add(1000.0 * (CPUS_PER_GPU * gpu_s + cpu_s), at, self._life)

    def begin(self, job: str, account: str, held: Amounts, at: float) -> None:
        """A running attempt uses `held` from `at` on. Told again, only a different amount changes anything."""
        rate = weighed(held)
        known = self._running.get(job)
        if known is not None and known[:2] == (account, rate):
            return
        self.end(job, at)
        self._running[job] = (account, rate, at)
        for meter in self._touch(account, at):
            meter.flow(rate, at, self._life)

    def end(self, job: str, at: float) -> None:
        """The job uses nothing from `at` on; what it used stays charged. Told again it changes nothing."""
        known = self._running.pop(job, None)
        if known is not None:
            account, rate, since = known
            ended = max(at, since)
            for meter in self._touch(account, ended):
                meter.flow(-rate, ended, self._life)

    def of(self, path: str, now: float) -> float:
        """What a tenant, team or user has used, in GPU-hours; of all accounts for the empty path."""
        meter = self._meters.get(path)
        return 0.0 if meter is None else meter.read(now, self._life) / _PER_GPU_HOUR

    def normalised(self, account: str, now: float, tree: Mapping[str, Share]) -> float:
        """1 when nothing was used, 0.5 when every level used just its share, towards 0 the more was used.

        Each level gives 2**-(its part of the siblings' use / its part of their weight); the mean of the three counts
        the tenant four times and the team twice.
        """
        self.index(tree)
        tenant, team, user = levels(account)
        of_tenant, of_team = self._level(ROOT, tenant, now), self._level(tenant, team, now)
        return (4.0 * of_tenant + 2.0 * of_team + self._level(team, user, now)) / 7.0

    def _level(self, parent: str, path: str, now: float) -> float:
        used, of_all = self.of(path, now), self.of(parent, now)
        if used <= 0.0 or of_all <= 0.0:
            return 1.0
        weight, weights = self._tree.share(path).weight, self._siblings(parent, now)
        if not self._reckoned(path, parent, now):
            weights += weight
        return 2.0 ** -((used / of_all) / (weight / weights))

    def _siblings(self, parent: str, now: float) -> float:
        """The weights of the children that are declared or have used something, in sum."""
        at, weights = self._sums.get(parent, (now, 0.0))
        if weights and at == now:
            return weights
        used = (path for path in self._children[parent] if path not in self._tree.declared)
        weights = sum(self._tree.share(path).weight for path in self._tree.children(parent))
        weights += sum(1 for path in used if self._reckoned(path, parent, now))
        self._sums[parent] = (now, weights)
        return weights

    def _reckoned(self, path: str, parent: str, now: float) -> bool:
        return path in self._tree.declared or self.of(path, now) >= _NEGLIGIBLE * self.of(parent, now)

    def _touch(self, account: str, at: float) -> tuple[_Meter, ...]:
        self._sums.clear()
        found = self._paths.get(account)
        if found is None:
            above = ROOT
            meters = [self._meters.setdefault(ROOT, _Meter(at))]
            for path in levels(account):
                if path not in self._meters:
                    self._meters[path] = _Meter(at)
                    self._children.setdefault(above, []).append(path)
                meters.append(self._meters[path])
                above = path
            found = self._paths[account] = tuple(meters)
        return found
