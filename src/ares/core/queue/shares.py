"""What every account holds now: its dominant share, and its hard limits."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ares.core.queue.drf import LEVELS, RESOURCES, AccountHolding, Amounts, DrfDigit, sizes_of
from ares.core.queue.tree import ROOT, levels, parent_of
from ares.core.queue.usage import DecayedUsage
from ares.model.profile import Share, ShareResource

Floats = npt.NDArray[np.float64]

# ---- Hard limits, beyond which an account cannot go.


class BrokenLimit(NamedTuple):
    """A hard limit that would be broken, and by how much. Units: thousandths of CPUs and GPUs, MiB of memory."""

    path: str
    resource: ShareResource
    asked: int
    used: int
    limit: int
    free: int


def hard(holding: AccountHolding, asked: Amounts) -> BrokenLimit | None:
    """The first resource of which the account would hold more than its hard limit."""
    if not holding.share.hard:
        return None
    for index, resource in enumerate(RESOURCES):
        limit = holding.share.hard.get(resource)
        used, more = holding.used[index], asked[index]
        if limit is not None and more > 0 and used + more > limit:
            return BrokenLimit(holding.path, resource, more, used, limit, max(0, limit - used))
    return None


class Shares:
    """What every account holds and has used, in the tree tenant / team / user. One object per cycle; cheap.

    Taking resources never lowers the dominant share of any account. `held` is what accounts hold at first: it is added
    up for the tenants that are asked about.
    """

    __slots__ = (
        "_fair", "_held", "_holdings", "_paths", "_sizes", "_tree", "_usage", "_waiters", "_waiting", "_waiting_below",
        "now", "taken",
    )  # fmt: skip

    def __init__(
        self,
        capacity: Amounts,
        tree: Mapping[str, Share],
        usage: DecayedUsage,
        now: float,
        held: Mapping[str, Amounts] = MappingProxyType({}),
        waiting: Collection[str] = (),
    ) -> None:
        self.now = now
        # How many jobs were placed: what accounts hold is the same while this is.
        self.taken = 0
        # Accounts that have waiting jobs, and the same by tenant and by team once that is asked for.
        self._waiting = waiting
        self._waiting_below: dict[str, list[str]] | None = None
        self._waiters: dict[str, tuple[dict[str, float], float]] = {}
        # By tenant, of those that were not asked about yet.
        self._held: dict[str, list[tuple[str, Amounts]]] = {}
        for account, amounts in held.items():
            self._held.setdefault(account.partition("/")[0], []).append((account, amounts))
        self._sizes = sizes_of(capacity)
        self._usage = usage
        self._tree = usage.index(tree)
        # The holdings by parent and path, and the holdings on each account's path from tenant to user.
        self._holdings: dict[str, dict[str, AccountHolding]] = {}
        self._paths: dict[str, tuple[AccountHolding, AccountHolding, AccountHolding]] = {}
        self._fair: dict[str, float] = {}

    def take(self, account: str, held: Amounts) -> None:
        """A job of this account was placed."""
        self.taken += 1
        self._add(account, held)

    def _add(self, account: str, held: Amounts) -> None:
        for holding in self._path(account):
            holding.take(held)

    def part(self, cpu_milli: int, memory_mib: int, gpu_milli: int) -> float:
        """The part of the cluster that this is: the largest over the resources."""
        cpu, memory, gpu = self._sizes
        return max(cpu_milli / cpu, memory_mib / memory, gpu_milli / gpu)

    def parts(self, cpu_milli: Floats, memory_mib: Floats, gpu_milli: Floats) -> Floats:
        """The same of many at once."""
        cpu, memory, gpu = self._sizes
        return np.maximum(np.maximum(cpu_milli / cpu, memory_mib / memory), gpu_milli / gpu)

    def held(self, path: str) -> Amounts:
        """What a tenant, a team or a user holds now."""
        self._add_up(path)
        holding = self._holdings.get(parent_of(path), {}).get(path)
        return Amounts(0, 0, 0) if holding is None else Amounts(*holding.used)

    def dominant(self, account: str) -> float:
        """0 when the account holds nothing. Compares tenants, then teams, then users; see `drf` for how finely."""
        tenant, team, user = self._path(account)
        return tenant.counts + team.counts + user.counts

    def in_depth(self, account: str) -> float:
        """The dominant share, with what the team holds beyond its part of its tenant and the user beyond its part of
        the team, on the same scale. Parts are by weight, among those that have waiting jobs: a team that stands alone
        has all of its tenant, and tenants compare as if they had no teams."""
        tenant, team, user = self._path(account)
        beyond = self._beyond(tenant, team) + self._beyond(team, user)
        return self.dominant(account) + beyond / tenant.weight

    def _beyond(self, parent: AccountHolding, holding: AccountHolding) -> float:
        weights, others = self._standing(parent.path)
        weight = weights.get(holding.path)
        if weight is None:
            return 0.0
        return max(0.0, holding.part - max(0.0, parent.part - others) * weight / weights[""])

    def _standing(self, parent: str) -> tuple[dict[str, float], float]:
        """The weights of the parent's teams or users that have waiting jobs, with their sum under no name; and what the
        others hold, which does not change during a cycle."""
        found = self._waiters.get(parent)
        if found is None:
            below = [path for account in self._waiting_of(parent) for path in self._path(account)[1:]]
            weights = {holding.path: holding.weight for holding in below if parent_of(holding.path) == parent}
            siblings = self._holdings.get(parent, {}).values()
            others = sum(sibling.part for sibling in siblings if sibling.path not in weights)
            if weights:
                weights[""] = sum(weights.values())
            found = self._waiters[parent] = (weights, others)
        return found

    def _waiting_of(self, parent: str) -> list[str]:
        """Accounts below the parent, a tenant or a team, that have waiting jobs."""
        if self._waiting_below is None:
            self._waiting_below = {}
            for account in self._waiting:
                for path in levels(account)[:2]:
                    self._waiting_below.setdefault(path, []).append(account)
        return self._waiting_below.get(parent, [])

    def fair_share(self, account: str) -> float:
        """How little the account has used, from 0 to 1. The same throughout a cycle."""
        found = self._fair.get(account)
        if found is None:
            found = self._fair[account] = self._usage.normalised(account, self.now, self._tree.declared)
        return found

    def over_hard(self, account: str, asked: Amounts) -> BrokenLimit | None:
        """The first limit that `asked` would break, from the tenant down."""
        for holding in self._path(account):
            found = hard(holding, asked)
            if found is not None:
                return found
        return None

    def _path(self, account: str) -> tuple[AccountHolding, AccountHolding, AccountHolding]:
        found = self._paths.get(account)
        if found is None:
            if self._held:
                self._add_up(account)
            tenant, team, user = levels(account)
            found = self._paths[account] = (
                self._holding(ROOT, tenant, LEVELS[0]),
                self._holding(tenant, team, LEVELS[1]),
                self._holding(team, user, LEVELS[2]),
            )
        return found

    def _add_up(self, path: str) -> None:
        """What the accounts of the tenant held at first."""
        for account, amounts in self._held.pop(path.partition("/")[0], ()):
            self._add(account, amounts)

    def _holding(self, parent: str, path: str, level: DrfDigit) -> AccountHolding:
        siblings = self._holdings.setdefault(parent, {})
        found = siblings.get(path)
        if found is None:
            share = self._tree.share(path)
            # Only the relation between siblings matters; relative to the lightest, no share outgrows the cluster.
            weight = share.weight / self._tree.lightest(parent)
            found = siblings[path] = AccountHolding(path, level, share, weight, self._sizes)
        return found
