"""Fires schedules. Leader only.

A firing is a submission under a request id that names the schedule and the moment: whichever leader makes it, and
however often, it is one job. Only then is the moment noted in the schedule's record, so a leader that dies in between
leaves it to the next one, which is given the same job.
"""

import asyncio
from collections.abc import Callable
from math import inf
from typing import NamedTuple

import structlog
from msgspec.json import decode, encode
from msgspec.structs import replace

from ares.control.access.account_check import AccountCheck
from ares.control.execution.transitions import JobChange, Transitions
from ares.control.governance.alerts import Alerts
from ares.control.state.pacing import LOOKED_AT, breathe
from ares.control.state.records import Records, same
from ares.control.state.view import Delta, View
from ares.control.submit.crons import times_of
from ares.control.submit.draft import AcceptedJob, SubmitRequest
from ares.control.submit.submit import Submit
from ares.core import keys
from ares.core.access.table import reaches, scope_of
from ares.core.access.tokens import denied
from ares.core.cron import LATE_S, DueFiring, considered, due, following, noted, request_id
from ares.core.lifecycle.inputs import Cancel
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.cron import CronFiring, CronRecord, FiringOutcome
from ares.model.state import TERMINAL, RequestRecord
from ares.ports.clock import Clock, happens
from ares.ports.store import Put, Store, StoreUnavailable

log = structlog.get_logger()

# Clocks may be set: no moment is slept through for longer than this.
_LOOK_S = 30.0
_STORE_PAUSE_S = 1.0
# A schedule that failed for a reason of its own is looked at again after this.
_BROKEN_PAUSE_S = 30.0
_LINE_MAX = 240
# Refusals that say nothing about the job: the same firing is tried again.
_LATER = frozenset({"store-unavailable", "store-full", "queue-full"})
PAUSED, REFUSED = "cron-paused", "cron-refused"


class _NextLook(NamedTuple):
    """When a schedule is to be looked at next; holds for this very record."""

    record: CronRecord
    looked_at: float
    at: float

    def ahead_s(self, record: CronRecord, now: float) -> float:
        """Seconds left. None are when the record was changed, or the clock was put back."""
        if record is not self.record or now < self.looked_at - LATE_S:
            return 0.0
        return max(0.0, self.at - now)


