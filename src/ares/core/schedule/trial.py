"""One cycle under way: the transaction in which everything is tried, and what was decided so far."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from math import inf
from typing import NamedTuple, Protocol, Self

import numpy as np

from ares.api.decisions import Promise
from ares.api.reasons import Reason
from ares.core.ask import Ask, away_of
from ares.core.capacity.bookings import claim_of, claims_of
from ares.core.capacity.claims import Claims
from ares.core.capacity.holding import held_by
from ares.core.capacity.node_table import Ints
from ares.core.capacity.transaction import Allocation, Transaction, placement, placements
from ares.core.queue.drf import Amounts
from ares.core.queue.order import tenant_of
from ares.core.queue.shares import BrokenLimit, Shares
from ares.core.queue.waiting import THROTTLE, ClassKey, JobClass, QueueView
from ares.core.schedule.budget import CycleBudget
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.considered import Considered, consider
from ares.core.schedule.gang import place_gang
from ares.core.schedule.pace import PacedJob
from ares.core.schedule.place import place_one
from ares.core.schedule.plan import Eviction, LeftOut, Placed, Plan, Resized
from ares.model.job import ARRAY_TASKS_MAX, RANKS_MAX
from ares.model.profile import Profile
from ares.model.state import Placement

# ---- Gates that keep a job waiting whatever the nodes are like: licences that are used up, limits that are reached.


_UNITS = {"cpu": ("CPUs", 1000), "gpu": ("GPUs", 1000), "memory": ("MiB of memory", 1)}


def no_licence(name: str, count: int, used: int, total: int) -> Reason:
    numbers = {"asked": count, "free": max(0, total - used), "total": total}
    if count > total:
        message = f"needs {count} of licence {name}; the cluster has {total}"
        return Reason(code="INFEASIBLE_LICENCE", message=message, numbers=numbers)
    message = f"needs {count} of licence {name}; {max(0, total - used)} of {total} are free"
    return Reason(code="INSUFFICIENT_LICENCE", message=message, numbers=numbers)


def array_throttle(running: int, most: int) -> Reason:
    message = f"{running} of its array's tasks have a place, and {most} may at once"
    return Reason(code="ARRAY_THROTTLE", message=message, numbers={"running": running, "limit": most})


def over_limit(limit: BrokenLimit) -> Reason:
    unit, parts = _UNITS[limit.resource]
    numbers = {"asked": limit.asked, "free": max(0, limit.free), "total": limit.limit}
    asked, used, total = (f"{value / parts:,g}" for value in (limit.asked, limit.used, limit.limit))
    if limit.asked > limit.limit:
        message = f"needs {asked} {unit}; {limit.path} may never have more than {total}"
        return Reason(code="INFEASIBLE_LIMIT", message=message, numbers=numbers)
    message = f"needs {asked} {unit}; {limit.path} has {used} of the {total} it may have"
    return Reason(code="HARD_LIMIT", message=message, numbers=numbers)


_NOBODY: frozenset[str] = frozenset()

# Filters that refuse a node because of what running jobs hold there.
HELD_BACK = frozenset({"gpus", "devices", "cpu", "memory", "numa", "power"})


class Backfill(Protocol):
    """Goes through waiting jobs, some of which may start before jobs ahead of them."""

    def run(self, rest: Iterable[tuple[str, JobClass]]) -> None: ...


class Assignment(NamedTuple):
    """A place for one job, already taken."""

    taken: Sequence[Allocation]
    alternative: int
    considered: Considered | None = None
    # For a job that makes use of a gap.
    leaves_at: float | None = None


def asked(ask: Ask, ranks: int) -> Amounts:
    return Amounts(ask.cpu_milli * ranks, ask.memory_mib * ranks, ask.gpus_milli * ranks)


class Trial:
    """Actions change the trial one after the other; the cluster is left as it was."""

    def __init__(
        self,
        cluster: Cluster,
        profile: Profile,
        now: float,
        keep: int = 0,
        tells: bool = True,
        budget: CycleBudget | None = None,
        waiting: QueueView | None = None,
    ) -> None:
        # Without one, every job gets a turn.
        self.budget = budget
        # Whether the caller wants to know which jobs were left out.
        self.tells = tells
        # How many decisions to keep whole, so that they can be made again.
        self.keep = keep
        self.considered: dict[str, Considered] = {}
        self.cluster = cluster
        # The queue; for a question about another one, an overlay of it.
        self.waiting: QueueView = cluster.waiting if waiting is None else waiting
        self.profile = profile
        self.now = now
        self.evaluations = cluster.evaluations
        self.txn = Transaction(cluster.evaluations)
        # Claims on the future; at first, the reservations, and what other planners promised.
        self.claims = Claims(cluster, self.txn, now)
        for claim in claims_of(cluster, now) if cluster.bookings else ():
            self.claims.add(claim)
        for promise in cluster.claimed.values():
            if promise.job not in cluster.holdings and (claim := claim_of(cluster, promise)) is not None:
                self.claims.add(claim)
        self._shares: Shares | None = None
        self._spent: list[tuple[str, Amounts]] = []
        self.licences: Counter[str] = cluster.licences_used.copy() if cluster.licences_used else Counter()
        self.placed: list[Placed] = []
        self.left: dict[int, LeftOut] = {}
        # Classes that would fit, but what is free is held for other jobs.
        self.held_back: dict[int, LeftOut] = {}
        # Promised starts, by job.
        self.promises: dict[str, Promise] = {}
        # What backfill goes on with: the jobs from the first that waits for room.
        self.behind: tuple[Backfill, Iterator[tuple[str, JobClass]]] | None = None
        self.evictions: list[Eviction] = []
        self.resized: list[Resized] = []
        self.unheld: list[str] = []
        # Jobs for which running jobs are asked to leave in this cycle.
        self.making_room: set[str] = set()
        self.more = False
        # By job, for jobs that `pace` planned.
        self.paced: dict[str, PacedJob] = {}
        # Placed jobs that other jobs must be near to or away from.
        self._matched: list[str] = []

    @classmethod
    def what_if(cls, cluster: Cluster, now: float, waiting: QueueView | None = None) -> Self:
        """For a question: `with Trial.what_if(cluster, now) as trial:` leaves the cluster as it was. A question about
        a job that does not wait yet goes by an overlay of the queue."""
        return cls(cluster, cluster.profile, now, waiting=waiting)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.claims.lift()
        self.close()

    def close(self) -> None:
        """Leaves the cluster as it was."""
        self.txn.rollback(0)
        # It refers to this trial: without it there is no cycle for the garbage collector.
        self.behind = None
        for job in self._matched:
            self.cluster.matching.drop(job)

    @property
    def shares(self) -> Shares:
        """Made on first use: not every order and profile needs shares."""
        if self._shares is None:
            self._shares = self.cluster.shares(self.now)
            for account, held in self._spent:
                self._shares.take(account, held)
        return self._shares

    def spend(self, account: str, held: Amounts) -> None:
        """Resources were given to the account."""
        if self._shares is None:
            self._spent.append((account, held))
        else:
            self._shares.take(account, held)

    @property
    def dealt_with(self) -> AbstractSet[str]:
        """Jobs that have a place, or that wait for a better GPU than they could have now."""
        if not self.placed and not self.paced:
            return _NOBODY
        return {placed.job for placed in self.placed} | {
            job for job, paced in self.paced.items() if paced.start > self.now
        }

    def key_of(self, job: str, key: ClassKey) -> ClassKey:
        """The key as if the job had asked for the GPU model that `pace` gave it. Like jobs share what is computed."""
        paced = self.paced.get(job)
        if paced is None:
            return key
        ask = key.asks[0]
        return key._replace(asks=(ask._replace(gpu_model=paced.model or ask.gpu_model, runs=()),))

    def runs_of(self, job: str) -> float:
        """How long the job runs; where `pace` has it slip in, on the GPU model that it gets."""
        paced = self.paced.get(job)
        return paced.end - self.now if paced is not None and paced.slips_in else self.waiting.runs_of(job)

    @property
    def full(self) -> bool:
        return len(self.placed) >= self.profile.max_placements_per_cycle

    def reach(self, job: str) -> bool:
        """Whether the cycle comes to the job; if not, it comes to no further job either."""
        if self.budget is None or self.budget.reach(job):
            return True
        # Once every job had a turn, there is nothing more to do until something changes.
        self.more = self.more or not self.budget.whole
        return False

    @property
    def resumes(self) -> bool:
        """Whether an earlier cycle did not come to every job."""
        return self.budget is not None and bool(self.budget.before)

    def gate(self, key: ClassKey, ask: Ask, ranks: int | None = None) -> Reason | None:
        """What keeps the job waiting whatever the nodes are like: licences and hard limits.

        Of an elastic gang the fewest ranks count, unless `ranks` says how many."""
        for name, count in key.licences:
            if name.startswith(THROTTLE):
                most, running = self.cluster.waiting.throttles.get(name[1:], ARRAY_TASKS_MAX), self.licences[name]
                if running >= most:
                    return array_throttle(running, most)
                continue
            total, used = self.profile.licences.get(name, 0), self.licences[name]
            if used + count > total:
                return no_licence(name, count, used, total)
        if self.profile.shares:
            limit = self.shares.over_hard(key.account, asked(ask, ranks or ask.min_ranks))
            if limit is not None:
                return over_limit(limit)
        return None

    def find(self, key: ClassKey, runs_s: float = inf) -> Assignment | None:
        """The best place for one job of a class, in the order of its alternatives. The job may not run into claimed
        room."""
        for number, ask in enumerate(key.asks):
            if (key.licences or self.profile.shares) and self.gate(key, ask) is not None:
                continue
            if ask.reservation and self.cluster.closing(ask, self.now) is not None:
                continue
            if self.claims:
                self.claims.hide(self.now + runs_s, ask.reservation)
            considered = consider(self.evaluations, ask) if len(self.considered) < self.keep else None
            taken = self.place(ask, self.most_ranks(key.account, ask))
            if taken is not None:
                return Assignment(taken, number, considered)
        return None

    def tried(self, key: ClassKey, runs_s: float = inf) -> Assignment | None:
        """The same as `find`, but nothing is taken."""
        self.claims.lift()
        checkpoint = self.txn.checkpoint()
        found = self.find(key, runs_s)
        # Claims are hidden by the transaction: they must be lifted before it is rolled back.
        self.claims.lift()
        self.txn.rollback(checkpoint)
        return found

    def most_ranks(self, account: str, ask: Ask) -> int:
        """As many ranks as the account's hard limits allow, if they allow fewer than the ask."""
        if ask.ranks == ask.min_ranks or not self.profile.shares:
            return ask.ranks
        most = ask.ranks
        while most and self.shares.over_hard(account, asked(ask, most)) is not None:
            most -= 1
        return most

    def place(self, ask: Ask, most: int = RANKS_MAX) -> Sequence[Allocation] | None:
        """Room for the ask, taken: for all ranks of a gang, of an elastic one for `most` at most."""
        if ask.ranks > 1:
            return place_gang(self.evaluations, self.txn, ask, most)
        taken = place_one(self.evaluations, self.txn, ask)
        return None if taken is None else (taken,)

    def placements(self, taken: Sequence[Allocation]) -> tuple[Placement, ...]:
        table = self.cluster.table
        if len(taken) == 1:
            return (placement(table, taken[0], 0),)
        return tuple(placement(table, allocation, rank) for rank, allocation in enumerate(taken))

    def note_placed(self, job: str, key: ClassKey, class_id: int, found: Assignment) -> None:
        placements = self.placements(found.taken)
        self.placed.append(
            Placed(
                job=job,
                placements=placements,
                alternative=found.alternative,
                class_id=class_id,
                leaves_at=found.leaves_at,
            )
        )
        if found.considered is not None:
            self.considered[job] = found.considered
        self.spend(key.account, held_by(placements))
        for name, count in key.licences:
            self.licences[name] += count
        self.match(job, key, tuple(allocation.row for allocation in found.taken))

    def match(self, job: str, key: ClassKey, rows: tuple[int, ...]) -> None:
        """Jobs that must be near to the job, or away from it, find it there."""
        if not self.waiting.nearing:
            return
        labels, away = self.waiting.labels_of(job), away_of(key.asks[0].near)
        if labels is not None or away:
            self.cluster.matching.put(job, tenant_of(key.account), labels or {}, rows, away)
            self._matched.append(job)

    def note_run(self, jobs: Sequence[str], key: ClassKey, class_id: int, taken: Sequence[Allocation]) -> None:
        """Notes like jobs, each with its own place."""
        table, ask = self.cluster.table, key.asks[0]
        self.placed += [
            Placed(job=job, placements=(place,), class_id=class_id)
            for job, place in zip(jobs, placements(table, taken), strict=True)
        ]
        self.spend(key.account, asked(ask, len(jobs)))

    def note_eviction(self, eviction: Eviction) -> None:
        self.evictions.append(eviction)
        self.making_room.add(eviction.job)

    def rows_held_back(self, ask: Ask) -> Ints:
        """Rows that only lack room: what running jobs hold is all that is in the way."""
        names = [name for name, _ in self.evaluations.rules.filters]
        lacking = np.array([name in HELD_BACK for name in names] + [True])
        short = lacking[self.evaluations.stage(ask)] & self.cluster.table.healthy
        return np.flatnonzero(short & self.evaluations.possible(ask))

    def _promised(self, placed: set[str]) -> dict[str, Promise]:
        if not self.more or self.profile.backfill.strategy != "aggressive":
            return self.promises
        # The cycle may not have come to these jobs; how far a start may slip counts from the first promise.
        return {job: promise for job, promise in self.cluster.promises.items() if job not in placed} | self.promises

    def _unreached(self) -> int:
        if self.budget is None or not self.budget.spent:
            return 0
        waiting = self.waiting
        return max(0, len(waiting) - sum(job in waiting for job in self.budget.seen))

    def plan(self) -> Plan:
        placed = {entry.job for entry in self.placed}
        return Plan(
            at=self.now,
            placed=tuple(self.placed),
            left=(*self.left.values(), *self.held_back.values()),
            # Jobs whose victims are asked to leave now start sooner than promised.
            promises=tuple(promise for job, promise in self._promised(placed).items() if job not in self.making_room),
            evictions=tuple(self.evictions),
            resized=tuple(self.resized),
            # A job that found another place gives up the room kept for it by starting there.
            unheld=tuple(job for job in self.unheld if job not in placed),
            considered=self.considered,
            more=self.more,
            unreached=self._unreached(),
        )
