"""Empties nodes that an operator drains: jobs there save their work and go on elsewhere.

Leader only. A job that does not allow preemption is left to end by itself, and named.
"""

import asyncio

import structlog

from ares.api.nodes import DrainedJob, DrainStatus
from ares.control.execution.transitions import JobChange, Transitions, Written
from ares.control.scheduler.cluster_view import LiveCluster
from ares.control.state.view import Delta, View
from ares.core.access.table import sees_all
from ares.core.lifecycle.inputs import Preempt
from ares.core.lifecycle.ranks import why_not_preemptible
from ares.core.schedule.preempt.record import moved_record
from ares.model.access import Principal
from ares.model.node import NodeRecord
from ares.model.state import BOUND, JobState
from ares.ports.clock import Clock, happens
from ares.ports.store import Compare, StoreError
from ares.ports.telemetry import Telemetry

log = structlog.get_logger()

# So many jobs save their work at once, in all: a drain of a whole rack must not overload its storage.
AT_ONCE = 16
_LOOK_EVERY_S = 1.0


class Drain:
    def __init__(
        self, view: View, planner: LiveCluster, transitions: Transitions, clock: Clock, telemetry: Telemetry
    ) -> None:
        self._view = view
        self._planner = planner
        self._transitions = transitions
        self._clock = clock
        self._telemetry = telemetry
        self._asked = asyncio.Event()
        view.subscribe(self._on_delta)

    # ---- progress

    async def status(self, who: Principal, name: str) -> DrainStatus | None:
        """The progress of a drain. None when there is no such node, or it is not drained."""
        await self._view.catch_up()
        record = self._view.nodes.get(name)
        if record is None or not record.drained_by:
            return None
        left = tuple(self._left(who, self._view.entries[job].state) for job in self._view.by_node.get(name, {}))
        total = max(record.drain_jobs, len(left))
        return DrainStatus(
            node=name,
            by=record.drained_by,
            reason=record.drain_reason,
            jobs=total,
            left=left,
            done=not left,
            message=_message(total, left),
        )

    def _left(self, who: Principal, state: JobState) -> DrainedJob:
        mine = sees_all(who) or state.tenant == who.tenant
        stays = self._stays(state) if state.phase in BOUND else ""
        return DrainedJob(job=state.id if mine else "", phase=state.phase, stays=stays)

    def _stays(self, state: JobState) -> str:
        spec = self._view.spec(state)
        return "its specification is not known here" if spec is None else why_not_preemptible(spec)

    # ---- the leader's loop

    def _on_delta(self, delta: Delta) -> None:
        if delta.nodes or delta.relisted:
            self._asked.set()

    async def run(self, guard: Compare) -> None:
        """Moves jobs away until cancelled; `guard` ties every move to this leadership."""
        while True:
            try:
                await self._move(guard)
            except StoreError as error:
                log.warning("drain.delayed", error=str(error))
            await happens(self._asked, self._clock, _LOOK_EVERY_S)
            self._asked.clear()

    async def _move(self, guard: Compare) -> None:
        drained = {name: record for name, record in self._view.nodes.items() if record.drained_by}
        held = {job: name for name in drained for job in self._view.by_node.get(name, {})}
        states = {job: self._view.entries[job].state for job in held}
        room = AT_ONCE - sum(state.phase == "PREEMPTED" for state in states.values())
        going = [state for state in states.values() if state.phase in BOUND and not self._stays(state)][: max(0, room)]
        if not going:
            return
        changes = [self._change(state, drained[held[state.id]], guard) for state in going]
        outcomes = await self._transitions.apply(changes)
        gone = sum(isinstance(outcome, Written) for outcome in outcomes)
        self._telemetry.count("ares_preemptions_total", gone, "drain")
        log.info("drain.moving", jobs=gone, nodes=sorted({held[state.id] for state in going}))

    def _change(self, state: JobState, node: NodeRecord, guard: Compare) -> JobChange:
        holding = self._planner.cluster.holdings[state.id]
        why = f": {node.drain_reason}" if node.drain_reason else ""
        what = Preempt(
            fence=state.fence,
            by=node.drained_by,
            reason=f"node {node.info.name} is drained by {node.drained_by}{why}",
            record=moved_record("drain", node.drained_by, holding, self._clock.wall()),
        )
        return JobChange(state.id, state.tenant, (what,), (guard,))


def _message(total: int, left: tuple[DrainedJob, ...]) -> str:
    if not left:
        return f"done: nothing is left of {total} job{'' if total == 1 else 's'}"
    staying = [job for job in left if job.stays]
    shown = [f"{f'job {job.job}' if job.job else 'a job of another tenant'}: {job.stays}" for job in staying[:3]]
    more = f" and {len(staying) - 3} more" if len(staying) > 3 else ""
    ends = f"; {'; '.join(shown)}{more}, so it ends by itself" if staying else ""
    return f"{len(left)} of {total} job{'' if total == 1 else 's'} still there{ends}"
