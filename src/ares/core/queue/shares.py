"""What every account holds now: its dominant share, its limits, and whether it borrows."""

from collections.abc import Iterator, Mapping

from ares.core.queue.drf import LEVELS, RESOURCES, Held, Holding, Level, sizes_of
from ares.core.queue.limits import Family, Limit, hard, within
from ares.core.queue.tree import ROOT, levels, parent_of
from ares.core.queue.usage import Usage
from ares.model.profile import OrderPolicy, Share


class Shares:
    """What every account holds now and has used, in the tree tenant / team / user. One object per cycle draft; cheap.

    Nothing that is taken ever lowers the dominant share of any account.
    """

    __slots__ = ("_capacity", "_fair", "_families", "_holdings", "_paths", "_sizes", "_tree", "_usage", "now", "order")

    def __init__(self, capacity: Held, tree: Mapping[str, Share], usage: Usage, order: OrderPolicy, now: float) -> None:
        self.order = order
        self.now = now
        self._capacity = capacity
        self._sizes = sizes_of(capacity)
        self._usage = usage
        self._tree = usage.index(tree)
        # The holdings by parent and path, and those of each account from tenant to user.
        self._holdings: dict[str, dict[str, Holding]] = {}
        self._paths: dict[str, tuple[Holding, Holding, Holding]] = {}
        self._families: dict[str, Family] = {}
        self._fair: dict[str, float] = {}

    def take(self, account: str, held: Held) -> None:
        """A job of this account was placed."""
        self._change(account, held.cpu_milli, held.memory_mib, held.gpu_milli)

    def give(self, account: str, held: Held) -> None:
        """A placement was undone, or a job evicted."""
        self._change(account, -held.cpu_milli, -held.memory_mib, -held.gpu_milli)

    def activate(self, account: str) -> None:
        """A job of this account waits: it has a claim to its part by weight."""
        for one in self._path(account):
            one.waits = True
            self._wake(one, True)

    def held(self, path: str) -> Held:
        """What a tenant, a team or a user holds now."""
        one = self._holdings.get(parent_of(path), {}).get(path)
        return Held(0, 0, 0) if one is None else Held(*one.used)

    def dominant(self, account: str) -> float:
        """0 when it holds nothing. Compares tenants, then teams, then users; see `drf` for how finely."""
        tenant, team, user = self._path(account)
        return tenant.counts + team.counts + user.counts

    def fair_share(self, account: str) -> float:
        """How little it has used, from 0 to 1. The same throughout a cycle."""
        found = self._fair.get(account)
        if found is None:
            found = self._fair[account] = self._usage.normalised(account, self.now, self._tree.declared)
        return found

    def over_hard(self, account: str, asked: Held) -> Limit | None:
        """The first limit that `asked` would break, from the tenant down."""
        for one in self._path(account):
            found = hard(one, asked)
            if found is not None:
                return found
        return None

    def borrowing(self, account: str) -> bool:
        """Some level of it holds more than it is entitled to."""
        return not all(
            within(entitled, used)
            for one, entitlement in self._entitlements(account)
            for entitled, used in zip(entitlement, one.used, strict=True)
        )

    def within_soft(self, account: str, asked: Held) -> bool:
        """With `asked` on top, every level still holds no more than it is entitled to, of what is asked."""
        return all(
            within(entitled, used + more)
            for one, entitlement in self._entitlements(account)
            for entitled, used, more in zip(entitlement, one.used, asked, strict=True)
            if more > 0
        )

    def _entitlements(self, account: str) -> Iterator[tuple[Holding, list[float]]]:
        whole: list[float] = list(self._capacity)
        for one in self._path(account):
            family = self._family(one.parent)
            whole = [family.part(index, whole[index], one) for index in range(len(RESOURCES))]
            yield one, whole

    def _family(self, parent: str) -> Family:
        found = self._families.get(parent)
        if found is None:
            found = self._families[parent] = Family(parent, self._tree, self._holdings[parent].values())
        return found

    def _change(self, account: str, cpu: int, memory: int, gpu: int) -> None:
        for one in self._path(account):
            one.change(cpu, memory, gpu)
            if not one.waits:
                self._wake(one, any(one.used))

    def _wake(self, one: Holding, active: bool) -> None:
        if one.active is not active:
            one.active = active
            self._families.pop(one.parent, None)

    def _path(self, account: str) -> tuple[Holding, Holding, Holding]:
        found = self._paths.get(account)
        if found is None:
            tenant, team, user = levels(account)
            found = self._paths[account] = (
                self._holding(ROOT, tenant, LEVELS[0]),
                self._holding(tenant, team, LEVELS[1]),
                self._holding(team, user, LEVELS[2]),
            )
        return found

    def _holding(self, parent: str, path: str, level: Level) -> Holding:
        siblings = self._holdings.setdefault(parent, {})
        found = siblings.get(path)
        if found is None:
            share = self._tree.share(path)
            # Only the relation between siblings matters; relative to the lightest, no share outgrows the cluster.
            weight = share.weight / self._tree.lightest(parent)
            found = siblings[path] = Holding(path, parent, level, share, weight, self._sizes)
        return found
