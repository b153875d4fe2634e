"""Schedules as people make, pause and remove them."""

from collections.abc import Callable
from datetime import tzinfo
from itertools import islice
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec.json import encode
from msgspec.structs import replace

from ares.api.jobs import CronBody, CronView
from ares.control.state.records import Records, same, unchanged
from ares.control.state.view import View
from ares.control.submit.inputs import InputVersions
from ares.control.submit.projects import Projects
from ares.core import keys
from ares.core.access.table import reaches
from ares.core.admit.admission import decide
from ares.core.cron import Schedule, following, parse, upcoming
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.cron import CRONS_PER_TENANT_MAX, CronOwner, CronRecord
from ares.ports.clock import Clock
from ares.ports.store import VALUE_BYTES_MAX, Delete, Put, Store

_SHOWN_NEXT = 3
_SHOWN_PAST = 20
# Of a record's room in the store: its history and the reason of a pause take less.
_ROOM_BYTES = 64 << 10
Change = Callable[[CronRecord], CronRecord | Refusal]


def zone_of(name: str) -> tzinfo | None:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def times_of(record: CronRecord) -> tuple[Schedule, tzinfo] | None:
    """None where this server cannot read it: another version's, or a time zone that is not installed here."""
    schedule, zone = parse(record.schedule), zone_of(record.zone)
    return None if isinstance(schedule, Refusal) or zone is None else (schedule, zone)


