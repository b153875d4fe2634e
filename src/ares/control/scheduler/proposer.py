"""The leader's side of planning: asks the planners for plans, and verifies their answers one after the other.

Each planner plans for its own jobs. Answers that come about the same time are verified together, in the order of the
jobs' ranks; a planner that is late, or lost, is not waited for by the others.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import structlog
from msgspec import structs

from ares.control.governance.alerts import Alerts
from ares.control.planner.messages import PlannerAnswer
from ares.control.scheduler.cluster_view import LiveCluster
from ares.control.scheduler.feed import Feed
from ares.control.scheduler.planner_link import PlannerLink, PlannerPace
from ares.control.scheduler.sharding import Sharding
from ares.control.state.view import View
from ares.core.schedule.plan import Placed, Plan
from ares.core.schedule.verification import Proposed, parts, verified, verified_in_turn, without_collisions
from ares.ports.clock import Clock, happens
from ares.ports.planning import PlannerLost, Planning
from ares.ports.telemetry import Telemetry

log = structlog.get_logger()

# After so many losses in a row an alert is raised.
_LOST_MAX = 3
# A lost planner is asked again after so long: a new one takes about as long to start.
_LOST_PAUSE_S = 0.5
# Jobs that are bound at once.
_AT_ONCE = 64
# So long a round waits for its first answer, and after that for the others: their jobs may come first by rank.
_FIRST_S, _PATIENCE_S = 0.2, 0.05


@dataclass(frozen=True, slots=True)
class Proposal:
    """`plan` has the parts that still hold; `dropped` counts those that do not. `gentle`: jobs were left out by a
    planner that was not allowed to take anything away from running jobs. `whole`: every waiting job had a turn."""

    plan: Plan
    dropped: int
    took_s: float
    gentle: bool
    whole: bool


@dataclass(frozen=True, slots=True)
class _Heard:
    """One planner's answer, and the rules it was made by."""

    link: PlannerLink
    answer: PlannerAnswer
    rules: int
    gentle: bool

    @property
    def plan(self) -> Plan:
        assert self.answer.plan is not None, "a plan was asked for"
        return self.answer.plan

    def up_to(self, most: int) -> Self:
        """With the first placements. What the plan takes away comes with the last of them."""
        if len(self.plan.placed) <= most:
            return self
        return self._with(self.plan.placed[:most], evictions=(), resized=(), unheld=(), more=True)

    def after(self, most: int) -> Self:
        return self._with(self.plan.placed[most:])

    def _with(self, placed: tuple[Placed, ...], **changes: Any) -> Self:
        known = self.plan.considered
        considered = {entry.job: known[entry.job] for entry in placed if entry.job in known}
        plan = structs.replace(self.plan, placed=placed, considered=considered, **changes)
        return replace(self, answer=structs.replace(self.answer, plan=plan))