class CronLoop:
    """Two leaders at once make one job all the same. Without schedules it waits for one and for nothing else."""

    def __init__(
        self,
        store: Store,
        view: View,
        submit: Submit,
        transitions: Transitions,
        standing: AccountCheck,
        alerts: Alerts,
        clock: Clock,
    ) -> None:
        self._store = store
        self._records = Records(store, view)
        self._view = view
        self._submit = submit
        self._transitions = transitions
        self._standing = standing
        self._alerts = alerts
        self._clock = clock
        self._changed = asyncio.Event()
        self._next: dict[str, _NextLook] = {}
        # Schedules whose records are known to name every job that was made of them.
        self._caught_up: set[str] = set()
        view.subscribe(self._on_delta)

    def _on_delta(self, delta: Delta) -> None:
        if keys.CRONS in delta.kept or delta.relisted:
            self._changed.set()

    async def run(self) -> None:
        self._caught_up.clear()
        while True:
            self._changed.clear()
            wait_s = await self._round()
            if wait_s is None:
                await self._changed.wait()
            else:
                await happens(self._changed, self._clock, min(wait_s, _LOOK_S))

    async def _round(self) -> float | None:
        """Fires what is due. Seconds until the next moment of any schedule; None when there is none."""
        crons, waits = self._view.kept.crons, list[float]()
        self._next = {name: known for name, known in self._next.items() if name in crons}
        self._caught_up &= crons.keys()
        for place, name in enumerate(sorted(crons)):
            if place % LOOKED_AT == LOOKED_AT - 1:
                await breathe()
            record = self._view.kept.crons.get(name)
            if record is None or record.paused:
                continue
            known, now = self._next.get(name), self._clock.wall()
            if known is None or not known.ahead_s(record, now):
                await breathe()
                known = self._next[name] = _NextLook(record, now, await self._look(record))
            waits.append(max(0.0, known.at - self._clock.wall()))
        return min(waits, default=None)

    async def _look(self, record: CronRecord) -> float:
        """Fires what is due of one schedule; when to look again. What fails here is this schedule's trouble alone."""
        name = f"{record.tenant}/{record.name}"
        try:
            record = record if name in self._caught_up else await self._catch_up(record)
            self._caught_up.add(name)
            return await self._advance(record)
        except StoreUnavailable as error:
            # A job may be made and not noted.
            self._caught_up.discard(name)
            log.warning("cron.delayed", tenant=record.tenant, schedule=record.name, error=str(error))
            return self._clock.wall() + _STORE_PAUSE_S
        except Exception as error:
            log.exception("cron.failed", tenant=record.tenant, schedule=record.name, error=str(error))
            return self._clock.wall() + _BROKEN_PAUSE_S

    async def _catch_up(self, record: CronRecord) -> CronRecord:
        """Notes jobs that were made of it and not noted: the leader died in between. Without them a schedule that
        forbids overlap would not know of a job that runs."""
        now = self._clock.wall()
        names = keys.request(record.tenant, request_id(record.name, 0.0)[:-1])
        made = await self._store.range(
            names, after=keys.request(record.tenant, request_id(record.name, considered(record, now)))
        )
        for kv in made.kvs:
            moment, job = float(kv.key.rpartition(" ")[2]), decode(kv.value, type=RequestRecord).job
            await self._note(record, DueFiring(moment, "fire"), "fired", "", job)
        return self._view.kept.crons.get(f"{record.tenant}/{record.name}", record) if made.kvs else record

    async def _advance(self, record: CronRecord) -> float:
        times, now = times_of(record), self._clock.wall()
        if times is None:
            return inf
        found = due(record, *times, self._live(record), now)
        if found is not None:
            await self._fire(record, found)
        coming = following(*times, considered(record, now) if found is None else found.moment)
        return inf if coming is None else coming

    def _live(self, record: CronRecord) -> set[str]:
        """Jobs and arrays that it made and that have not ended."""
        entries, found = self._view.entries, set[str]()
        for firing in record.history:
            tasks = self._view.by_array.get(firing.job, ())
            jobs = [entries[job].state for job in (firing.job, *tasks) if job in entries]
            if any(state.phase not in TERMINAL for state in jobs):
                found.add(firing.job)
        return found

    # ---- one firing

    async def _fire(self, record: CronRecord, found: DueFiring) -> None:
        if found.action == "missed":
            await self._note(record, found, "missed", "no server led at that moment, and missed ones are skipped")
            return
        if found.action == "overlap":
            await self._note(record, found, "overlap", "the job of an earlier firing has not ended", found.running[0])
            return
        who = await self._principal(record)
        if isinstance(who, Refusal):
            await self._pause(record, who)
            return
        if found.action == "replace":
            await self._cancel(record, found)
        # A user's jobs count for the user's team, as it is by now.
        mine = bool(who.user) and not reaches(who, "users:admin", who.tenant)
        spec = replace(record.spec, team=who.team) if mine else record.spec
        request = SubmitRequest(spec=spec, request_id=request_id(record.name, found.moment), note=f"cron {record.name}")
        (answer,) = await self._submit.submit(who, [request])
        if isinstance(answer, AcceptedJob):
            await self._note(record, found, "fired", "", answer.job)
            return
        if answer.code in _LATER:
            raise StoreUnavailable(f"schedule {record.name} of {record.tenant}: {answer.message}")
        await self._note(record, found, "refused", f"{answer.code}: {answer.message}")
        text = f"schedule {record.name} made no job: {answer.message}"
        await self._alerts.raise_(REFUSED, record.tenant, f"crons/{record.name}", text)

    async def _principal(self, record: CronRecord) -> Principal | Refusal:
        """Its owner with the rights it has by now."""
        owner = record.owner
        who = Principal(
            token_id=owner.token_id, tenant=record.tenant, role=owner.role, user=owner.user, user_id=owner.user_id,
            permissions=owner.permissions,
        )  # fmt: skip
        token = self._view.tokens.get(owner.token_id)
        if owner.user and token is not None and token.revoked:
            # What was taken from a token that leaked is taken from what was made with it.
            return denied("revoked", "token_gone")
        if not owner.user:
            if (
                token is None
                or token.revoked
                or (token.expires_at is not None and token.expires_at <= self._clock.wall())
            ):
                return denied("revoked", "token_gone")
            who = replace(who, role=token.role, permissions=token.permissions)
        checked = await self._standing.of(who, owner.user_id)
        if not isinstance(checked, Refusal) and scope_of(checked, "jobs:submit") is None:
            return denied("revoked", "role")
        return checked

    async def _pause(self, record: CronRecord, no: Refusal) -> None:
        why = f"its owner {record.created_by} may not submit jobs any more ({no.reason or no.code})"
        fix = "set it anew as another user, or give the rights back and resume it"
        text = f"schedule {record.name} is paused: {why}; {fix}"
        await self._alerts.raise_(PAUSED, record.tenant, f"crons/{record.name}", text)
        await self._change(record, lambda old: old if old.paused else replace(old, paused=why))

    async def _cancel(self, record: CronRecord, found: DueFiring) -> None:
        what = Cancel(by=f"cron {record.name}", reason="the next job of its schedule takes its place")
        entries = self._view.entries
        tasks = [task for job in found.running for task in (job, *self._view.by_array.get(job, ())) if task in entries]
        live = [task for task in tasks if entries[task].state.phase not in TERMINAL]
        await self._transitions.apply([JobChange(task, record.tenant, (what,)) for task in live])

    async def _note(
        self, record: CronRecord, found: DueFiring, outcome: FiringOutcome, message: str, job: str = ""
    ) -> None:
        firing = CronFiring(
            at=found.moment, done_at=self._clock.wall(), outcome=outcome, job=job, message=message[:_LINE_MAX]
        )
        now = firing.done_at
        await self._change(record, lambda old: noted(old, firing) if considered(old, now) < firing.at else old)

    async def _change(self, record: CronRecord, change: Callable[[CronRecord], CronRecord]) -> None:
        key = keys.cron(record.tenant, record.name)

        async def attempt() -> bool | None:
            found = await self._records.read(key, CronRecord)
            if found is None:
                return True
            kv, old = found
            changed = change(old)
            return changed is old or await self._records.ensure([same(kv)], [Put(key, encode(changed))]) or None

        await self._records.settle(f"the schedule {record.name}", attempt)
