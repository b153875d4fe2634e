"""The leader's side of planning: feeds the planner, asks it for plans within a time limit, and verifies its answers.

A planner that does not answer in time is killed, and a new one gets every record.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import structlog

from ares.control.governance.alerts import Alerts
from ares.control.planner.messages import PlannerAnswer, PlanRequest, Question
from ares.control.scheduler.cluster_view import LiveCluster
from ares.control.scheduler.feed import Feed
from ares.control.state.view import View
from ares.core.schedule.plan import Plan
from ares.core.schedule.verification import verified
from ares.ports.clock import Clock
from ares.ports.planning import PlannerLost, Planning
from ares.ports.telemetry import Telemetry

log = structlog.get_logger()

# Decisions of one plan that are kept whole.
_DECISIONS_KEPT = 64
# After a planner was killed for being late, the next has this many times as long, at most so many seconds.
_LONGER, _LIMIT_MAX_S = 2.0, 60.0
# After so many plans in a row without any part that held, the planner gets every record again.
_VAIN_MAX = 5
# After so many losses in a row an alert is raised.
_LOST_MAX = 3


@dataclass(frozen=True, slots=True)
class PlannerPace:
    """How long a plan may take, and after how long without an answer the planner is ended. Seconds."""

    budget_s: float = 0.5
    limit_s: float = 5.0


PACE = PlannerPace()


@dataclass(frozen=True, slots=True)
class Proposal:
    """`plan` has the parts that still hold; `dropped` counts those that do not."""

    plan: Plan
    dropped: int
    took_s: float


class Proposer:
    def __init__(
        self,
        planning: Planning,
        view: View,
        planner: LiveCluster,
        alerts: Alerts,
        clock: Clock,
        telemetry: Telemetry,
        pace: PlannerPace,
    ) -> None:
        self._planning = planning
        self._view = view
        self._planner = planner
        self._alerts = alerts
        self._clock = clock
        self._telemetry = telemetry
        self._pace = pace
        self._limit_s = pace.limit_s
        self._feed = Feed(view, planner, clock.wall)
        self._life = 0
        self._vain = self._lost = 0
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(PlannerAnswer).decode

    async def propose(self, *, gentle: bool) -> Proposal | None:
        """A plan that holds by the view of this moment; None when the planner was lost over it."""
        try:
            await self.tell()
            rules, now = self._feed.rules, self._clock.wall()
            wanted = PlanRequest(now, self._pace.budget_s, _DECISIONS_KEPT, gentle)
            answer = await self._ask(Question(self._feed.take(), wanted))
        except PlannerLost as lost:
            await self._note_lost(lost)
            return None
        self._lost, self._limit_s = 0, self._pace.limit_s
        for failure in answer.failures:
            await self._cut_off(failure.plugin, failure.error)
        return self._verified(answer, rules)

    @property
    def cut(self) -> Mapping[str, str]:
        """Plugins that are not entered any more, "kind name", with what happened."""
        return self._feed.cut

    async def _cut_off(self, plugin: str, why: str) -> None:
        """Until the profile changes, or this process is another one. What it said last counts for nothing."""
        if plugin in self._feed.cut:
            return
        self._feed.cut[plugin] = why
        self._feed.rules_changed()
        log.error("plugin.cut_off", plugin=plugin, why=why)
        kept_out = "it was a filter, so no job is placed under this profile" if plugin.startswith("filter ") else ""
        text = f"the plugin {plugin} was cut off: {why}; plans are made without it until the profile changes"
        text = f"{text}; {kept_out}" if kept_out else text
        await self._alerts.raise_("plugin-cut-off", "", plugin, text, severity="critical" if kept_out else "warning")

    async def tell(self) -> None:
        """Sends changes until the rest fits into one frame. Raises PlannerLost."""
        await self._planning.open()
        if self._planning.life != self._life:
            self._life = self._planning.life
            self._feed.restart()
        while self._feed.more:
            await self._ask(Question(self._feed.take()))

    async def _ask(self, question: Question) -> PlannerAnswer:
        return self._decode(await self._planning.ask(self._encode(question), self._limit_s))

    def _verified(self, answer: PlannerAnswer, rules: int) -> Proposal:
        assert answer.plan is not None, "a plan was asked for"
        if rules != self._feed.rules:
            # The plan was made by an old profile or old reservations.
            return Proposal(Plan(at=answer.plan.at, more=True), len(answer.plan.placed), answer.took_s)
        cluster, now = self._planner.cluster, self._clock.wall()
        cluster.advance(now)
        plan, dropped = verified(cluster, answer.plan, now, _Unchanged(self._view, answer))
        self._planner.tell(answer.reasons)
        self._telemetry.count("ares_plans_dropped_total", dropped)
        self._vain = self._vain + 1 if dropped and not plan.placed else 0
        if self._vain >= _VAIN_MAX:
            log.warning("planning.told_anew", plans=self._vain)
            self._vain = 0
            self._feed.restart()
        return Proposal(plan, dropped, answer.took_s)

    async def _note_lost(self, lost: PlannerLost) -> None:
        self._lost += 1
        self._telemetry.count("ares_planners_lost_total")
        log.warning("planning.lost", why=str(lost), plugin=lost.plugin, in_a_row=self._lost)
        if lost.plugin:
            await self._cut_off(lost.plugin, str(lost))
        elif lost.late:
            self._limit_s = min(self._limit_s * _LONGER, _LIMIT_MAX_S)
        if self._lost == _LOST_MAX:
            text = f"no plan came from {self._lost} planning processes in a row: {lost}; running jobs are not affected"
            await self._alerts.raise_("planning-lost", "", "planning", text, {"lost": self._lost}, "critical")


class _Unchanged:
    """Whether a job's record is the one that the plan was made from."""

    def __init__(self, view: View, answer: PlannerAnswer) -> None:
        self._entries = view.entries
        self._seqs = answer.seqs

    def __call__(self, job: str) -> bool:
        entry = self._entries.get(job)
        return entry is not None and entry.state.seq == self._seqs.get(job)
