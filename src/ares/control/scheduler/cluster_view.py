"""Keeps the scheduler's cluster state current on every replica, from changes of the view.

A follower's state is as fresh as the leader's, so a failover starts warm, and any replica can say
why a job waits and its position in the queue.
"""

import asyncio
from collections.abc import Mapping
from math import inf
from typing import Protocol

import structlog

from ares.api.decisions import Eta
from ares.api.reasons import Reason
from ares.control.scheduler.monitor import ready
from ares.control.state.pacing import stepped
from ares.control.state.unusable_records import UNUSABLE
from ares.control.state.view import Delta, View
from ares.core import keys
from ares.core.admit.placement import at_least
from ares.core.explain.held_back import held_back, named, paced_jobs, waits_for_faster
from ares.core.explain.why import why_waiting
from ares.core.forecast.eta import Etas, Wait, eta
from ares.core.forecast.predictor import Predictor
from ares.core.queue.kept_turns import kept_turns
from ares.core.queue.position import position
from ares.core.queue.usage import DecayedUsage
from ares.core.reserve.waits import held_for, waits_within
from ares.core.schedule.actions import ACTIONS
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.follower import count_use, follow, forget, throttle
from ares.core.schedule.pace import PacedJob
from ares.core.schedule.plan import Plan
from ares.core.schedule.plugins import without_unknown
from ares.core.starts.starts import Course, Starts
from ares.core.starts.wait import Supplies
from ares.model.access import Principal
from ares.model.isolation import Isolation
from ares.model.job import JobSpec
from ares.model.profile import Profile
from ares.model.reservation import BOOKED
from ares.model.state import JobState
from ares.ports.clock import Clock

log = structlog.get_logger()

_REASONS_KEPT_S = 1.0
# With thousands of nodes a look takes milliseconds.
_LOOK_EVERY_S = 0.25
_ROUNDING_S = 1e-6
# Computing it reads every running job.
_SUPPLIES_KEPT_S = 1.0
_NO_NODE = frozenset({"NO_NODES", "NO_READY_NODES"})
_SOON = Reason(code="NEXT_CYCLE", message="there is room for it; the next cycle gets to it")


def unsubmitted(who: Principal, now: float, spec: JobSpec | None = None) -> JobState:
    """A job as it would be in the queue if its submitter sent it now: every what-if begins with this one."""
    name, team = ("", None) if spec is None else (spec.name, spec.team)
    return JobState(
        id="planned", tenant=who.tenant, name=name, submitted_by=who.subject, team=team, submitted_at=now, queued_at=now
    )


def _goes_on(before: JobState | None, after: JobState) -> bool:
    """Whether the job was given the place that a plan has for it, or began to run there: no room came free by that."""
    if before is None or before.hold:
        return False
    bound = before.phase == "PENDING" and after.phase == "STAGING"
    begun = before.phase == "STAGING" and after.phase == "RUNNING" and after.placements == before.placements
    return bound or begun


class Elsewhere(Protocol):
    """Clusters of a federation, of which jobs that wait here may be offered to one. None: there are none."""

    def reason(self, job: str) -> Reason | None: ...

    def course(self, state: JobState, spec: JobSpec, now: float) -> Course | str | None: ...


