"""Judges the shadow profile by the jobs that came since: a replay in a process of its own. Leader only."""

import msgspec
import structlog

from ares.control.governance.alerts import Alerts
from ares.control.governance.audit import Audit
from ares.control.scheduler.profiles import Profiles
from ares.control.shadow.messages import ShadowAnswer, ShadowQuestion
from ares.control.shadow.recent_jobs import RecentJobs
from ares.control.shadow.shadows import Shadows
from ares.control.state.view import View
from ares.core.shadow import JOBS_MIN, chance_of, due
from ares.model.profile import Profile, ShadowJudgement, ShadowRecord
from ares.ports.clock import Clock
from ares.ports.planning import PlannerLost, Planning
from ares.ports.store import Compare, Store, StoreError

log = structlog.get_logger()

_LOOK_EVERY_S = 60.0
# Jobs of one replay, and how long both replays may take. A process that needs longer is ended, and next time gets half.
JOBS_MAX = 3000
_WITHIN_S = 1800.0
_ENCODE = msgspec.json.Encoder().encode


class ShadowJudging:
    """The process lives for one question at a time, so that it holds no memory in between."""

    def __init__(
        self,
        store: Store,
        view: View,
        profiles: Profiles,
        alerts: Alerts,
        audit: Audit,
        judge: Planning | None,
        clock: Clock,
    ) -> None:
        self._view = view
        self.shadows = Shadows(store, view, profiles, alerts, audit, clock)
        self._judge = judge
        self._clock = clock
        self._recent = RecentJobs(store, view)
        self._jobs_max = JOBS_MAX

    async def run(self, guard: Compare) -> None:
        while self._judge is not None:
            await self._clock.sleep(_LOOK_EVERY_S)
            try:
                await self.look(guard)
            except StoreError as error:
                log.warning("shadow.delayed", error=str(error))

    async def look(self, guard: Compare) -> ShadowJudgement | None:
        """Judges once, if there is a shadow and enough has happened since the last time."""
        record, judge = self.shadows.current, self._judge
        if record is None or judge is None or record.phase not in ("held", "promoted"):
            self._recent.forget()
            return None
        force = self._view.profile
        if record.phase == "promoted" and force.version != record.version:
            told = f"version {force.version} came into force after version {record.version}, which the shadow became"
            await self.shadows.note(record, told, guard, superseded=True)
            return None
        last = record.since if record.judgement is None or record.looks == 0 else record.judgement.until
        if not due(record, await self._recent.fresh(last, JOBS_MAX)):
            return None
        compared = (force.version, force.profile)
        if record.phase == "promoted":
            compared = (record.former_version, record.former or Profile())
        try:
            found = await self._ask(judge, record, compared)
        except PlannerLost as lost:
            await self.shadows.note(record, self._failed(lost), guard)
            return None
        log.info("shadow.judged", verdict=found.verdict, gain=found.gain, jobs=found.jobs, look=record.looks + 1)
        await self.shadows.judged(record, found, guard)
        return found

    async def _ask(self, judge: Planning, record: ShadowRecord, compared: tuple[int, Profile]) -> ShadowJudgement:
        version, base = compared
        now, chance = self._clock.wall(), chance_of(record.looks + 1)
        question = ShadowQuestion(
            base=base, shadow=record.profile, objective=record.objective, since=record.since, now=now, chance=chance,
            nodes=tuple(node.info for node in self._view.nodes.values()),
            jobs=await self._recent.question(record.since, self._jobs_max),
        )  # fmt: skip
        await judge.open()
        try:
            answer = msgspec.json.decode(await judge.ask(_ENCODE(question), _WITHIN_S), type=ShadowAnswer)
        finally:
            await judge.close()
        return ShadowJudgement(at=self._clock.wall(), version=version, chance=chance, **msgspec.structs.asdict(answer))

    def _failed(self, lost: PlannerLost) -> str:
        if not lost.late:
            return f"not judged: the process that replays was lost: {lost}"[:500]
        tried, self._jobs_max = self._jobs_max, max(JOBS_MIN, self._jobs_max // 2)
        return f"not judged: {tried} jobs could not be replayed within {_WITHIN_S:g} s; {self._jobs_max} are tried next"
