"""The scheduling loop: asks for a plan when something changed, and writes the parts of it that still hold.

Leader only. The planner proposes; every part is written by compare-and-swap together with the leader's
fence, and a part that was refused is planned again in the next cycle.
"""

from collections.abc import Callable, Sequence
from zlib import crc32

import structlog
from msgspec.structs import replace

from ares.control.execution.transitions import JobChange, Transitions, Written
from ares.control.scheduler.budget_watch import BY
from ares.control.scheduler.cluster_view import LiveCluster
from ares.control.scheduler.decisions import Decisions
from ares.control.scheduler.proposer import Proposer
from ares.control.state.commit import Unsettled
from ares.control.state.pacing import breathe
from ares.control.state.view import View
from ares.core import keys
from ares.core.energy import WaveRates, rates_of
from ares.core.lifecycle.inputs import Bind, Cancel, Input, Nominate, Preempt, RanksResized
from ares.core.schedule.follower import planned_s
from ares.core.schedule.plan import Eviction, Placed, Plan, Resized
from ares.core.schedule.preempt.record import seen_by
from ares.core.trace.ids import trace_id_of
from ares.model.state import JobState
from ares.ports.clock import Clock, happens
from ares.ports.planning import PlannerLost
from ares.ports.store import Compare, StoreError
from ares.ports.telemetry import Telemetry

log = structlog.get_logger()

_IDLE_LOOK_S = 1.0
_LINGER_STEP_S = 0.003
LINGER_S = 0.03
_LINGER_ENOUGH = 32
_STORE_PAUSE_S = 0.2
# How often jobs may be preempted; in between, jobs only get free resources.
_EVICT_EVERY_S = 0.5
_UNHELD = "the room kept for it cannot be had any more; it waits for any"
# Where the ranks of gangs meet: the first of these that no other attempt on the node has.
_MASTER_PORTS = range(29_400, 30_400)

# A plan costs a processor's time. After one that placed nothing there is a rest of so many times as long, unless there
# is more than new jobs: where many wait for room, each submission would otherwise be followed by a look at all.
_REST_IN_VAIN, _REST_MAX_S = 4.0, 1.0

# Of jobs that are about to start: those that a budget does not pay for any more, and why.
Unpaid = Callable[[Sequence[JobState]], dict[str, str]]


