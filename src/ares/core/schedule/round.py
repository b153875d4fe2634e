"""One cycle under way: the transaction everything is tried in, and what was decided so far."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from ares.core.queue.shares import Held
from ares.core.queue.waiting import ClassKey
from ares.core.schedule.ask import Ask
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.gang import place_gang
from ares.core.schedule.gates import no_licence, over_limit
from ares.core.schedule.holding import held_by
from ares.core.schedule.place import place_one
from ares.core.schedule.plan import Eviction, LeftOut, Placed, Plan, Resized
from ares.core.schedule.reasons import Reason
from ares.core.schedule.transaction import Taken, Transaction, placement
from ares.model.profile import Profile
from ares.model.state import Placement


class Found(NamedTuple):
    """A place for one job, taken."""

    taken: Sequence[Taken]
    alternative: int


def asked(ask: Ask, ranks: int) -> Held:
    return Held(ask.cpu_milli * ranks, ask.memory_mib * ranks, ask.gpus_milli * ranks)


class Round:
    """Actions change it one after the other; the cluster is left as it was."""

    def __init__(self, cluster: Cluster, profile: Profile, now: float) -> None:
        self.cluster = cluster
        self.profile = profile
        self.now = now
        self.evaluations = cluster.evaluations
        self.txn = Transaction(cluster.evaluations)
        self.shares = cluster.shares(now)
        self.licences: Counter[str] = cluster.licences_used.copy()
        self.placed: list[Placed] = []
        self.left: dict[int, LeftOut] = {}
        self.evictions: list[Eviction] = []
        self.resized: list[Resized] = []
        self.unheld: list[str] = []
        self.more = False

    @property
    def full(self) -> bool:
        return len(self.placed) >= self.profile.max_placements_per_cycle

    def gate(self, key: ClassKey, ask: Ask) -> Reason | None:
        """What stands in the way of the job whatever the nodes are like: licences and hard limits."""
        for name, count in key.licences:
            total, used = self.profile.licences.get(name, 0), self.licences[name]
            if used + count > total:
                return no_licence(name, count, used, total)
        if self.profile.shares:
            limit = self.shares.over_hard(key.account, asked(ask, ask.min_ranks))
            if limit is not None:
                return over_limit(limit)
        return None

    def find(self, key: ClassKey) -> Found | None:
        """The best place for one job of a class, in the order of its alternatives."""
        for number, ask in enumerate(key.asks):
            if (key.licences or self.profile.shares) and self.gate(key, ask) is not None:
                continue
            taken = self.place(ask)
            if taken is not None:
                return Found(taken, number)
        return None

    def place(self, ask: Ask) -> Sequence[Taken] | None:
        if ask.ranks > 1:
            return place_gang(self.evaluations, self.txn, ask)
        taken = place_one(self.evaluations, self.txn, ask)
        return None if taken is None else (taken,)

    def placements(self, taken: Sequence[Taken]) -> tuple[Placement, ...]:
        table = self.cluster.table
        if len(taken) == 1:
            return (placement(table, taken[0], 0),)
        return tuple(placement(table, one, rank) for rank, one in enumerate(taken))

    def note_placed(self, job: str, key: ClassKey, class_id: int, found: Found) -> None:
        placements = self.placements(found.taken)
        self.placed.append(Placed(job=job, placements=placements, alternative=found.alternative, class_id=class_id))
        self.shares.take(key.account, held_by(placements))
        for name, count in key.licences:
            self.licences[name] += count

    def plan(self) -> Plan:
        return Plan(
            at=self.now,
            placed=tuple(self.placed),
            left=tuple(self.left.values()),
            evictions=tuple(self.evictions),
            resized=tuple(self.resized),
            unheld=tuple(self.unheld),
            more=self.more,
        )