class LiveCluster:
    """Owns the `Cluster`; `changed` is set whenever something might be schedulable now."""

    def __init__(self, view: View, clock: Clock) -> None:
        self._view = view
        self._clock = clock
        # Names in the profile that this process does not know.
        self.unknown: tuple[str, ...] = ()
        # It outlives the cluster state that it learned from.
        self.predictor = Predictor()
        self.etas = Etas()
        self._supplies: tuple[float, Supplies] | None = None
        self._starts: tuple[float, Starts] | None = None
        self.cluster = Cluster(self._profile(), self.predictor)
        self.changed = asyncio.Event()
        # Set by every change but a submission and what is as planned: there may be room where there was none.
        self.roomier = asyncio.Event()
        # Counts changes. A waiting task compares it to see whether more keep coming.
        self.news = 0
        self._looked_at = float("-inf")
        # Before this no node falls silent that is ready now.
        self._silent_from = float("-inf")
        # By class, with when each was found.
        self._reasons: dict[int, tuple[float, Reason | None]] = {}
        # By class, reasons that only the planning process knows: those of plugins' filters.
        self._told: dict[int, Reason] = {}
        # Of jobs with run times by GPU model, with when it was found.
        self._paced_at, self._paced = float("-inf"), dict[str, PacedJob]()
        # What a global plane knows that its own nodes do not show.
        self.elsewhere: Elsewhere | None = None
        # Of tenants that ask for any.
        self._isolation: dict[str, Isolation] = {}
        view.subscribe(self._on_delta)

    def planned(self, plan: Plan, *, whole: bool) -> None:
        """Keeps what was promised, and drops what is known about classes that the latest cycle did not leave out.
        `whole`: every waiting job had a turn."""
        self.cluster.promise(plan.promises, more=not whole)
        # The planner numbers classes on its own, so a class that was left out is found by one of its jobs.
        left = (self.cluster.waiting.class_of(waiting.first_job) for waiting in plan.left)
        still = {job_class.id for job_class in left if job_class is not None}
        self._reasons = {number: known for number, known in self._reasons.items() if number in still}
        self._told = {number: known for number, known in self._told.items() if number in still}

    def tell(self, reasons: Mapping[str, Reason]) -> None:
        """Why jobs wait, and all that are like them, where only the planning process can say."""
        for job, reason in reasons.items():
            if (found := self.cluster.waiting.class_of(job)) is not None:
                self._told[found.id] = reason

    def reason(self, job_id: str) -> Reason | None:
        """Why the job waits, as things are now; None when it does not wait."""
        found = self.cluster.waiting.class_of(job_id)
        if found is None:
            return None
        kept = self.cluster.reserved.get(job_id)
        if kept is not None:
            count = len(kept.evicting)
            message = f"room is kept for it; {count} job{'' if count == 1 else 's'} on the way out for it"
            return Reason(code="WAITING_FOR_EVICTION", message=message, numbers={"evicting": count})
        if (told := self._told.get(found.id)) is not None:
            return told
        at, known = self._reasons.get(found.id, (float("-inf"), None))
        now = self._clock.wall()
        if self._clock.monotonic() - at > _REASONS_KEPT_S:
            self.refresh_ready()
            known = waits_within(self.cluster, found.key, now) or why_waiting(self.cluster, found.key, now)
            known = self._elsewhere(job_id, known)
            self._reasons[found.id] = (self._clock.monotonic(), known)
        if known is None and (faster := self._waits_for_faster(job_id, now)) is not None:
            return faster
        # Whether it may have the room that there is depends on how long this very job runs.
        runs_s = self.cluster.waiting.runs_of(job_id)
        held = held_for(self.cluster, found.key, runs_s, now) if known is None else None
        return known or held or held_back(self.cluster, job_id, found.key, runs_s, now) or _SOON

    def _elsewhere(self, job_id: str, own: Reason | None) -> Reason | None:
        """A job that has no node here may have a cluster."""
        if own is None or own.code not in _NO_NODE or self.elsewhere is None:
            return own
        return self.elsewhere.reason(job_id) or own

    def paced(self, job_id: str) -> PacedJob | None:
        """Where and when a waiting job is to run that says how long it runs on which GPU model."""
        found = self.cluster.waiting.class_of(job_id)
        if found is None or not found.key.asks[0].runs:
            return None
        if self._clock.monotonic() - self._paced_at > _REASONS_KEPT_S:
            self.refresh_ready()
            self._paced = paced_jobs(self.cluster, self._clock.wall())
            self._paced_at = self._clock.monotonic()
        return self._paced.get(job_id)

    def _waits_for_faster(self, job_id: str, now: float) -> Reason | None:
        job = self.paced(job_id)
        return None if job is None else waits_for_faster(job, now)

    async def position(self, job_id: str) -> int | None:
        """How many waiting jobs are ahead of this one, or None when it does not wait."""
        cluster, now = self.cluster, self._clock.wall()
        shares = cluster.shares(now)
        kept = kept_turns(cluster.waiting, cluster.promises, cluster.profile, shares, now)
        stands = await stepped(position.steps(cluster.waiting, job_id, shares, cluster.profile.order, now, kept))
        return None if stands is None else stands.ahead

    def wait_of(self, job_id: str) -> Wait | None:
        """How long the job is said to wait; None when it does not wait."""
        now = self._clock.monotonic()
        if self._supplies is None or now - self._supplies[0] > _SUPPLIES_KEPT_S:
            self._supplies = now, Supplies(self.cluster, self._clock.wall())
        wait, slot = self._supplies[1].wait_of(job_id), self.paced(job_id)
        if wait is None or slot is None:
            return wait
        where = "several GPU models" if slot.model is None else named(slot.model)
        return wait._replace(seconds=max(0.0, slot.start - self._clock.wall()), basis=f"planned for {where}")

    async def start_of(self, job_id: str) -> Course | str | None:
        """When the job starts, or why that is unknown; None when it does not wait."""
        entry = self._view.entries.get(job_id)
        spec = None if entry is None else self._view.spec(entry.state)
        if entry is None or spec is None or job_id not in self.cluster.waiting:
            return None
        now = self._clock.monotonic()
        if self._starts is None or now - self._starts[0] > _SUPPLIES_KEPT_S:
            self._starts = now, Starts(self.cluster, self._clock.wall())
        spec = at_least(spec, self._view.kept.isolation(entry.state.tenant))
        return (await stepped(self._starts[1].steps(entry.state, (spec,))))[0]

    async def eta(self, job_id: str) -> Eta | None:
        """When the job starts, in four of five cases like it; None when it does not wait or can never run."""
        wait, reason = self.wait_of(job_id), self.reason(job_id)
        if wait is None or (reason is not None and reason.remedy == "yours"):
            return None
        now = self._clock.wall()
        if isinstance(start := await self.start_of(job_id), Course):
            wait = wait._replace(seconds=max(0.0, start.start - now), basis=start.basis)
        if job_id in self.etas:
            self.etas.give(job_id, wait, now)
        return eta(self.etas, wait, now)

    def _on_delta(self, delta: Delta) -> None:
        if delta.relisted:
            self._silent_from = float("-inf")
            self.cluster = Cluster(self._profile(), self.predictor)
            self._supplies = self._starts = None
            # Reasons are by class, and the new cluster state numbers its classes anew.
            self._reasons.clear()
            self._told.clear()
        # In an order that does not depend on the process, so that a run can be repeated.
        for name in sorted(delta.nodes):
            self._put_node(name)
        # Every node renews all the time: only a change of readiness matters.
        readied = sum(self._set_ready(name) for name in delta.leases)
        for array in self._view.arrays if delta.relisted else delta.arrays:
            self._throttle(array)
        now = self._clock.wall()
        for before, entry in delta.states:
            follow(self.cluster, before, entry.state, self._view.spec(entry.state), now)
        for state in delta.removed:
            forget(self.cluster, state.id)
        for name in sorted(delta.reservations):
            self._put_reservation(name)
        if keys.TENANTS in delta.kept and self._isolate():
            self.changed.set()
        if delta.profile and not delta.relisted:
            # After the states: use is counted anew from what the view holds, which is as of the end of the batch.
            self._configure()
        self._tell_of(delta, bool(delta.nodes or readied or delta.relisted or delta.profile or delta.reservations))

    def _tell_of(self, delta: Delta, else_than_jobs: bool) -> None:
        """A plan is made anew where it could be another one. It is not where jobs go on as planned."""
        if delta.states or else_than_jobs:
            self.news += 1 + len(delta.states)
        grows = self.cluster.may_grow
        moved = [before for before, entry in delta.states if grows or not _goes_on(before, entry.state)]
        if else_than_jobs or moved:
            self.changed.set()
        if else_than_jobs or any(before is not None for before in moved):
            self.roomier.set()

    def _profile(self) -> Profile:
        """The profile in force, without names that this process does not know."""
        record = self._view.profile
        profile, self.unknown = without_unknown(record.profile, ACTIONS)
        if self.unknown:
            log.error("profile.unknown_names", version=record.version, names=self.unknown)
        return profile

    def _configure(self) -> None:
        profile, before = self._profile(), self.cluster.profile
        # Reasons follow from the old profile.
        self._reasons.clear()
        self._told.clear()
        self.cluster.configure(profile)
        if profile.order.half_life_s != before.order.half_life_s:
            self.cluster.usage = DecayedUsage(profile.order.half_life_s)
            for entry in self._view.entries.values():
                count_use(self.cluster, None, entry.state, self._clock.wall())

    def _isolate(self) -> bool:
        """Jobs that wait go by what their tenant asks for now. Whether any had to be looked at again."""
        before, tenants = self._isolation, self._view.kept.tenants
        self._isolation = {name: tenant.isolation for name, tenant in tenants.items() if tenant.isolation != "any"}
        moved = {name for name, _ in before.items() ^ self._isolation.items()}
        again = [entry.state for entry in self._view.entries.values() if entry.state.tenant in moved] if moved else []
        for state in again:
            spec = self._view.spec(state)
            if spec is not None and state.id in self.cluster.waiting:
                self.cluster.dequeue(state.id)
                self.cluster.enqueue(state, spec)
        self._reasons.clear()
        return bool(again)

    def _throttle(self, array_id: str) -> None:
        record = self._view.arrays.get(array_id)
        limit = None if record is None else record.throttle
        if limit is None and array_id not in self.cluster.waiting.throttles:
            return
        entries, jobs = self._view.entries, self._view.by_array.get(array_id, ())
        tasks = [(entries[job].state, self._view.spec(entries[job].state)) for job in jobs]
        throttle(self.cluster, array_id, limit, tasks)
        self._reasons.clear()
        self.changed.set()

    def _put_reservation(self, name: str) -> None:
        record, _ = self._view.reservations.get(name, (None, 0))
        if record is not None and record.state in BOOKED:
            self.cluster.book(record)
        else:
            self.cluster.unbook(name)
        # Some reasons are about reserved room.
        self._reasons.clear()

    def _put_node(self, name: str) -> None:
        record = self._view.nodes.get(name)
        if record is None:
            self.cluster.drop_node(name)
            return
        try:
            self.cluster.put_node(record)
        except UNUSABLE as error:
            self.cluster.drop_node(name)
            self._view.aside.put(keys.node(name), error)
            return
        self._set_ready(name)

    def _set_ready(self, name: str) -> bool:
        """Whether the scheduler may place there now and could not before, or the other way round."""
        if name not in self.cluster.rows:
            return False
        if is_ready := ready(self._view, name):
            entry = self._view.leases[name]
            self._silent_from = min(self._silent_from, entry.seen_at + entry.lease.dead_after_s - _ROUNDING_S)
        return self.cluster.set_ready(name, is_ready)

    def refresh_ready(self) -> None:
        """Silence makes no change in the store: look at the clock, every now and then."""
        now = self._clock.monotonic()
        if now - self._looked_at < _LOOK_EVERY_S:
            return
        self._looked_at = now
        if now >= self._silent_from:
            self._silent_from = inf
            for name in self._view.nodes:
                self._set_ready(name)
