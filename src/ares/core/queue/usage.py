"""What accounts have used, counting half after every half-life. Fair share looks at the past, DRF at the present.

The unit is the GPU-hour; sixteen CPU-hours count as one, about what a server has of both.
"""

import heapq
from collections.abc import Iterable, Mapping
from math import exp, expm1, inf, log, log1p
from typing import NamedTuple

from ares.core.queue.drf import Amounts
from ares.core.queue.tree import ROOT, ShareTree, levels
from ares.model.profile import Share

CPUS_PER_GPU = 16
# Rates are whole numbers of this, so that adding and taking away leaves nothing behind.
_PER_GPU_HOUR = 1000 * CPUS_PER_GPU * 3600.0
# An account that used less than this part of its siblings' use is left out: old accounts must not dilute shares.
_NEGLIGIBLE = 0.001
# A verdict this near to its edge, as a part of what it is judged by, is not kept: rounding could turn it.
_EDGE = 1e-6
# News so much older than the latest are rounding, not news that came late.
_LATE_S = 1e-6


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


class _Siblings:
    """Which of the undeclared children of one parent have used enough to be reckoned with.

    All use fades alike, so verdicts last. A child that is reckoned falls behind only as the others' use grows, no
    faster than `_rate`; one that is not catches up only by its own. So few are judged anew as time goes on.
    """

    __slots__ = ("_asked_at", "_children", "_life", "_parent", "_rate", "_reckoned", "_sure", "_sure_until", "_unsure")

    def __init__(self, parent: _Meter, children: Mapping[str, _Meter], life: float) -> None:
        self._parent = parent
        self._children = dict(children)
        self._life = life
        self._rate = 2 * parent.rate
        self._reckoned: set[str] = set()
        self._unsure = set(children)
        self._sure_until: dict[str, float] = {}
        # (until when, child), the first one first; what the dictionary does not say any more is passed over.
        self._sure: list[tuple[float, str]] = []
        self._asked_at = -inf

    def touch(self, path: str, meter: _Meter) -> None:
        """The use of this child changes."""
        self._children[path] = meter
        self._unsure.add(path)

    def grow(self, at: float, rate: float) -> None:
        """The use of all children changes, by so much a second."""
        parent, rate = self._parent, self._parent.rate + rate
        # News from before the latest question came late, too: what was sure then went by more than there was.
        if rate > self._rate or at < max(parent.at, self._asked_at) - _LATE_S:
            self._rate = max(self._rate, int(2 * rate)) if rate < inf else self._rate
            self._unsure.update(self._children)

    def reckoned(self, now: float) -> int:
        """How many they are."""
        if now < self._asked_at:
            self._unsure.update(self._children)
        self._asked_at = now
        while self._sure and self._sure[0][0] <= now:
            until, path = heapq.heappop(self._sure)
            if self._sure_until.get(path) == until:
                self._unsure.add(path)
        if self._unsure:
            self._judge(self._unsure, now)
            self._unsure.clear()
        return len(self._reckoned)

    def _judge(self, paths: Iterable[str], now: float) -> None:
        life, of_all = self._life, self._parent.read(now, self._life)
        enough = _NEGLIGIBLE * (of_all / _PER_GPU_HOUR)
        for path in paths:
            meter = self._children[path]
            used = meter.read(now, life)
            ahead = used / _PER_GPU_HOUR >= enough
            (self._reckoned.add if ahead else self._reckoned.discard)(path)
            margin = abs(used - _NEGLIGIBLE * of_all) - _EDGE * _NEGLIGIBLE * (of_all + self._rate)
            growth = life * (_NEGLIGIBLE * self._rate if ahead else meter.rate)
            until = now if margin <= 0.0 else inf if growth <= 0.0 else now + 0.999 * life * log1p(margin / growth)
            self._sure_until[path] = until
            if until < inf:
                heapq.heappush(self._sure, (until, path))
        if len(self._sure) > 2 * len(self._children) + 64:
            self._sure = [(until, path) for path, until in self._sure_until.items() if until < inf]
            heapq.heapify(self._sure)


class UsageData(NamedTuple):
    """The whole state of the decayed use, as plain data."""

    accounts: tuple[str, ...]
    # By path: the value, the rate, and as of when.
    meters: dict[str, tuple[float, int, float]]
    # By job: its account, its rate, and since when.
    running: dict[str, tuple[str, int, float]]


