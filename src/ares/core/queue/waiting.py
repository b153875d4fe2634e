"""All waiting jobs, gathered into classes so that scheduling costs per class, not per job."""

import heapq
from collections import Counter
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple, Protocol

from ares.core.alike import alike
from ares.core.ask import Ask, Near, asks_of, away_of
from ares.core.lifecycle.ranks import gap_needed
from ares.core.queue.factors import JobFacts, latest_start
from ares.core.queue.heads import ClassHeads
from ares.core.queue.line import Line
from ares.core.queue.order import LEVELS, Place, account_of, place, tenant_of
from ares.core.queue.repulsion import Repulsions
from ares.core.queue.run_times import RunTimes
from ares.core.queue.service import counted, service_of
from ares.core.queue.static_queue import Rank, StaticQueue, is_settled
from ares.model.job import JobSpec
from ares.model.profile import OrderPolicy
from ares.model.state import JobState

# Classes that ran empty are kept this long for the next job of their kind.
_EMPTY_KEPT = 256
# Sets of labels that jobs share.
_LABEL_SETS_MAX = 1024
# Fewer classes than this are ranked one by one.
_HEADS_FROM = 64


class ClassKey(NamedTuple):
    """What jobs of one class have in common: all that placing and ordering look at, except their times."""

    asks: tuple[Ask, ...]
    level: int
    account: str
    licences: tuple[tuple[str, int], ...]
    # Jobs with a deadline: within the class they are ordered by it.
    dated: bool
    # What their service counts.
    served_s: float = 0.0


# In front of the array's id, in the name of the licence that throttles it: no licence of a profile begins like this.
THROTTLE = "%"


def throttled(licences: tuple[tuple[str, int], ...], array: str) -> tuple[tuple[str, int], ...]:
    """With the licence of which every task of a throttled array holds one."""
    return (*licences, (f"{THROTTLE}{array}", 1))


def class_key(state: JobState, spec: JobSpec) -> ClassKey:
    asks = asks_of(spec, state.tenant)
    return ClassKey(
        tuple(ask._replace(avoid=state.avoid) for ask in asks) if state.avoid else asks,
        LEVELS[spec.priority],
        account_of(state),
        tuple(sorted(spec.licences.items())) if spec.licences else (),
        spec.deadline_at is not None or spec.start_by_at is not None,
        counted(service_of(state, spec)) if state.preemptions else 0.0,
    )


def repelled(key: ClassKey, terms: tuple[Near, ...]) -> ClassKey:
    """The class of jobs that these terms of others keep off, and no further ones."""
    before = key.asks[0].near
    own = tuple(near for near in before if not near.theirs)
    if own + terms == before:
        return key
    tenant = tenant_of(key.account) if own or terms else ""
    return key._replace(asks=tuple(ask._replace(near=own + terms, tenant=tenant) for ask in key.asks))


def facts_of(place: Place, key: ClassKey, runs_s: float = inf) -> JobFacts:
    """What the rank of a waiting job is made from."""
    latest = place[0] if key.dated else None
    return JobFacts(key.level, place[1], latest, key.account, runs_s, key.asks[0], key.served_s)


def traits_of(key: ClassKey) -> tuple[bool, bool]:
    """Whether jobs of the class run faster on some GPU models, and whether they look at jobs around them."""
    return bool(key.asks[0].runs), any(ask.near for ask in key.asks)


@dataclass(slots=True)
class JobClass:
    """Like jobs, in order."""

    id: int
    key: ClassKey
    line: Line = field(default_factory=Line)
    # No job of the class takes less time, or less of a gap.
    shortest_s: float = inf


