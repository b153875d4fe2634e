"""The leader's line to one planner: feeds it, and asks it for plans within a time limit."""

from dataclasses import dataclass

import msgspec
import structlog

from ares.control.planner.messages import PlannerAnswer, PlanRequest, Question
from ares.control.scheduler.feed import Feed
from ares.ports.clock import Clock
from ares.ports.planning import PlannerLost, Planning

log = structlog.get_logger()

# Decisions of one plan that are kept whole.
_DECISIONS_KEPT = 64
# After a planner was killed for being late, the next has this many times as long, at most so many seconds.
_LONGER, _LIMIT_MAX_S = 2.0, 60.0
# After so many plans in a row without any part that held, the planner gets every record again.
_VAIN_MAX = 5


@dataclass(frozen=True, slots=True)
class PlannerPace:
    """How long a plan may take, and after how long without an answer the planner is ended. Seconds."""

    budget_s: float = 0.5
    limit_s: float = 5.0


PACE = PlannerPace()


class PlannerLink:
    def __init__(self, number: int, planning: Planning, feed: Feed, clock: Clock, pace: PlannerPace) -> None:
        self.number = number
        self.feed = feed
        self._planning = planning
        self._clock = clock
        self._pace = pace
        self._limit_s = pace.limit_s
        self._life = 0
        self._vain = 0
        # How often in a row it was lost.
        self.lost = 0
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(PlannerAnswer).decode

    async def ask(self, *, gentle: bool) -> tuple[PlannerAnswer, int]:
        """A plan, and the rules it was made by. Raises PlannerLost."""
        await self.tell()
        rules, now = self.feed.rules, self._clock.wall()
        wanted = PlanRequest(now, self._pace.budget_s, _DECISIONS_KEPT, gentle)
        answer = await self._ask(Question(self.feed.take(), wanted))
        self.lost, self._limit_s = 0, self._pace.limit_s
        return answer, rules

    async def tell(self) -> None:
        """Sends changes until the rest fits into one frame. Raises PlannerLost."""
        await self._planning.open()
        if self._planning.life != self._life:
            self._life = self._planning.life
            self.feed.restart()
        while self.feed.more:
            await self._ask(Question(self.feed.take()))

    async def _ask(self, question: Question) -> PlannerAnswer:
        return self._decode(await self._planning.ask(self._encode(question), self._limit_s))

    def note_lost(self, lost: PlannerLost) -> None:
        self.lost += 1
        log.warning("planning.lost", planner=self.number, why=str(lost), plugin=lost.plugin, in_a_row=self.lost)
        if lost.late and not lost.plugin:
            self._limit_s = min(self._limit_s * _LONGER, _LIMIT_MAX_S)

    def note_held(self, *, some: bool, dropped: bool) -> None:
        """Whether any job got the place it was given, and whether any part of the plan did not hold."""
        self._vain = self._vain + 1 if dropped and not some else 0
        if self._vain >= _VAIN_MAX:
            log.warning("planning.told_anew", planner=self.number, plans=self._vain)
            self._vain = 0
            self.feed.restart()
