"""Deadlines and classes of service: whether a job will meet its own, and how many did."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from msgspec.structs import asdict, replace

from ares.api.deadlines import DeadlineSeen, SlaBy, SlaView
from ares.control.scheduler.cluster_view import LiveCluster, unsubmitted
from ares.control.state.pacing import LOOKED_AT, WORKED_ON, breathe, stepped
from ares.control.state.view import View
from ares.core.access.table import sees_all
from ares.core.admit.admission import dated, unknown
from ares.core.forecast.estimate import Estimate
from ares.core.lifecycle.deadline import budget_left, decided_at, outcome
from ares.core.lifecycle.usage_report import cluster_of
from ares.core.refusal import Refusal
from ares.core.starts.deadlines import judged, outlook, ways
from ares.core.starts.starts import Course, Starts
from ares.model.access import Principal
from ares.model.job import JobSpec
from ares.model.profile import Sla
from ares.model.state import BOUND, TERMINAL, JobState
from ares.ports.clock import Clock

# Jobs of one submission that are checked: a large batch must not slow down other requests.
_LOOKED_AT_MAX = 16
_NAMED_MAX = 20
# Of jobs that have a deadline of their own.
OWN = ""


class Deadlines:
    """Reads the scheduler's picture; changes nothing."""

    def __init__(self, view: View, planner: LiveCluster, clock: Clock, here: str) -> None:
        self._view = view
        self._planner = planner
        self._clock = clock
        # The name of this cluster.
        self._here = here

    # ---- before a job is accepted

    @property
    def classes(self) -> dict[str, Sla]:
        return self._view.profile.profile.slas

    def unknown(self, spec: JobSpec) -> Refusal | None:
        """Why the job cannot be of the class of service it names."""
        return unknown(spec, self.classes)

    def dated(self, spec: JobSpec) -> JobSpec:
        """With the times that its class of service gives it from now on."""
        return dated(spec, self.classes, self._clock.wall())

    async def ahead(self, who: Principal, spec: JobSpec, starts: Starts | None = None) -> DeadlineSeen | None:
        """As if the job were submitted now. None without a deadline."""
        now = self._clock.wall()
        state = unsubmitted(who, now, spec)
        self._planner.refresh_ready()
        return await self._seen(state, spec, now, starts)

    async def forecast(
        self, who: Principal, specs: Sequence[JobSpec | None], *, shown: bool
    ) -> list[DeadlineSeen | None]:
        """Of each job of a submission that wants to be taken only if it will meet its deadline, and with `shown` of the
        first others that have one; None stands for a job that is refused anyway."""
        left, starts = _LOOKED_AT_MAX if shown else 0, None
        found: list[DeadlineSeen | None] = []
        for spec in specs:
            seen = None
            if spec is not None and (left or spec.deadline_strict) and _may_be_due(spec):
                with_times = self.dated(spec)
                if with_times.deadline_at is not None or with_times.start_by_at is not None:
                    starts = starts or Starts(self._planner.cluster, self._clock.wall())
                    seen = await self.ahead(who, with_times, starts)
                    left -= left > 0
            found.append(seen)
        return found

    # ---- of an accepted job

    async def of(self, state: JobState, spec: JobSpec) -> DeadlineSeen | None:
        """None without a deadline, and once it is decided."""
        if state.phase in TERMINAL or (state.deadline_at is None and state.start_by_at is None):
            return None
        now = self._clock.wall()
        if state.phase == "PENDING":
            self._planner.refresh_ready()
            return await self._seen(state, spec, now)
        held = self._planner.cluster.holdings.get(state.id)
        if held is None or state.phase not in BOUND:
            return None
        start = state.started_at or held.since
        ends = held.ends_at
        runs = None if ends is None else Estimate(ends - start, ends - start, ends - start, "what was expected of it")
        return DeadlineSeen(**asdict(judged(spec, Course(start, runs, "it runs"), now)))

    async def _seen(
        self, state: JobState, spec: JobSpec, now: float, starts: Starts | None = None
    ) -> DeadlineSeen | None:
        cluster = self._planner.cluster
        if not cluster.ready_nodes and (seen := self._seen_elsewhere(state, spec, now)) is not None:
            return seen
        starts = starts or Starts(cluster, now)
        found = await stepped(outlook.steps(cluster, state, spec, now, starts))
        if found is None:
            return None
        others = () if found.verdict == "yes" else await stepped(ways.steps(cluster, state, spec, now, starts))
        # Of an array nothing is known but that each task asks for as much.
        first = (
            replace(found, message=f"for its first task: {found.message}") if spec.array and not state.array else found
        )
        return DeadlineSeen(**asdict(first), ways=others)

    def _seen_elsewhere(self, state: JobState, spec: JobSpec, now: float) -> DeadlineSeen | None:
        """By the clusters of a federation. None where there are none."""
        due = spec.deadline_at is not None or spec.start_by_at is not None
        elsewhere = self._planner.elsewhere
        found = None if elsewhere is None or not due else elsewhere.course(state, spec, now)
        return None if found is None else DeadlineSeen(**asdict(judged(spec, found, now)))

    def at_risk(self, state: JobState) -> bool:
        """Whether by the estimates an open deadline will be missed: a quick look, without a plan of its own."""
        if state.phase in TERMINAL or outcome(state) is not None:
            return False
        if state.deadline_at is None and state.start_by_at is None:
            return False
        now, cluster = self._clock.wall(), self._planner.cluster
        due = state.deadline_at
        if due is not None and due < now:
            return True
        held = cluster.holdings.get(state.id)
        if held is not None and state.phase in BOUND:
            return due is not None and held.ends_at is not None and held.ends_at > due
        place, promise, paced = cluster.waiting.place_of(state.id), cluster.promises.get(state.id), None
        if place is not None:
            paced = self._planner.paced(state.id)
        if paced is not None:
            return paced.late
        if promise is not None and due is not None and promise.until is not None:
            return promise.until > due
        # Started now it would be late.
        return place is not None and place[0] < now

    # ---- statistics

    async def classes_seen(
        self, who: Principal, by: SlaBy = "class", since_s: float | None = None
    ) -> tuple[SlaView, ...]:
        """By name, those with a deadline of their own first. Of the tenant's jobs; of all for an admin. With `since_s`
        of those that are open, or were decided within so many seconds."""
        await self._view.catch_up()
        since = 0.0 if since_s is None else self._clock.wall() - since_s
        jobs: dict[_ClassGroup, list[JobState]] = (
            {_ClassGroup(name): [] for name in self.classes} if by == "class" else {}
        )
        whose = tuple(self._view.order) if sees_all(who) else (who.tenant,)
        for place, (_, job) in enumerate(
            chain.from_iterable(tuple(self._view.order.get(tenant, ())) for tenant in whose)
        ):
            entry = self._view.entries.get(job)
            if entry is not None and _counts(entry.state, since):
                jobs.setdefault(self._group(entry.state, by), []).append(entry.state)
            if place % LOOKED_AT == LOOKED_AT - 1:
                await breathe()
        ordered = sorted(jobs, key=lambda group: (group.cluster or "", group.name, group.tenant or ""))
        return tuple([await self._class(group, jobs[group]) for group in ordered])

    def _group(self, state: JobState, by: SlaBy) -> "_ClassGroup":
        name = state.sla or OWN
        if by == "cluster":
            return _ClassGroup(name, cluster=cluster_of(state) or self._here)
        return _ClassGroup(name, state.tenant if by == "tenant" else None)

    async def _class(self, group: "_ClassGroup", states: Iterable[JobState]) -> SlaView:
        decided = [(state, outcome(state)) for state in states]
        met = sum(found == "met" for _, found in decided)
        missed = sum(found == "missed" for _, found in decided)
        still = [state for state, found in decided if found is None and state.phase not in TERMINAL]
        at_risk: list[str] = []
        for first in range(0, len(still), WORKED_ON):
            at_risk += (state.id for state in still[first : first + WORKED_ON] if self.at_risk(state))
            await breathe()
        at_risk.sort()
        sla = self.classes.get(group.name, Sla())
        return SlaView(
            name=group.name,
            tenant=group.tenant,
            cluster=group.cluster,
            target_percent=sla.target_percent,
            budget_left_percent=budget_left(met, missed, sla.target_percent),
            start_within_s=sla.start_within_s,
            end_within_s=sla.end_within_s,
            jobs=len(decided),
            met=met,
            missed=missed,
            open=len(still),
            at_risk=len(at_risk),
            at_risk_jobs=tuple(at_risk[:_NAMED_MAX]),
            met_percent=round(100.0 * met / (met + missed), 2) if met + missed else None,
        )


class _ClassGroup(NamedTuple):
    """A class, and the tenant or the cluster where it is asked for by one."""

    name: str
    tenant: str | None = None
    cluster: str | None = None


def _counts(state: JobState, since: float) -> bool:
    """Whether the job has a deadline that is open, or was decided since then."""
    if state.deadline_at is None and state.start_by_at is None:
        return False
    return not since or (decided := decided_at(state)) is None or decided >= since


def not_met(spec: JobSpec, seen: DeadlineSeen | None) -> Refusal | None:
    """Why a job is refused that wants to be taken only if it will meet its deadline."""
    if not spec.deadline_strict or seen is None or seen.verdict == "yes":
        return None
    fix = "; or ".join(way.message for way in seen.ways) or "choose a later deadline, or leave out deadlineStrict"
    return Refusal(code="deadline-not-met", message=f"its deadline: {seen.message}", fix=fix)


def _may_be_due(spec: JobSpec) -> bool:
    return spec.deadline_at is not None or spec.start_by_at is not None or spec.sla is not None