class QueueView(Protocol):
    """What a cycle or a question reads of the queue: the queue itself, or an overlay of it."""

    # Classes with jobs, in no order: the cycle orders them.
    active: dict[int, JobClass]
    # Of these, classes whose jobs run faster on some GPU models, and classes whose jobs look at jobs around them.
    pacing: dict[int, JobClass]
    nearing: dict[int, JobClass]
    # All jobs in one line, where the order allows for that.
    settled: StaticQueue | None

    def __len__(self) -> int: ...

    def __contains__(self, job_id: str) -> bool: ...

    def heads(self) -> ClassHeads | None:
        """The first jobs of all classes; None where going through the classes costs less."""
        ...

    def ahead(self, job_id: str) -> list[Rank]:
        """Every job before a waiting job, where the order is settled."""
        ...

    def place_of(self, job_id: str) -> Place | None: ...

    def class_of(self, job_id: str) -> JobClass | None: ...

    def facts_of(self, job_id: str) -> JobFacts:
        """What the rank of a waiting job is made from."""
        ...

    def labels_of(self, job_id: str) -> dict[str, str] | None: ...

    def runs_of(self, job_id: str) -> float:
        """How long the job is taken to hold its room, as far as is known; infinity when it is not known."""
        ...

    def likely_of(self, job_id: str) -> float:
        """How long the job will likely run."""
        ...

    def gap_of(self, job_id: str) -> float | None:
        """The shortest gap that the job can make use of; None when it wants to run to its end."""
        ...


