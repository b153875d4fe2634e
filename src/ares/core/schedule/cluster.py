"""The scheduler's picture of the cluster: nodes, what is held on them, and waiting jobs. In memory, without I/O.

The scheduler keeps it up to date from what it sees in the store; every operation may be repeated.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping
from math import inf
from types import MappingProxyType
from typing import NamedTuple

from msgspec.structs import replace

from ares.api.decisions import Promise
from ares.core.ask import Ask
from ares.core.capacity.capacity import Capacity, Reserved
from ares.core.capacity.holding import Holding, held_by
from ares.core.capacity.pauses import GrowthPauses, Yields
from ares.core.capacity.typical import TypicalData, Typicals
from ares.core.capacity.wishes import facts_of
from ares.core.forecast.predictor import Predictor
from ares.core.queue.backlog import Backlog
from ares.core.queue.drf import Amounts
from ares.core.queue.order import account_of
from ares.core.queue.renewal import Renewal
from ares.core.queue.shares import Shares
from ares.core.queue.usage import DecayedUsage
from ares.core.queue.waiting import JobClass, WaitingQueue
from ares.core.schedule.plugins import rules_of
from ares.model.job import JobSpec
from ares.model.node import NodeRecord
from ares.model.profile import Pool, Profile, ShareResource
from ares.model.state import JobState


class Moment(NamedTuple):
    """How often the future got better (`slack`), worse (`setbacks`), or changed at all."""

    slack: int
    setbacks: int
    changes: int


class Cluster(Capacity):
    """Jobs on top of capacity: what running jobs hold, which jobs wait, and starts that were promised."""

    def __init__(
        self,
        profile: Profile = Profile(),  # noqa: B008 - frozen
        predictor: Predictor | None = None,
        cut: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__()
        # Plugins that are not to be called, "kind name", with what happened.
        self.cut = cut
        self.waiting = WaitingQueue()
        self.backlog = Backlog()
        self.usage = DecayedUsage(profile.order.half_life_s)
        # Use need not be counted where the profile never changes and its order does not look at it.
        self.metered = True
        self.licences_used: Counter[str] = Counter()
        self.typicals = Typicals()
        # What every account holds, in sum.
        self._held: dict[str, Amounts] = {}
        # Running gangs that may have more or fewer ranks.
        self.elastic: set[str] = set()
        self.pauses = GrowthPauses()
        # Jobs that hold resources and are on their way out, or some of their ranks are.
        self.leaving: set[str] = set()
        # How many running jobs may be evicted, by priority level.
        self.preemptible: Counter[int] = Counter()
        self.yields = Yields()
        self.predictor = predictor or Predictor()
        # Starts that the latest plan promised to waiting jobs.
        self.promises: dict[str, Promise] = {}
        # These, and older promises that the latest plan could not renew for want of an estimate: kept until it can.
        self.told: dict[str, Promise] = {}
        # Starts that other planners promised to jobs that wait with them: room is held for those, too.
        self.claimed: dict[str, Promise] = {}
        # How much slack the future had when promises were made, and how often it had changed.
        self.promised_at = self.promised_when = self.promised_before = 0
        self._renewal = Renewal()
        self._facts_stale = True
        self.profile = profile
        self.configure(profile)

    def configure(self, profile: Profile) -> None:
        """Another profile applies from now on."""
        before, self.profile = self.profile, profile
        self.predictor.go_by(profile.prediction)
        self.evaluations.rules = rules_of(profile, self.cut)
        runs = self.waiting.run_times
        runs.holds_likely = profile.backfill.hold == "likely"
        runs.by_likely = runs.holds_likely and self.guard.since is None
        self.waiting.settle(profile.order)
        # Of what is known about a node, only its pool's settings and its power draw depend on the profile.
        moved = {
            name for name in before.pools.keys() | profile.pools if before.pools.get(name) != profile.pools.get(name)
        }
        for record in [record for record in self.table.records if record is not None]:
            if record.info.pool in moved or before.energy != profile.energy:
                self.put_node(record)
        self._facts_stale = True

    # ---- nodes

    def put_node(self, record: NodeRecord) -> None:
        """Adds a node or replaces what is known about it. What is held on it stays held."""
        name = record.info.name
        row = self.rows.get(name)
        if row is None:
            row = self.rows[name] = self._new_row()
            self._match_on(name)
        self._in_all = None
        before, shapes = self.table.records[row], self.table.shape_changes
        self.table.put(row, record, self.profile.pools.get(record.info.pool, _PLAIN))
        self._shift(row)
        self.evaluations.renew(row)
        self._set_healthy(name)
        self._set_free(name)
        if before is None or (before.info, before.taints, before.cached) != (record.info, record.taints, record.cached):
            self.evaluations.forget_possible()
            self._facts_stale = True
            if self.table.shape_changes != shapes:
                # Whether links matter at all depends on every machine there is.
                self.evaluations.forget()
            self._forget_places(before, record)

    def _forget_places(self, before: NodeRecord | None, record: NodeRecord) -> None:
        """Datasets that come or go change which other rows are near to data."""
        if record.datasets or (before is not None and before.datasets):
            self.evaluations.forget()

    def drop_node(self, name: str) -> None:
        self._ready.discard(name)
        row = self.rows.pop(name, None)
        if row is None:
            return
        self._in_all = None
        heapq.heappush(self._unused, row)
        self.future.setbacks += 1
        self._match_on(name)
        self.evaluations.forget()
        self.table.drop(row)
        for kind in self.table.devices_taken:
            self.table.devices_taken[kind][row] = 0
        self.evaluations.touch(row)
        self.future.touch(row)
        self.evaluations.forget_possible()
        self._facts_stale = True

    # ---- resources that attempts hold

    def hold(self, holding: Holding) -> None:
        """Takes an attempt's resources, instead of any that the job held before."""
        old = self.holdings.get(holding.job)
        if old is not None and old.placements == holding.placements and old.runs_s == holding.runs_s:
            self.preemptible[old.level] -= old.preemptible
            self.preemptible[holding.level] += holding.preemptible
            # The estimated end was corrected while the attempt ran.
            self._put_holding(holding if old.since != holding.since else replace(holding, ends_at=old.ends_at))
            return
        job, placements = holding.job, holding.placements
        if old is not None:
            self.release(job)
            self.pauses.resized(old, holding)
        if self.reserved:
            self.unreserve(job)
        self._put_holding(holding)
        self.future.hold(job, placements, self._end_of(holding))
        if holding.preemptible:
            self.preemptible[holding.level] += 1
        self._change(placements, +1)
        for place in placements:
            self.on_node.setdefault(place.node, {})[job] = None
        for name, count in holding.licences:
            self.licences_used[name] += count
        if holding.labels or holding.away:
            self._match(holding)
            self.waiting.repulsions.declare(holding.tenant, holding.away, +1)
        self._count(holding.account, held_by(placements), +1)

    def _match(self, holding: Holding) -> None:
        rows = tuple(row for place in holding.placements if (row := self.rows.get(place.node)) is not None)
        self.matching.put(holding.job, holding.tenant, holding.labels, rows, holding.away)

    def _match_on(self, name: str) -> None:
        """The node has another row now, or none: jobs that run there are found by the new row."""
        for job in self.on_node.get(name, ()):
            if (holding := self.holdings[job]).labels or holding.away:
                self._match(holding)

    def _put_holding(self, holding: Holding) -> None:
        self.holdings[holding.job] = holding
        if holding.elastic is not None:
            self.elastic.add(holding.job)
        elif self.elastic:
            self.elastic.discard(holding.job)
        self.yields.put(holding)
        if holding.leaving:
            self.leaving.add(holding.job)
        elif self.leaving:
            self.leaving.discard(holding.job)

    def release(self, job_id: str) -> None:
        holding = self.holdings.pop(job_id, None)
        if holding is None:
            return
        self.elastic.discard(job_id)
        self.leaving.discard(job_id)
        self.yields.drop(job_id)
        self.preemptible[holding.level] -= holding.preemptible
        self.future.release(job_id, holding.placements)
        self.future.slack += 1
        self._change(holding.placements, -1)
        for place in holding.placements:
            self.on_node[place.node].pop(job_id, None)
        for name, count in holding.licences:
            self.licences_used[name] -= count
        self.matching.drop(job_id)
        self.waiting.repulsions.declare(holding.tenant, holding.away, -1)
        self._count(holding.account, held_by(holding.placements), -1)

    def reserve(self, job_id: str, kept: Reserved) -> None:
        """Keeps room for the job that victims are evicted for; no other job gets it."""
        if self.reserved.get(job_id) != kept:
            self.unreserve(job_id)
            if kept.placements:
                self.reserved[job_id] = kept
                self.future.setbacks += 1
                self._change(kept.placements, +1)

    def unreserve(self, job_id: str) -> None:
        kept = self.reserved.pop(job_id, None)
        if kept is not None:
            self._change(kept.placements, -1)

    # ---- waiting jobs

    def enqueue(self, state: JobState, spec: JobSpec) -> JobClass:
        estimate = self.predictor.met(state.id, spec, account_of(state))
        runs_s, likely_s = (inf, inf) if estimate is None else (estimate.hold_s, estimate.seconds)
        found = self.waiting.add(state, spec, runs_s, likely_s)
        self.backlog.add(state.id, found.key.asks[0], found.key.level, likely_s)
        self.count_shape(found.key.asks[0], state.submitted_at)
        return found

    def count_shape(self, ask: Ask, at: float) -> None:
        """A job with such an ask came then: that shape is so much more common here."""
        if ask.gpus:
            self._facts_stale |= self.typicals.count(ask, at)

    def dequeue(self, job_id: str) -> None:
        self.waiting.remove(job_id)
        self.backlog.remove(job_id)
        if self.told:
            self.told.pop(job_id, None)
        if self.promises and self.promises.pop(job_id, None) is not None:
            self.future.slack += 1

    # ---- promises, reservations and expected ends

    def promise(self, promises: Iterable[Promise], *, more: bool = False, as_of: Moment | None = None) -> None:
        """What the latest plan promised, instead of what earlier plans did. With `more` that plan did not come to every
        waiting job; where several plans together did, `as_of` is when the first of them began."""
        self.promises = {promise.job: promise for promise in promises if promise.job in self.waiting}
        others = self.told.keys() - self.promises.keys()
        if not more and self.promises:
            # The plan came to a job all of whose promised nodes are ready, and promised it nothing: others are ahead.
            others = {job for job in others if not self._all_there(self.told[job])}
        self.told = {job: self.told[job] for job in others} | self.promises
        self.guard.promised(self.promises.values())
        if more:
            # What got better or worse still has to be looked at by the next plan.
            return
        self.promised_at, self.promised_before, self.promised_when = as_of or self.moment

    def know_typical(self, data: TypicalData) -> None:
        """Goes on from the common shapes of another picture."""
        self.typicals.restore(data)
        self._facts_stale = True

    def remember(self, told: Iterable[Promise]) -> None:
        """What jobs were told before this picture was built."""
        self.told |= {promise.job: promise for promise in told if promise.job in self.waiting}

    def _all_there(self, promise: Promise) -> bool:
        rows = [self.rows.get(place.node) for place in promise.placements]
        return all(row is not None and self.table.healthy[row] for row in rows)

    def guessed(self, promise: Promise) -> bool:
        """Whether a job in that room has a limit that it is not planned by."""
        jobs = (job for place in promise.placements for job in self.on_node.get(place.node, ()))
        return any(self.holdings[job].limit_s is not None for job in jobs)

    @property
    def moment(self) -> Moment:
        """Counters that tell whether anything got better or worse since."""
        return Moment(self.future.slack, self.future.setbacks, self.future.changes)

    def ends_at(self, job_id: str) -> float | None:
        """When a job that runs is planned to have ended; None where that is not known."""
        at = self.future.ends_at(job_id)
        return None if at == inf else at

    def outlive(self, job_id: str, now: float) -> None:
        """The job runs beyond its estimate: plans go by a corrected one from now on."""
        holding = self.holdings[job_id]
        if holding.runs_s is None:
            return
        self.future.setbacks += 1
        planned_s = self.predictor.corrected(holding.runs_s, now - holding.since, holding.limit_s)
        self.holdings[job_id] = later = replace(holding, ends_at=holding.since + planned_s)
        self.future.release(job_id, holding.placements)
        self.future.hold(job_id, later.placements, self._end_of(later))
        for place in holding.placements:
            self._shift(self.rows.get(place.node))

    @property
    def pending(self) -> int:
        return len(self.waiting)

    @property
    def some_ready(self) -> bool:
        """Whether there is any node that something could be placed on."""
        return bool(self._ready)

    @property
    def may_grow(self) -> bool:
        """Whether some running gang would take more ranks."""
        return any(
            (ask := self.holdings[job].elastic) is not None and len(self.holdings[job].ranks) < ask.ranks
            for job in self.elastic
        )

    # ---- shares

    def shares(self, now: float) -> Shares:
        """What every account holds and has used. Each cycle makes its own, and changes it."""
        return Shares(self.capacity(), self.profile.shares, self.usage, now, self._held, self.waiting.accounts)

    def _count(self, account: str, held: Amounts, sign: int) -> None:
        cpu, memory, gpu = held
        had_cpu, had_memory, had_gpu = self._held.get(account, _NONE)
        after = Amounts(had_cpu + sign * cpu, had_memory + sign * memory, had_gpu + sign * gpu)
        if after == _NONE:
            self._held.pop(account, None)
        else:
            self._held[account] = after

    def held_by_tenant(self) -> dict[str, Amounts]:
        """What all accounts of each tenant hold together."""
        found: dict[str, Amounts] = {}
        for account, held in self._held.items():
            tenant = account.partition("/")[0]
            before = found.get(tenant, _NONE)
            found[tenant] = Amounts(*(had + more for had, more in zip(before, held, strict=True)))
        return found

    def held_below(self, path: str, resource: ShareResource) -> int:
        """What an account and all accounts below it hold of one resource."""
        at = {"cpu": 0, "memory": 1, "gpu": 2}[resource]
        return sum(
            held[at] for account, held in self._held.items() if account == path or account.startswith(f"{path}/")
        )

    # ---- before a cycle

    def advance(self, now: float) -> None:
        """Time goes on: jobs that run beyond their estimate get a new one. For the owner of this picture, before it
        plans by it; cycles and questions leave the time alone."""
        self.pauses.now = now
        self.waiting.lapse(now)
        if self.guard.switched(self.profile.backfill, now):
            self.waiting.run_times.by_likely = self.guard.since is None and self.waiting.run_times.holds_likely
            self._all_end_anew()
        self.future.slack += self._renewal.go_on(self.waiting, self.predictor, self.backlog, now)
        for job_id in self.future.overdue(now):
            self.outlive(job_id, now)

    def prepare(self) -> None:
        """Recomputes what holds for the cluster as a whole, if it changed."""
        self.waiting.catch_up()
        if not self._facts_stale:
            return
        self._facts_stale = False
        facts = facts_of(self.table, self.typicals)
        if facts != self.evaluations.facts:
            self.evaluations.facts = facts
            self.evaluations.forget()


_PLAIN = Pool()
_NONE = Amounts(0, 0, 0)
