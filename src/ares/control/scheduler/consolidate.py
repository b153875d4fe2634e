"""Consolidation: a plan that moves running jobs together, shown with its cost, and carried out on request."""

from collections import OrderedDict
from hashlib import sha256

import msgspec
import structlog

from ares.api.nodes import ConsolidationView, MoveView
from ares.control.execution.transitions import JobChange, Transitions, Written
from ares.control.scheduler.cluster_view import LiveCluster
from ares.control.state.view import View
from ares.core.ask import Ask, asks_of
from ares.core.lifecycle.inputs import Preempt
from ares.core.schedule.consolidation import Consolidation, Relocation, consolidation, still_fit
from ares.core.schedule.preempt.record import moved_record
from ares.model.access import Principal
from ares.ports.clock import Clock
from ares.ports.telemetry import Telemetry

log = structlog.get_logger()

# Plans that were shown and can still be carried out as they were.
_KEPT_MAX = 64


class Consolidate:
    def __init__(
        self, view: View, planner: LiveCluster, transitions: Transitions, clock: Clock, telemetry: Telemetry
    ) -> None:
        self._view = view
        self._planner = planner
        self._transitions = transitions
        self._clock = clock
        self._telemetry = telemetry
        self._kept: OrderedDict[str, Consolidation] = OrderedDict()

    async def plan(self, who: Principal, gpus: int, nodes: int = 1) -> ConsolidationView:
        """Changes nothing."""
        await self._view.catch_up()
        revision, found = self._plan(gpus, nodes)
        return self._shown(revision, gpus, nodes, found, False, found.reason)

    async def apply(self, who: Principal, gpus: int, nodes: int, revision: str) -> ConsolidationView:
        """Carries out the plan of that revision if it is still possible; otherwise shows the one that is."""
        await self._view.catch_up()
        shown = self._kept.get(revision)
        why = "it was not made here" if shown is None else self._outdated(shown, revision, gpus, nodes)
        if shown is None or why:
            now, found = self._plan(gpus, nodes)
            if now != revision:
                message = f"nothing was moved: the plan is out of date ({why}); look at the new one"
                return self._shown(now, gpus, nodes, found, False, message)
            shown = found
        if not shown.moves:
            return self._shown(revision, gpus, nodes, shown, False, shown.reason)
        # The answer shows the state before the moves.
        before = self._shown(revision, gpus, nodes, shown, True, "")
        moved = await self._move(who, shown.moves)
        self._kept.pop(revision, None)
        return msgspec.structs.replace(before, message=_under_way(moved, len(shown.moves)))

    def _plan(self, gpus: int, nodes: int) -> tuple[str, Consolidation]:
        self._planner.refresh_ready()
        found = consolidation(self._planner.cluster, self._ask_of, gpus, nodes, self._clock.wall())
        revision = self._revision(gpus, nodes, found)
        self._kept[revision] = found
        self._kept.move_to_end(revision)
        while len(self._kept) > _KEPT_MAX:
            self._kept.popitem(last=False)
        return revision, found

    def _ask_of(self, job: str) -> Ask | None:
        state = self._view.entries[job].state
        spec = self._view.spec(state)
        return None if spec is None else asks_of(spec, state.tenant)[state.alternative]

    def _revision(self, gpus: int, nodes: int, found: Consolidation) -> str:
        """By what it does, not by what it costs: that grows with time. Attempts are named by their fences."""
        fences = [str(self._view.entries[move.job].state.fence) for move in found.moves]
        moves = [(move.job, fence, move.origin, move.hold) for move, fence in zip(found.moves, fences, strict=True)]
        return sha256(msgspec.json.encode((gpus, nodes, moves))).hexdigest()[:16]

    def _outdated(self, shown: Consolidation, revision: str, gpus: int, nodes: int) -> str:
        gone = [move.job for move in shown.moves if move.job not in self._view.entries]
        if gone:
            return f"job {gone[0]} is no longer there"
        if self._revision(gpus, nodes, shown) != revision:
            return "it was for other room, or a job of it was started anew"
        return still_fit(self._planner.cluster, shown.moves)

    async def _move(self, who: Principal, moves: tuple[Relocation, ...]) -> int:
        by = who.author
        outcomes = await self._transitions.apply([self._change(move, by) for move in moves])
        moved = sum(isinstance(outcome, Written) for outcome in outcomes)
        self._telemetry.count("ares_preemptions_total", moved, "consolidate")
        log.info("consolidated", by=by, token=who.token_id, jobs=moved, of=len(moves))
        return moved

    def _change(self, move: Relocation, by: str) -> JobChange:
        state = self._view.entries[move.job].state
        holding = self._planner.cluster.holdings[move.job]
        nodes = ", ".join(sorted({place.node for place in move.hold}))
        what = Preempt(
            fence=state.fence,
            by=by,
            reason=f"moved to {nodes} so that room lies together, asked for by {by}",
            record=moved_record("consolidate", by, holding, self._clock.wall(), move.hold),
            hold=move.hold,
        )
        return JobChange(move.job, state.tenant, (what,))

    def _shown(
        self, revision: str, gpus: int, nodes: int, found: Consolidation, applied: bool, message: str
    ) -> ConsolidationView:
        return ConsolidationView(
            revision=revision,
            gpus=gpus,
            nodes=nodes,
            moves=tuple(self._move_view(move) for move in found.moves),
            lost_gpu_s=found.lost_gpu_s,
            before=found.before,
            after=found.after,
            applied=applied,
            message=message,
        )

    def _move_view(self, move: Relocation) -> MoveView:
        state = self._view.entries[move.job].state
        return MoveView(
            job=move.job,
            tenant=state.tenant,
            name=state.name,
            gpus=sum(len(place.gpus) * place.gpu_milli for place in move.hold) / 1000,
            origin=tuple(dict.fromkeys(place.node for place in move.origin)),
            to=tuple(dict.fromkeys(place.node for place in move.hold)),
            lost_gpu_s=move.lost_gpu_s,
        )


def _under_way(moved: int, planned: int) -> str:
    jobs = f"{'' if moved == planned else f'{moved} of '}{planned} job{'' if planned == 1 else 's'}"
    if moved == 1:
        return f"{jobs} is on its way; its new place is kept for it"
    return f"{jobs} are on their way; their new places are kept for them"