class WaitingQueue:
    """The queue. Every operation costs about the same however many jobs wait."""

    def __init__(self) -> None:
        self._places: dict[str, Place] = {}
        # For jobs that carry any.
        self._labels: dict[str, dict[str, str]] = {}
        self._label_sets: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
        self.run_times = RunTimes()
        # (latest start, job) of jobs with a deadline, the first to miss it first; jobs that left are passed over.
        self._lapsing: list[tuple[float, str]] = []
        # For jobs that make use of gaps: the shortest gap they can use.
        self._gaps: dict[str, float] = {}
        # All jobs in one line, where the order allows for that.
        self.settled: StaticQueue | None = None
        self._by_key: dict[ClassKey, JobClass] = {}
        self._by_id: dict[int, JobClass] = {}
        # The class of the latest specification: bursts of like jobs share one.
        self._latest: tuple[JobSpec | None, str, JobClass | None] = (None, "", None)
        # Classes with jobs, in no order: the cycle orders them.
        self.active: dict[int, JobClass] = {}
        self.pacing: dict[int, JobClass] = {}
        self.nearing: dict[int, JobClass] = {}
        # How many of these classes each account has.
        self.accounts: Counter[str] = Counter()
        # Their first jobs, but for classes that changed since they were last asked for.
        self._heads = ClassHeads()
        self._moved: set[int] = set()
        # What running and waiting jobs must be away from: it keeps the jobs off that they mean.
        self.repulsions = Repulsions()
        # Arrays of which only so many tasks may hold a place at once.
        self.throttles: dict[str, int] = {}
        self._next_id = 1

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._places

    def settle(self, order: OrderPolicy) -> None:
        """Another order applies from now on."""
        self.settled = settled = StaticQueue(order) if is_settled(order) else None
        if settled is not None:
            for job_id, at in self._places.items():
                settled.add(at, self.facts_of(job_id))

    def add(self, state: JobState, spec: JobSpec, runs_s: float = inf, likely_s: float = inf) -> JobClass:
        """Queues a job, once: a job that is already there is put where it belongs now. Plans go by `runs_s`, the order
        by `likely_s` where that is less."""
        found = self._class_for(state, spec)
        at = place(state, latest_start(spec, min(runs_s, likely_s)), found.id)
        if self._places.get(state.id) != at:
            self.remove(state.id)
            if spec.labels:
                self._labels[state.id] = self._shared(spec.labels)
            self.run_times.put(state.id, runs_s, likely_s)
            if spec.time_limit_s is None:
                self.run_times.without_limit(state.id)
            gap_s = gap_needed(spec)
            if gap_s < inf:
                self._gaps[state.id] = gap_s
            self._enter(at, found)
        return found

    def _enter(self, at: Place, found: JobClass) -> None:
        job_id = at[3]
        self._places[job_id] = at
        shortest_s = min(self.run_times.planned(job_id), self._gaps.get(job_id, inf))
        found.shortest_s = min(found.shortest_s, shortest_s) if len(found.line) else shortest_s
        found.line.add(at)
        self._open(found)
        if found.key.dated:
            heapq.heappush(self._lapsing, (at[0], job_id))
        if found.key.asks[0].near:
            self.repulsions.declare(tenant_of(found.key.account), away_of(found.key.asks[0].near), +1)
        if self.settled is not None:
            self.settled.add(at, self.facts_of(job_id))

    def catch_up(self) -> None:
        """Jobs that others must be away from since, or need not be any more, get the class that says so."""
        if not (stale := self.repulsions.stale):
            return
        self.repulsions.stale = set()
        for job_id, labels in list(self._labels.items()):
            at = self._places[job_id]
            key = self._by_id[at[4]].key
            tenant = tenant_of(key.account)
            if tenant in stale:
                other = repelled(key, self.repulsions.against(tenant, labels))
                if other != key:
                    self._leave(at)
                    found = self._class(other)
                    self._enter((*at[:4], found.id), found)

    def lapse(self, now: float) -> None:
        """Jobs that would miss their deadline though they started now line up with jobs that have none."""
        if len(self._lapsing) > 2 * len(self._places) + _EMPTY_KEPT:
            self._lapsing = sorted({entry for entry in self._lapsing if entry[1] in self._places})
        while self._lapsing and self._lapsing[0][0] < now:
            latest, job_id = heapq.heappop(self._lapsing)
            at = self._places.get(job_id)
            key = None if at is None else self._by_id[at[4]].key
            if at is not None and key is not None and key.dated and at[0] == latest:
                self._leave(at)
                found = self._class(key._replace(dated=False))
                self._enter((0.0, *at[1:4], found.id), found)

    def _shared(self, labels: dict[str, str]) -> dict[str, str]:
        """Jobs with equal labels share them."""
        if len(self._label_sets) >= _LABEL_SETS_MAX:
            self._label_sets.clear()
        return self._label_sets.setdefault(tuple(labels.items()), labels)

    def remove(self, job_id: str) -> bool:
        at = self._places.get(job_id)
        if at is None:
            return False
        self._leave(at)
        self.run_times.drop(job_id)
        for known in (self._labels, self._gaps):
            if known:
                known.pop(job_id, None)
        return True

    def _leave(self, at: Place) -> None:
        job_id = at[3]
        del self._places[job_id]
        if self.settled is not None:
            self.settled.remove(job_id)
        found = self._by_id[at[4]]
        found.line.remove(at)
        self._moved.add(found.id)
        if found.key.asks[0].near:
            self.repulsions.declare(tenant_of(found.key.account), away_of(found.key.asks[0].near), -1)
        if not len(found.line):
            account = found.key.account
            self.accounts[account] -= 1
            if not self.accounts[account]:
                del self.accounts[account]
            for classes in (self.active, self.pacing, self.nearing):
                classes.pop(found.id, None)

    def _open(self, job_class: JobClass) -> None:
        """The class has a job more."""
        self._moved.add(job_class.id)
        if job_class.id not in self.active:
            self.active[job_class.id] = job_class
            self.accounts[job_class.key.account] += 1
            tells, looks = traits_of(job_class.key)
            if tells:
                self.pacing[job_class.id] = job_class
            if looks:
                self.nearing[job_class.id] = job_class

    def heads(self) -> ClassHeads | None:
        """The first jobs of all classes; None where going through the classes costs less."""
        if len(self.active) < _HEADS_FROM:
            # They are made anew once there are many.
            self._heads, self._moved = ClassHeads(), set()
            return None
        for number in self._moved if len(self._heads) else self.active.keys():
            if (job_class := self.active.get(number)) is None:
                self._heads.drop(number)
            else:
                self._heads.put(number, facts_of(job_class.line.nth(0), job_class.key))
        self._moved = set()
        return self._heads

    def ahead(self, job_id: str) -> list[Rank]:
        """Every job before a waiting job, where the order is settled."""
        return [] if self.settled is None else self.settled.ahead(job_id)

    def jobs(self) -> list[str]:
        return list(self._places)

    def place_of(self, job_id: str) -> Place | None:
        return self._places.get(job_id)

    def labels_of(self, job_id: str) -> dict[str, str] | None:
        return self._labels.get(job_id)

    def runs_of(self, job_id: str) -> float:
        """How long the job is taken to hold its room, as far as is known; infinity when it is not known."""
        return self.run_times.held(job_id)

    def likely_of(self, job_id: str) -> float:
        """How long the job will likely run."""
        return self.run_times.likely(job_id)

    def renew(self, job_id: str, runs_s: float, likely_s: float) -> None:
        """The job is taken to run for another time than before. Its place among jobs with a deadline stays."""
        at = self._places[job_id]
        self.run_times.put(job_id, runs_s, likely_s)
        found = self._by_id[at[4]]
        found.shortest_s = min(found.shortest_s, self.run_times.planned(job_id))
        if self.settled is not None:
            self.settled.remove(job_id)
            self.settled.add(at, self.facts_of(job_id))

    def gap_of(self, job_id: str) -> float | None:
        """The shortest gap that the job can make use of; None when it wants to run to its end."""
        return self._gaps.get(job_id)

    def facts_of(self, job_id: str) -> JobFacts:
        """What the rank of a waiting job is made from."""
        at = self._places[job_id]
        key = self._by_id[at[4]].key
        return facts_of(at, key, self.likely_of(job_id))

    def class_of(self, job_id: str) -> JobClass | None:
        at = self._places.get(job_id)
        return None if at is None else self._by_id[at[4]]

    def class_like(self, key: ClassKey) -> JobClass:
        """The class of this key as it is; an empty one, which is not kept, where no job of the kind was seen."""
        return self._by_key.get(key) or JobClass(self._next_id, key)

    def key_of(self, state: JobState, spec: JobSpec) -> ClassKey:
        """The class that the job would have in the queue."""
        key = class_key(state, spec)
        if self.repulsions and spec.labels:
            key = repelled(key, self.repulsions.against(state.tenant, spec.labels))
        if state.array is not None and state.array in self.throttles:
            return key._replace(licences=throttled(key.licences, state.array))
        return key

    def _class_for(self, state: JobState, spec: JobSpec) -> JobClass:
        before, whose, latest = self._latest
        account = account_of(state)
        throttled = state.array is not None and state.array in self.throttles
        if state.avoid or state.preemptions or throttled or (spec.labels and self.repulsions):
            return self._class(self.key_of(state, spec))
        if latest is not None and before and whose == account and latest.id in self._by_id and alike(spec, before):
            return latest
        found = self._class(class_key(state, spec))
        self._latest = (spec, account, found)
        return found

    def _class(self, key: ClassKey) -> JobClass:
        found = self._by_key.get(key)
        if found is None:
            self._forget_empty()
            found = self._by_key[key] = JobClass(self._next_id, key)
            self._by_id[found.id] = found
            self._next_id += 1
        return found

    def _forget_empty(self) -> None:
        if len(self._moved) > 2 * len(self.active) + _EMPTY_KEPT:
            # Nothing has asked for them in a long time.
            self._heads, self._moved = ClassHeads(), set()
        # Sweeping only when most are empty keeps the cost per new class constant.
        if len(self._by_key) <= 2 * len(self.active) + _EMPTY_KEPT:
            return
        self._by_key = {job_class.key: job_class for job_class in self.active.values()}
        self._by_id = {job_class.id: job_class for job_class in self.active.values()}