class Proposer:
    def __init__(
        self,
        plannings: Sequence[Planning],
        view: View,
        planner: LiveCluster,
        alerts: Alerts,
        clock: Clock,
        telemetry: Telemetry,
        pace: PlannerPace,
    ) -> None:
        self._view = view
        self._planner = planner
        self._alerts = alerts
        self._clock = clock
        self._telemetry = telemetry
        # Plugins that are not entered any more, "kind name", with what happened.
        self._cut: dict[str, str] = {}
        self._sharding = Sharding(len(plannings), view, planner)
        self._links = [
            PlannerLink(
                number, planning, Feed(view, planner, clock.wall, self._sharding, number, self._cut), clock, pace
            )
            for number, planning in enumerate(plannings)
        ]
        # Of several planners: those that are at work, those of them that are waited for, and answers not looked at yet.
        self._asked: dict[int, asyncio.Task[None]] = {}
        self._awaited: set[int] = set()
        self._heard: list[_Heard] = []
        # Plans that are proposed in part.
        self._rest: list[_Heard] = []
        self._answered = asyncio.Event()
        # What they proposed so far, and how much of it there was no room for when it was verified.
        self._parts = self._conflicts = 0
        # Which planner may take something away from running jobs next: one at a time.
        self._turn = 0

    @property
    def cut(self) -> Mapping[str, str]:
        return self._cut

    def facts(self) -> dict[str, str]:
        """How several planners do, for people; nothing where there is one."""
        if len(self._links) == 1:
            return {}
        lost = sum(link.lost > 0 for link in self._links)
        return {
            "planners": str(len(self._links)),
            "planners_lost": str(lost),
            "plan_parts": str(self._parts),
            "plan_conflicts": str(self._conflicts),
        }

    async def propose(self, *, gentle: bool) -> Proposal | None:
        """A plan that holds by the view of this moment; None when no planner answered."""
        heard = self._rest or await (self._round if len(self._links) > 1 else self._alone)(gentle=gentle)
        heard = self._cut_short(heard)
        for each in heard:
            for failure in each.answer.failures:
                await self._cut_off(failure.plugin, failure.error)
        if not heard:
            return None
        found = self._verified(heard[0]) if len(self._links) == 1 else self._verified_in_turn(heard)
        if not found.plan.placed:
            # The planner was behind: the rest would not hold either.
            self._rest.clear()
        return found

    @property
    def unfinished(self) -> bool:
        """Whether a plan is only partly proposed: what is left needs no planner."""
        return bool(self._rest)

    def _cut_short(self, heard: list[_Heard]) -> list[_Heard]:
        """The next part of the plans; the rest is kept. Verifying and writing hundreds of bindings in one go would keep
        requests waiting."""
        most = max(1, _AT_ONCE // max(1, len(heard)))
        self._rest = [each.after(most) for each in heard if len(each.plan.placed) > most]
        return [each.up_to(most) for each in heard]

    async def tell(self) -> None:
        """Feeds the planners ahead of the next job. Raises PlannerLost."""
        for link in self._links:
            if link.number not in self._asked:
                await link.tell()

    async def dismiss(self) -> None:
        """No answer is wanted any more: this replica does not lead."""
        asked = list(self._asked.values())
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        self._asked.clear()
        self._awaited.clear()
        self._heard.clear()
        self._rest.clear()

    async def _ask(self, link: PlannerLink, *, gentle: bool) -> _Heard | None:
        try:
            answer, rules = await link.ask(gentle=gentle)
        except PlannerLost as lost:
            await self._note_lost(link, lost)
            return None
        self._telemetry.observe("ares_cycle_seconds", answer.took_s)
        return _Heard(link, answer, rules, gentle)

    async def _alone(self, *, gentle: bool) -> list[_Heard]:
        heard = await self._ask(self._links[0], gentle=gentle)
        if heard is not None:
            return [heard]
        await self._clock.sleep(_LOST_PAUSE_S)
        self._planner.changed.set()
        return []

    # ---- several planners

    async def _round(self, *, gentle: bool) -> list[_Heard]:
        """Asks every planner that has something to do and is not at work; returns what has come a moment after the
        first of them answered. One that is at work since before is not waited for."""
        for task in self._asked.values():
            if task.done():
                # It failed in a way that is no planner's fault: as with one planner, that ends this leadership.
                task.result()
        # What came late is not looked at yet: asked again now, its planner would say the same.
        taken = self._asked.keys() | {each.link.number for each in self._heard}
        free = [
            link
            for link, busy in zip(self._links, self._sharding.busy(), strict=True)
            if link.number not in taken and (busy or (link.number == 0 and self._planner.cluster.may_grow))
        ]
        rough = self._rough_one(free, gentle=gentle)
        for link in free:
            self._awaited.add(link.number)
            work = self._answer(link, gentle=link is not rough)
            self._asked[link.number] = asyncio.get_running_loop().create_task(work)
        await self._hear(_FIRST_S, first=True)
        await self._hear(_PATIENCE_S)
        # The rest comes late.
        self._awaited.clear()
        heard, self._heard = self._heard, []
        return sorted(heard, key=lambda each: each.link.number)

    async def _hear(self, within_s: float, *, first: bool = False) -> None:
        """Until all answers are there, or the `first`."""
        until = self._clock.monotonic() + within_s
        while self._awaited and not (first and self._heard) and (left_s := until - self._clock.monotonic()) > 0:
            self._answered.clear()
            await happens(self._answered, self._clock, left_s)

    def _rough_one(self, free: list[PlannerLink], *, gentle: bool) -> PlannerLink | None:
        """Planners take turns at making room: two would take it from too many jobs."""
        if gentle or not free:
            return None
        found = min(free, key=lambda link: (link.number - self._turn) % len(self._links))
        self._turn = found.number + 1
        return found

    async def _answer(self, link: PlannerLink, *, gentle: bool) -> None:
        heard = await self._ask(link, gentle=gentle)
        if heard is not None:
            self._heard.append(heard)
        late = link.number not in self._awaited
        self._awaited.discard(link.number)
        self._answered.set()
        if heard is None:
            await self._clock.sleep(_LOST_PAUSE_S)
        del self._asked[link.number]
        if late or heard is None:
            # The others have gone ahead.
            self._planner.changed.set()
            self._planner.roomier.set()

    def _verified_in_turn(self, heard: list[_Heard]) -> Proposal:
        """What holds of all answers together."""
        cluster, now, sharding = self._planner.cluster, self._clock.wall(), self._sharding
        cluster.advance(now)
        good = [each for each in heard if each.rules == each.link.feed.rules]
        dropped = sum(len(each.plan.placed) for each in heard if each not in good)
        for each in good:
            number = each.link.number
            claimed = tuple(sharding.claimed(number).values())
            kept = sharding.promised(number)
            sharding.promise(number, without_collisions(cluster, each.plan.promises, kept, claimed, now))
        proposals = [
            Proposed(
                each.plan,
                _Unchanged(self._view, each.answer),
                tuple(sharding.claimed(each.link.number).values()),
            )
            for each in good
        ]
        plan, refused = verified_in_turn(cluster, proposals, now)
        placed = {entry.job for entry in plan.placed}
        for each, (changed, conflicts) in zip(good, refused, strict=True):
            held = any(entry.job in placed for entry in each.plan.placed)
            each.link.note_held(some=held, dropped=changed + conflicts > 0)
            self._planner.tell(each.answer.reasons)
            label = str(each.link.number)
            self._parts += parts(each.plan)
            self._conflicts += conflicts
            self._telemetry.count("ares_plan_parts_total", parts(each.plan), label)
            self._telemetry.count("ares_plan_conflicts_total", conflicts, label)
            dropped += changed + conflicts
        self._telemetry.count("ares_plans_dropped_total", dropped)
        promises = tuple(
            promise
            for link in self._links
            for promise in sharding.promised(link.number).values()
            if promise.job not in placed
        )
        return Proposal(
            structs.replace(plan, promises=promises, more=plan.more or len(good) < len(heard)),
            dropped,
            max((each.answer.took_s for each in heard), default=0.0),
            gentle=any(each.gentle for each in heard),
            whole=not self._asked and not self._heard and len(good) == len(heard) and not plan.more,
        )

    # ---- one planner

    def _verified(self, heard: _Heard) -> Proposal:
        answer, gentle = heard.answer, heard.gentle
        if heard.rules != heard.link.feed.rules:
            # The plan was made by an old profile or old reservations.
            old = Plan(at=heard.plan.at, more=True)
            return Proposal(old, len(heard.plan.placed), answer.took_s, gentle, whole=False)
        cluster, now = self._planner.cluster, self._clock.wall()
        cluster.advance(now)
        plan, dropped = verified(cluster, heard.plan, now, _Unchanged(self._view, answer))
        self._planner.tell(answer.reasons)
        self._telemetry.count("ares_plans_dropped_total", dropped)
        heard.link.note_held(some=bool(plan.placed), dropped=dropped > 0)
        return Proposal(plan, dropped, answer.took_s, gentle, whole=not plan.more)

    # ---- what goes wrong

    async def _cut_off(self, plugin: str, why: str) -> None:
        """Until the profile changes, or this process is another one. What it said last counts for nothing."""
        if plugin in self._cut:
            return
        self._cut[plugin] = why
        for link in self._links:
            link.feed.rules_changed()
        log.error("plugin.cut_off", plugin=plugin, why=why)
        kept_out = "it was a filter, so no job is placed under this profile" if plugin.startswith("filter ") else ""
        text = f"the plugin {plugin} was cut off: {why}; plans are made without it until the profile changes"
        text = f"{text}; {kept_out}" if kept_out else text
        await self._alerts.raise_("plugin-cut-off", "", plugin, text, severity="critical" if kept_out else "warning")

    async def _note_lost(self, link: PlannerLink, lost: PlannerLost) -> None:
        link.note_lost(lost)
        self._telemetry.count("ares_planners_lost_total")
        if lost.plugin:
            await self._cut_off(lost.plugin, str(lost))
        if link.lost >= _LOST_MAX:
            # What it promised would keep room free for as long as it is lost.
            self._sharding.promise(link.number, {})
        if link.lost == _LOST_MAX:
            text = f"no plan came from {link.lost} planning processes in a row: {lost}; running jobs are not affected"
            if len(self._links) > 1:
                text = f"planner {link.number + 1} of {len(self._links)}: {text}"
            await self._alerts.raise_("planning-lost", "", "planning", text, {"lost": link.lost}, "critical")


class _Unchanged:
    """Whether a job's record is the one that the plan was made from."""

    def __init__(self, view: View, answer: PlannerAnswer) -> None:
        self._entries = view.entries
        self._seqs = answer.seqs

    def __call__(self, job: str) -> bool:
        entry = self._entries.get(job)
        return entry is not None and entry.state.seq == self._seqs.get(job)