class SchedulerLoop:
    """Event-driven: an idle cluster starts a job in the time of two commits."""

    def __init__(
        self,
        view: View,
        planner: LiveCluster,
        proposer: Proposer,
        transitions: Transitions,
        decisions: Decisions,
        clock: Clock,
        telemetry: Telemetry,
        linger_s: float = LINGER_S,
        unpaid: Unpaid = lambda _: {},
    ) -> None:
        self._view = view
        self._planner = planner
        self._proposer = proposer
        self._transitions = transitions
        self._decisions = decisions
        self._clock = clock
        self._telemetry = telemetry
        self._linger_s = linger_s
        self._unpaid = unpaid
        self._bound_at = -linger_s
        # How many jobs the last bindings were of.
        self._wave = 0
        self._evicted_at = float("-inf")
        self._look_s = _IDLE_LOOK_S
        self._rested_at = float("-inf")

    async def run(self, guard: Compare) -> None:
        """Schedules until cancelled; `guard` ties every binding to this leadership.

        Raises Unsettled when it is unknown whether a binding was written. That ends this leadership, so a binding
        still on its way is refused, and the next leader starts from the state of the store."""
        # Bindings of earlier leaders are older than the election: a view without them would give places away twice.
        await self._view.catch_up()
        self._planner.changed.set()
        try:
            while True:
                await self._wait()
                await self._settled_round(guard)
        finally:
            await self._proposer.dismiss()

    async def _settled_round(self, guard: Compare) -> None:
        try:
            await self._round(guard)
        except Unsettled:
            raise
        except StoreError as error:
            log.warning("schedule.delayed", error=str(error))
            await self._clock.sleep(_STORE_PAUSE_S)
            self._planner.changed.set()

    async def _wait(self) -> None:
        if self._proposer.unfinished:
            # Requests come in between.
            await breathe()
            return
        await happens(self._planner.changed, self._clock, self._look_s)
        if self._wave > 1 and self._clock.monotonic() - self._bound_at < self._linger_s:
            await self._linger()
        if (rest_s := self._rested_at - self._clock.monotonic()) > 0:
            await happens(self._planner.roomier, self._clock, rest_s)
        self._planner.changed.clear()
        self._planner.roomier.clear()

    async def _linger(self) -> None:
        """Under load a cycle waits while changes keep coming; after a pause, or where jobs come one by one, it never
        does: a job that waits for another is not to wait for a third."""
        until = self._clock.monotonic() + self._linger_s
        first, seen = self._planner.news, -1
        while seen != self._planner.news < first + _LINGER_ENOUGH and self._clock.monotonic() < until:
            seen = self._planner.news
            await self._clock.sleep(_LINGER_STEP_S)

    async def _round(self, guard: Compare) -> None:
        cluster = self._planner.cluster
        unfinished = self._proposer.unfinished
        if not unfinished and not cluster.pending and not cluster.may_grow:
            await self._tell()
            return
        # A node that fell silent looks free: the monitor would revoke a job placed there.
        self._planner.refresh_ready()
        if not unfinished and not cluster.some_ready and not cluster.reserved:
            # No node is ready: a cycle over a long queue would only slow down submissions.
            return
        began = self._clock.monotonic()
        gentle = unfinished or began - self._evicted_at < _EVICT_EVERY_S
        if not gentle:
            self._evicted_at = began
        proposal = await self._proposer.propose(gentle=gentle)
        if proposal is None:
            return
        plan = proposal.plan
        self._planner.planned(plan, whole=proposal.whole)
        # Jobs left out by a gentle cycle get another one as soon as preemption is allowed again.
        self._look_s = _EVICT_EVERY_S if proposal.gentle and plan.left else _IDLE_LOOK_S
        if plan.left and not plan.placed:
            self._rested_at = self._clock.monotonic() + min(_REST_IN_VAIN * proposal.took_s, _REST_MAX_S)
        self._telemetry.gauge("ares_jobs_unreached", plan.unreached)
        await self._write(plan, guard, settled=not proposal.dropped)

    async def _write(self, plan: Plan, guard: Compare, *, settled: bool) -> None:
        # Before anything is awaited since the plan was verified: it is not for a job that is updated from now on.
        updates = self._updates_of(plan)
        if plan.placed:
            self._bound_at, self._wave = self._clock.monotonic(), len(plan.placed)
            settled = await self._bind(plan, updates, guard) and settled
        elif not settled:
            # No part of the plan held: the planner is behind until it has the changes.
            await self._clock.sleep(_STORE_PAUSE_S)
        if plan.evictions or plan.unheld or plan.resized:
            await self._make_room(plan, updates, guard)
        if plan.more or not settled:
            self._planner.changed.set()

    def _updates_of(self, plan: Plan) -> dict[str, int]:
        """How often jobs that get a place, or room, were updated. Most never were: those are left out."""
        entries = self._view.entries
        jobs = [item.job for item in (*plan.placed, *plan.evictions)]
        return {job: updates for job in jobs if job in entries and (updates := entries[job].state.updates)}

    async def _tell(self) -> None:
        """The queue is empty: time to start the planner and feed it, so that the next job does not wait for that."""
        try:
            await self._proposer.tell()
        except PlannerLost as lost:
            log.warning("planning.lost", why=str(lost))

    # ---- bindings

    async def _bind(self, plan: Plan, updates: dict[str, int], guard: Compare) -> bool:
        """Whether every binding was written."""
        if not (plan := await self._without_unpaid(plan, guard)).placed:
            return True
        states = [self._view.entries[item.job].state for item in plan.placed]
        decision = self._decisions.note(self._planner.cluster, plan, self._view.profile.version)
        ports: dict[str, set[int]] = {}
        rates = WaveRates(self._view.nodes, self._planner.cluster.profile)
        throttles = self._planner.cluster.waiting.throttles
        changes = [
            JobChange(
                item.job,
                state.tenant,
                (self._binding(item, state, decision, ports, rates, updates.get(item.job, 0)),),
                (guard, *self._throttle(state)) if state.array in throttles else (guard,),
            )
            for item, state in zip(plan.placed, states, strict=True)
        ]
        now = self._clock.wall()
        outcomes = await self._transitions.apply(changes)
        if not any(isinstance(outcome, Written) for outcome in outcomes):
            # Every binding was refused: the view is behind, or another replica leads now.
            await self._clock.sleep(_STORE_PAUSE_S)
        bound = [state for state, outcome in zip(states, outcomes, strict=True) if isinstance(outcome, Written)]
        self._measure(bound, plan, now)
        return len(bound) == len(states)

    def _measure(self, bound: Sequence[JobState], plan: Plan, now: float) -> None:
        """Of the jobs that were given a place."""
        if not bound:
            return
        waits = [max(0.0, now - state.queued_at) for state in bound]
        longest = bound[waits.index(max(waits))]
        self._telemetry.observe_all("ares_scheduling_latency_seconds", waits, trace=trace_id_of(longest))
        by_priority: dict[str, list[float]] = {}
        for state, wait_s in zip(bound, waits, strict=True):
            spec = self._view.spec(state)
            by_priority.setdefault("NORMAL" if spec is None else spec.priority, []).append(wait_s)
        for priority, waited in by_priority.items():
            self._telemetry.observe_all("ares_wait_seconds", waited, priority)
        gangs = sum(len(item.placements) > 1 for item in plan.placed)
        self._telemetry.count("ares_placements_total", gangs, "gang")
        self._telemetry.count("ares_placements_total", len(plan.placed) - gangs, "single")
        self._telemetry.count("ares_lease_acquisitions_total", len(bound))

    def _throttle(self, state: JobState) -> tuple[Compare, ...]:
        """Holds as long as the array of a task is throttled as it was when the task was given a place."""
        array = state.array or ""
        revision = self._view.arrays.revisions.get(array, 0)
        return (Compare(keys.array(state.tenant, array), "mod_revision", revision),)

    async def _without_unpaid(self, plan: Plan, guard: Compare) -> Plan:
        """The plan without jobs that a budget does not cover any more. Those end now, before they cost anything."""
        unpaid = self._unpaid([self._view.entries[item.job].state for item in plan.placed])
        if not unpaid:
            return plan
        tenants = {job: self._view.entries[job].state.tenant for job in unpaid}
        log.warning("budget.not_started", jobs=len(unpaid), tenants=sorted(set(tenants.values())))
        await self._transitions.apply(
            [JobChange(job, tenants[job], (Cancel(by=BY, reason=why),), (guard,)) for job, why in unpaid.items()]
        )
        return replace(plan, placed=tuple(item for item in plan.placed if item.job not in unpaid))

    def _binding(
        self,
        item: Placed,
        state: JobState,
        decision: str,
        ports: dict[str, set[int]],
        rates: WaveRates,
        updates: int,
    ) -> Bind:
        spec = self._view.spec(state)
        port = self._free_port(item.placements[0].node, state, ports) if len(item.placements) > 1 else 0
        return Bind(
            placements=item.placements,
            alternative=item.alternative,
            master_port=port,
            decision=decision,
            rates=rates.of(item.placements),
            planned_s=None if spec is None else planned_s(self._planner.cluster, state, spec, item.placements),
            leaves_at=item.leaves_at,
            updates=updates,
        )

    def _free_port(self, node: str, state: JobState, ports: dict[str, set[int]]) -> int:
        """Each attempt begins its search elsewhere: a port taken by a stranger fails one attempt, not all,
        and two clusters that share a machine do not meet at the first port."""
        taken = ports.get(node)
        if taken is None:
            jobs = self._view.by_node.get(node, ())
            taken = ports[node] = {self._view.entries[job].state.master_port for job in jobs}
        first = crc32(f"{state.id}/{state.attempt}".encode()) % len(_MASTER_PORTS)
        turned = (*_MASTER_PORTS[first:], *_MASTER_PORTS[:first])
        port = next((port for port in turned if port not in taken), turned[0])
        taken.add(port)
        return port

    # ---- preemptions

    async def _make_room(self, plan: Plan, updates: dict[str, int], guard: Compare) -> None:
        """The waiting job is nominated first: if this ends half-way, no job was preempted for nothing."""
        for job in plan.unheld:
            await self._change(job, Nominate(hold=(), evicting=(), reason=_UNHELD), (guard,))
        shrunk = {job for eviction in plan.evictions for job in eviction.shrunk}
        for resized in plan.resized:
            if resized.job not in shrunk:
                await self._transitions.apply([self._resize(resized, (guard,))])
        for eviction in plan.evictions:
            shrinks = [resized for resized in plan.resized if resized.job in eviction.shrunk]
            await self._evict(eviction, shrinks, updates.get(eviction.job, 0), guard)

    def _resize(self, resized: Resized, guards: tuple[Compare, ...]) -> JobChange:
        state = self._view.entries[resized.job].state
        rates = rates_of(self._view.nodes, self._planner.cluster.profile, resized.placements)
        what = RanksResized(fence=state.fence, placements=resized.placements, reason=resized.reason, rates=rates)
        return JobChange(state.id, state.tenant, (what,), guards)

    async def _evict(self, eviction: Eviction, shrinks: list[Resized], updates: int, guard: Compare) -> None:
        waiting = self._view.entries[eviction.job].state
        nominated = await self._change(
            eviction.job,
            Nominate(
                hold=eviction.hold,
                evicting=(*eviction.victims, *eviction.shrunk),
                reason=eviction.reason,
                record=seen_by(eviction.record, waiting.tenant),
                alternative=eviction.alternative,
                updates=updates,
            ),
            (guard,),
        )
        # If the job no longer waits, no victim needs to leave.
        entry = self._view.entries[eviction.job]
        if nominated is None or entry.state.seq != nominated.state.seq:
            return
        still = Compare(keys.state(waiting.tenant, waiting.id), "mod_revision", entry.mod_revision)
        changes = [
            self._preempt(self._view.entries[victim].state, eviction, (guard, still)) for victim in eviction.victims
        ]
        outcomes = await self._transitions.apply(
            [*(self._resize(resized, (guard, still)) for resized in shrinks), *changes]
        )
        gone = sum(isinstance(outcome, Written) for outcome in outcomes[len(shrinks) :])
        self._telemetry.count("ares_preemptions_total", gone, eviction.rule)
        log.info("evicted", job=eviction.job, rule=eviction.rule, victims=gone, lost_gpu_s=eviction.lost_gpu_s)

    def _preempt(self, victim: JobState, eviction: Eviction, guards: tuple[Compare, ...]) -> JobChange:
        record = seen_by(eviction.record, victim.tenant)
        mine = eviction.record["for"]["tenant"] == victim.tenant
        by = f"job {eviction.job}" if mine else "a job of another tenant"
        reason = f"{eviction.record['why']}: {by}, {eviction.record['for']['priority']}"
        rotates = eviction.rule == "service"
        what = Preempt(fence=victim.fence, by=by, reason=reason, record=record, rotates=rotates)
        return JobChange(victim.id, victim.tenant, (what,), guards)

    async def _change(self, job: str, what: Input, guards: tuple[Compare, ...]) -> Written | None:
        entry = self._view.entries.get(job)
        if entry is None:
            return None
        (outcome,) = await self._transitions.apply([JobChange(job, entry.state.tenant, (what,), guards)])
        return outcome if isinstance(outcome, Written) else None
