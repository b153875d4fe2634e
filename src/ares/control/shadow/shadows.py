"""The shadow profile: begun, looked at, promoted and ended by people; promoted and reverted by its verdicts."""

from collections.abc import Mapping, Sequence

import msgspec
import structlog
from msgspec.structs import replace

from ares.control.governance.alerts import Alerts
from ares.control.governance.audit import Audit
from ares.control.scheduler.profiles import Profiles
from ares.control.state.records import Records, same, unchanged
from ares.control.state.view import View
from ares.core import keys
from ares.core.refusal import Refusal
from ares.core.schedule.profiles import BadSetting, changed, wrong
from ares.core.shadow import sentence, step_after
from ares.model.access import Principal
from ares.model.audit import AuditDraft
from ares.model.profile import (
    Profile,
    ProfileRecord,
    ShadowJudgement,
    ShadowObjective,
    ShadowPolicy,
    ShadowRecord,
)
from ares.ports.clock import Clock
from ares.ports.store import Compare, Put, Store

log = structlog.get_logger()

# The author of versions that a verdict made.
BY = "shadow"
_NONE = Refusal(code="not-found", message="there is no shadow profile", fix="Begin one: `ares profile shadow set`.")


class Shadows:
    """One at most. Every change is decided from the record as it is, and written if it still is."""

    def __init__(
        self, store: Store, view: View, profiles: Profiles, alerts: Alerts, audit: Audit, clock: Clock
    ) -> None:
        self._records = Records(store, view)
        self._view = view
        self._profiles = profiles
        self._alerts = alerts
        self._audit = audit
        self._clock = clock

    @property
    def current(self) -> ShadowRecord | None:
        """As this replica's view has it."""
        return self._view.kept.shadow.get("")

    async def show(self) -> ShadowRecord | Refusal:
        await self._view.catch_up()
        return self.current or _NONE

    # ---- people

    async def begin(
        self,
        who: Principal,
        profile: Profile | Mapping[str, str],
        objective: ShadowObjective = "slowdown",
        promotes: ShadowPolicy = "by-hand",
        note: str = "",
    ) -> ShadowRecord | Refusal:
        """In place of the one before: a whole profile, or settings on top of the one in force."""
        await self._view.catch_up()
        base = self._view.profile
        try:
            tried = profile if isinstance(profile, Profile) else changed(base.profile, profile)
        except BadSetting as error:
            return Refusal(code="profile-invalid", message=str(error))
        why = wrong(tried)
        if not why and tried == base.profile:
            why = f"it is the profile in force, version {base.version}: there is nothing to compare"
        if why:
            return Refusal(code="profile-invalid", message=why)
        now = self._clock.wall()
        fresh = ShadowRecord(
            profile=tried, objective=objective, promotes=promotes, by=who.author, at=now, note=note, since=now,
            told=f"begun by {who.author}",
        )  # fmt: skip

        async def attempt() -> ShadowRecord | None:
            kv, _ = await self._records.read(keys.SHADOW, ShadowRecord) or (None, None)
            put = Put(keys.SHADOW, msgspec.json.encode(fresh))
            return fresh if await self._records.ensure([unchanged(keys.SHADOW, kv)], [put]) else None

        made = await self._records.settle("the shadow profile", attempt)
        log.info("shadow.begun", by=fresh.by, token=who.token_id, promotes=promotes, note=note)
        return made

    async def promote(self, who: Principal, note: str = "") -> ProfileRecord | Refusal:
        """Puts the shadow in force whatever was found, as the next version; it is judged on."""
        made = await self._step("promote", who.author, note, None, ())
        if isinstance(made, ProfileRecord):
            log.info("shadow.promoted", version=made.version, by=who.author, token=who.token_id, note=note)
        return made

    async def end(self, who: Principal) -> ShadowRecord | Refusal:
        """Nothing is tried any more. What is in force stays in force."""
        kv = await self._records.delete(keys.SHADOW, "the shadow profile", _NONE)
        if isinstance(kv, Refusal):
            return kv
        log.info("shadow.ended", by=who.author, token=who.token_id)
        return msgspec.json.decode(kv.value, type=ShadowRecord)

    # ---- verdicts

    async def judged(self, record: ShadowRecord, found: ShadowJudgement, guard: Compare) -> None:
        """Keeps what was found about the record, and does what follows from it."""
        step = step_after(record, found)
        if step == "keep":
            told = f"judged: {found.verdict}"
            await self._note(record, replace(record, judgement=found, looks=record.looks + 1, told=told), guard)
            return
        words = sentence(found)
        made = await self._step(step, BY, words, (record, found), (guard,))
        if isinstance(made, Refusal):
            # Another change came first: the next look goes by that.
            log.info("shadow.passed_over", step=step, why=made.message)
            return
        past = "promoted" if step == "promote" else "reverted"
        self._audit.tell(
            AuditDraft(operation=f"{step}Shadow", outcome="ALLOW", reason=found.verdict, user=BY,
                       object=f"profiles/{made.version}")
        )  # fmt: skip
        text = f"the shadow profile was {past}, version {made.version} is in force: {words}"
        numbers = {"version": float(made.version), "gain": found.gain, "jobs": float(found.jobs)}
        await self._alerts.raise_(f"profile-{past}", "", f"profile {made.version}", text, numbers)

    async def note(self, record: ShadowRecord, told: str, guard: Compare, *, superseded: bool = False) -> None:
        """Says what became of the latest look."""
        phase = "superseded" if superseded else record.phase
        if (phase, told) != (record.phase, record.told):
            await self._note(record, replace(record, phase=phase, told=told), guard)

    async def _note(self, record: ShadowRecord, after: ShadowRecord, guard: Compare) -> None:
        kv, known = await self._records.read(keys.SHADOW, ShadowRecord) or (None, None)
        if kv is not None and known == record:
            await self._records.ensure([same(kv), guard], [Put(keys.SHADOW, msgspec.json.encode(after))])

    async def _step(
        self,
        step: str,
        by: str,
        note: str,
        seen: tuple[ShadowRecord, ShadowJudgement] | None,
        guards: Sequence[Compare],
    ) -> ProfileRecord | Refusal:
        """A version of the profile and the shadow's record, in one transaction."""
        at = self._clock.wall()
        offered: list[bytes] = []

        async def attempt() -> ProfileRecord | Refusal | None:
            kv, record = await self._records.read(keys.SHADOW, ShadowRecord) or (None, None)
            if kv is None or record is None:
                return _NONE
            await self._view.catch_up()
            base = self._view.profile
            if offered and offered[-1] == kv.value:
                # The answer to an earlier try was lost.
                return base
            no = _hindrance(step, record, base, None if seen is None else seen[0])
            if no:
                return Refusal(code="profile-conflict", message=no)
            profile = record.profile if step == "promote" else record.former or Profile()
            made = ProfileRecord(version=base.version + 1, profile=profile, by=by, at=at, note=note[:1000])
            after = _after(step, record, base, made, None if seen is None else seen[1])
            offered.append(msgspec.json.encode(after))
            ops = [Put(keys.SHADOW, offered[-1]), *self._profiles.written(made)]
            absent = Compare(keys.profile(made.version), "mod_revision", 0)
            return made if await self._records.ensure([same(kv), absent, *guards], ops) else None

        return await self._records.settle("that version of the profile", attempt)


def _hindrance(step: str, record: ShadowRecord, base: ProfileRecord, seen: ShadowRecord | None) -> str:
    """Why the step cannot be taken, if so."""
    if seen is not None and record != seen:
        return "the shadow profile was changed since it was judged"
    if step == "promote" and record.phase == "promoted" and record.version == base.version:
        return f"it is in force already, as version {record.version}"
    if step == "promote" and record.profile == base.profile:
        return f"it is what is in force, version {base.version}"
    if step == "revert" and base.version != record.version:
        return f"version {base.version} came into force after version {record.version}, which the shadow became"
    return ""


def _after(
    step: str, record: ShadowRecord, base: ProfileRecord, made: ProfileRecord, found: ShadowJudgement | None
) -> ShadowRecord:
    judgement = record.judgement if found is None else found
    if step == "revert":
        told = f"version {made.version} is what was before: {made.note}"
        return replace(record, phase="reverted", version=made.version, judgement=judgement, told=told)
    return replace(
        record, phase="promoted", since=made.at, version=made.version, former_version=base.version,
        former=base.profile, looks=0, judgement=judgement, told=f"promoted by {made.by}",
    )  # fmt: skip