class DecayedUsage:
    """Decayed use per account, kept for every level. The order in which changes arrive does not matter."""

    __slots__ = ("_children", "_life", "_meters", "_paths", "_running", "_siblings", "_tree")

    def __init__(self, half_life_s: float) -> None:
        self._life = half_life_s / log(2.0)
        self._meters: dict[str, _Meter] = {}
        self._children: dict[str, list[str]] = {}
        # The meters of each account: the whole cluster, its tenant, its team, its user.
        self._paths: dict[str, tuple[_Meter, ...]] = {}
        self._running: dict[str, tuple[str, int, float]] = {}
        self._tree = ShareTree({})
        # By parent, as far as asked for.
        self._siblings: dict[str, _Siblings] = {}

    @property
    def data(self) -> UsageData:
        meters = {path: (meter.value, meter.rate, meter.at) for path, meter in self._meters.items()}
        return UsageData(tuple(self._paths), meters, dict(self._running))

    def restore(self, data: UsageData) -> None:
        """Goes on from the state of another instance."""
        self._meters, self._children, self._paths = {}, {}, {}
        for account in data.accounts:
            self._touch(account, 0.0, inf)
        for path, (value, rate, at) in data.meters.items():
            meter = self._meters[path]
            meter.value, meter.rate, meter.at = value, rate, at
        self._running = dict(data.running)
        self._siblings.clear()

    def index(self, tree: Mapping[str, Share]) -> ShareTree:
        """The declared shares by parent, kept until another profile comes."""
        if self._tree.declared is not tree:
            self._tree = ShareTree(tree)
            self._siblings.clear()
        return self._tree

    def charge(self, account: str, gpu_s: float, cpu_s: float, at: float) -> None:
        """Use that is over, as of `at`."""
        for meter in self._touch(account, at, inf):
            meter.add(1000.0 * (CPUS_PER_GPU * gpu_s + cpu_s), at, self._life)

    def begin(self, job: str, account: str, held: Amounts, at: float) -> None:
        """A running attempt uses `held` from `at` on. Told again, only a different amount changes anything."""
        rate = weighed(held)
        known = self._running.get(job)
        if known is not None and known[:2] == (account, rate):
            return
        self.end(job, at)
        self._running[job] = (account, rate, at)
        for meter in self._touch(account, at, rate):
            meter.flow(rate, at, self._life)

    def end(self, job: str, at: float) -> None:
        """The job uses nothing from `at` on; what it used stays charged. Told again it changes nothing."""
        known = self._running.pop(job, None)
        if known is not None:
            account, rate, since = known
            ended = max(at, since)
            for meter in self._touch(account, ended, -rate):
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
        root, own = self.of(ROOT, now), self.of(tenant, now)
        of_tenant, below = self._level(ROOT, tenant, own, root, now), self.of(team, now)
        of_team = self._level(tenant, team, below, own, now)
        return (4.0 * of_tenant + 2.0 * of_team + self._level(team, user, self.of(user, now), below, now)) / 7.0

    def _level(self, parent: str, path: str, used: float, of_all: float, now: float) -> float:
        if used <= 0.0 or of_all <= 0.0:
            return 1.0
        weight, weights = self._tree.share(path).weight, self._weights(parent, now)
        if used < _NEGLIGIBLE * of_all and path not in self._tree.declared:
            weights += weight
        return 2.0 ** -((used / of_all) / (weight / weights))

    def _weights(self, parent: str, now: float) -> float:
        """The weights of the children that are declared or have used something, in sum."""
        siblings = self._siblings.get(parent)
        if siblings is None:
            undeclared = (path for path in self._children[parent] if path not in self._tree.declared)
            children = {path: self._meters[path] for path in undeclared}
            siblings = self._siblings[parent] = _Siblings(self._meters[parent], children, self._life)
        return self._tree.weights(parent) + siblings.reckoned(now)

    def _touch(self, account: str, at: float, rate: float) -> tuple[_Meter, ...]:
        """The meters of an account whose use changes, by so much a second."""
        found = self._paths.get(account) or self._new(account, at)
        if self._siblings:
            above = ROOT
            for path, meter in zip(levels(account), found[1:], strict=True):
                siblings = self._siblings.get(above)
                if siblings is not None:
                    siblings.grow(at, rate)
                    if path not in self._tree.declared:
                        siblings.touch(path, meter)
                above = path
        return found

    def _new(self, account: str, at: float) -> tuple[_Meter, ...]:
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