class Crons:
    """What people do with schedules."""

    def __init__(self, store: Store, view: View, projects: Projects, clock: Clock) -> None:
        self._records = Records(store, view)
        self._view = view
        self._projects = projects
        self._inputs = InputVersions(view)
        self._clock = clock

    async def list(self, who: Principal) -> tuple[CronView, ...]:
        await self._view.catch_up()
        found = (record for record in self._view.kept.crons.values() if record.tenant == who.tenant)
        return tuple(self._shown(record) for record in sorted(found, key=lambda record: record.name))

    async def get(self, who: Principal, name: str) -> CronView | None:
        await self._view.catch_up()
        record = self._view.kept.crons.get(f"{who.tenant}/{name}")
        return None if record is None else self._shown(record)

    async def put(self, who: Principal, name: str, body: CronBody) -> CronView | Refusal:
        """Makes a schedule, or gives one another job and other times; what came of it so far is kept."""
        if (no := self._unfit(who, body)) is not None:
            return no
        # Only looked for: each job of it is given the newest version there is by then.
        found = await self._inputs.resolved(who.tenant, body.spec)
        no = found if isinstance(found, Refusal) else await self._projects.unknown(who.tenant, body.spec)
        if no is not None:
            return no
        key = keys.cron(who.tenant, name)
        owner = CronOwner(
            token_id=who.token_id, role=who.role, user=who.user, user_id=who.user_id, permissions=who.permissions
        )

        async def attempt() -> CronView | Refusal | None:
            await self._view.catch_up()
            found, now = await self._records.read(key, CronRecord), self._clock.wall()
            old = None if found is None else found[1]
            if old is not None and not self._may(who, old):
                return _not_yours(old)
            if old is None and self._count(who.tenant) >= CRONS_PER_TENANT_MAX:
                message = f"the tenant has {CRONS_PER_TENANT_MAX} schedules, the limit"
                return Refusal(code="crons-full", message=message, fix="remove some: `ares cron rm NAME`")
            record = CronRecord(
                tenant=who.tenant, name=name, schedule=body.schedule, spec=body.spec, owner=owner, zone=body.zone,
                missed=body.missed, overlap=body.overlap, created_by=who.subject, considered_at=now,
                created_at=now if old is None else old.created_at, history=() if old is None else old.history,
            )  # fmt: skip
            if (no := _too_large(record)) is not None:
                return no
            kv = None if found is None else found[0]
            done = await self._records.ensure([unchanged(key, kv)], [Put(key, encode(record))])
            return self._shown(record) if done else None

        return await self._records.settle(f"the schedule {name}", attempt)

    async def pause(self, who: Principal, name: str, reason: str) -> CronView | Refusal | None:
        return await self._change(who, name, lambda old: replace(old, paused=reason or f"paused by {who.subject}"))

    async def resume(self, who: Principal, name: str) -> CronView | Refusal | None:
        """From now on: what came up while it was paused was missed."""
        now = self._clock.wall()
        return await self._change(
            who, name, lambda old: replace(old, paused="", considered_at=max(old.considered_at, now))
        )

    async def remove(self, who: Principal, name: str) -> Refusal | None:
        """Jobs that it made stay."""
        key, offered = keys.cron(who.tenant, name), False

        async def attempt() -> Refusal | Literal[True] | None:
            nonlocal offered
            found = await self._records.read(key, CronRecord)
            if found is None:
                return True if offered else Refusal(code="not-found", message=f"there is no schedule {name}")
            if not self._may(who, found[1]):
                return _not_yours(found[1])
            offered = True
            return True if await self._records.ensure([same(found[0])], [Delete(key)]) else None

        done = await self._records.settle(f"that the schedule {name} is removed", attempt)
        return None if done is True else done

    # ---- parts

    async def _change(self, who: Principal, name: str, change: Change) -> CronView | Refusal | None:
        key = keys.cron(who.tenant, name)

        async def attempt() -> CronView | Refusal | None:
            found = await self._records.read(key, CronRecord)
            if found is None:
                return Refusal(code="not-found", message=f"there is no schedule {name}")
            kv, old = found
            if not self._may(who, old):
                return _not_yours(old)
            changed = change(old)
            if isinstance(changed, Refusal):
                return changed
            done = changed == old or await self._records.ensure([same(kv)], [Put(key, encode(changed))])
            return self._shown(changed) if done else None

        return await self._records.settle(f"the schedule {name}", attempt)

    def _unfit(self, who: Principal, body: CronBody) -> Refusal | None:
        if who.home:
            message = (
                f"you are of tenant {who.home!r}: a schedule runs with the rights of a principal of its own tenant"
            )
            return Refusal(code="cron-invalid", message=message, fix="have a user of the tenant make it")
        schedule = parse(body.schedule)
        if isinstance(schedule, Refusal):
            return schedule
        zone = zone_of(body.zone)
        if zone is None:
            message = f"there is no time zone {body.zone!r} here"
            return Refusal(code="cron-invalid", message=message, fix="name one such as UTC or Europe/Berlin")
        if following(schedule, zone, self._clock.wall()) is None:
            return Refusal(code="cron-invalid", message=f"{body.schedule!r} never comes", fix="choose other days")
        if body.spec.deadline_at is not None or body.spec.start_by_at is not None:
            message = "a deadline at one moment would be over for every later job"
            return Refusal(code="cron-invalid", message=message, fix="leave it out, or name a class of service: sla")
        admitted = decide(body.spec)
        return admitted if isinstance(admitted, Refusal) else None

    def _may(self, who: Principal, record: CronRecord) -> bool:
        return reaches(who, "crons:admin", record.tenant, record.created_by, record.owner.user_id)

    def _count(self, tenant: str) -> int:
        return sum(record.tenant == tenant for record in self._view.kept.crons.values())

    def _shown(self, record: CronRecord) -> CronView:
        times = times_of(record)
        coming = (
            () if times is None or record.paused else upcoming(*times, max(record.considered_at, self._clock.wall()))
        )
        return CronView(
            name=record.name, schedule=record.schedule, zone=record.zone, missed=record.missed, overlap=record.overlap,
            paused=record.paused, created_at=record.created_at, created_by=record.created_by, spec=record.spec,
            next_at=tuple(islice(coming, _SHOWN_NEXT)), history=record.history[::-1][:_SHOWN_PAST],
        )  # fmt: skip


def _too_large(record: CronRecord) -> Refusal | None:
    """Whatever is noted in it later must fit as well: a firing that cannot be noted stops the schedule."""
    size, most = len(encode(replace(record, history=()))), VALUE_BYTES_MAX - _ROOM_BYTES
    if size <= most:
        return None
    message = f"the schedule takes {size:,} bytes to keep, at most {most:,} are allowed"
    return Refusal(code="spec-too-large", message=message, fix="put long input into a file")


def _not_yours(record: CronRecord) -> Refusal:
    message = f"{record.name} was made by {record.created_by}, and your role changes only what you made"
    return Refusal(code="forbidden", message=message, fix="ask them, or an administrator of the tenant", reason="role")
