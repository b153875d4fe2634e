"""Alerts: stored as records when they are raised, so that any later leader can deliver them."""

import hashlib
from collections.abc import Mapping
from typing import Literal

import msgspec
import structlog
from msgspec.structs import replace

from ares.control.state.records import Records, same, unchanged
from ares.control.state.view import View
from ares.core import keys
from ares.core.access.table import WIDE, scope_of
from ares.core.alerts import again
from ares.model.access import Principal
from ares.model.alert import AlertRecord, AlertState, Severity
from ares.ports.clock import Clock
from ares.ports.store import Delete, Op, Put, Store, StoreError
from ares.ports.telemetry import Telemetry

log = structlog.get_logger()

# Of one tenant, or of the platform; the ones that were quiet the longest make room.
ALERTS_MAX = 1000
# What repeats sooner than this is known already and is not written again.
_QUIET_S = 10.0
_TEXT_MAX = 1000
_SUBJECT_MAX = 200
# Alerts that could not be written, kept until they can be.
_UNWRITTEN_MAX = 1000


class Alerts:
    """Raised by any replica; `tenant` "" is the platform's own."""

    def __init__(self, store: Store, view: View, clock: Clock, telemetry: Telemetry) -> None:
        self._records = Records(store, view)
        self._view = view
        self._clock = clock
        self._telemetry = telemetry
        self._quiet: dict[str, float] = {}
        self._unwritten: dict[str, AlertRecord] = {}

    async def raise_(
        self,
        kind: str,
        tenant: str,
        subject: str,
        text: str,
        numbers: Mapping[str, float] | None = None,
        severity: Severity = "warning",
    ) -> None:
        """Durable when it returns, unless the store is away: then it is written once that is back. Never fails."""
        now = self._clock.wall()
        fresh = AlertRecord(
            id=alert_id(kind, subject),
            kind=kind,
            tenant=tenant,
            subject=subject[:_SUBJECT_MAX],
            text=text[:_TEXT_MAX],
            severity=severity,
            numbers=dict(numbers or {}),
            first_at=now,
            last_at=now,
        )
        key = keys.alert(tenant, fresh.id)
        if self._clock.monotonic() < self._quiet.get(key, 0.0):
            return
        self._hush(key)
        self._telemetry.count("ares_alerts_total", 1, kind)
        log.warning("alert", kind=kind, tenant=tenant, subject=fresh.subject, text=fresh.text, severity=severity)
        try:
            await self._write(key, fresh)
        except StoreError as error:
            log.warning("alert.unwritten", kind=kind, subject=fresh.subject, error=str(error))
            if len(self._unwritten) < _UNWRITTEN_MAX:
                self._unwritten[key] = fresh

    def _hush(self, key: str) -> None:
        now = self._clock.monotonic()
        if len(self._quiet) > ALERTS_MAX:
            self._quiet = {known: until for known, until in self._quiet.items() if until > now}
        self._quiet[key] = now + _QUIET_S

    async def _write(self, key: str, fresh: AlertRecord) -> None:

        async def attempt() -> bool | None:
            kv, known = await self._records.read(key, AlertRecord) or (None, None)
            if known is not None and known.last_at >= fresh.last_at:
                return True
            after = fresh if known is None else again(known, fresh)
            ops: list[Op] = [Put(key, msgspec.json.encode(after)), *(self._room(fresh.tenant) if known is None else ())]
            return await self._records.write([unchanged(key, kv)], ops, seen=False) or None

        await self._records.settle(f"alert {key}", attempt, seen=False)

    def _room(self, tenant: str) -> list[Op]:
        """Deletes what makes room for one more: the ones that are over first, then the quietest."""
        prefix = keys.scoped(tenant, "")
        mine = [alert for name, alert in self._view.kept.alerts.items() if name.startswith(prefix)]
        too_many = len(mine) + 1 - ALERTS_MAX
        if too_many <= 0:
            return []
        mine.sort(key=lambda alert: (alert.state != "resolved", alert.last_at))
        return [Delete(keys.alert(tenant, alert.id)) for alert in mine[:too_many]]

    # ---- reading and acknowledging

    async def listed(
        self, who: Principal, *, platform: bool = False, every: bool = False
    ) -> tuple[AlertRecord, ...] | None:
        """The newest first; those that are over only with `every`. None when it is not theirs to see."""
        if platform and scope_of(who, "alerts:admin") not in WIDE:
            return None
        await self._view.catch_up()
        prefix = keys.scoped("" if platform else who.tenant, "")
        mine = [alert for name, alert in self._view.kept.alerts.items() if name.startswith(prefix)]
        shown = [alert for alert in mine if every or alert.state != "resolved"]
        return tuple(sorted(shown, key=lambda alert: -alert.last_at))

    async def settle(
        self, who: Principal, alert_id: str, state: AlertState, *, platform: bool = False, note: str = ""
    ) -> AlertRecord | None:
        """Acknowledges or resolves an alert. None when there is no such alert."""
        if platform and scope_of(who, "alerts:admin") not in WIDE:
            return None
        key = keys.alert("" if platform else who.tenant, alert_id)

        async def attempt() -> AlertRecord | Literal[False] | None:
            found = await self._records.read(key, AlertRecord)
            if found is None:
                return False
            kv, known = found
            after = replace(known, state=state, by=who.author, note=note)
            if after == known:
                return known
            if not await self._records.write([same(kv)], [Put(key, msgspec.json.encode(after))]):
                return None
            self._quiet.pop(key, None)
            return after

        return await self._records.settle(f"alert {alert_id}", attempt) or None

    async def run(self) -> None:
        """Writes what could not be written when it was raised."""
        while True:
            await self._clock.sleep(_QUIET_S)
            for key, fresh in list(self._unwritten.items()):
                try:
                    await self._write(key, fresh)
                except StoreError:
                    break
                self._unwritten.pop(key, None)


def alert_id(kind: str, subject: str) -> str:
    """The same for the same subject, so that it is one record however often and by which replica it is raised."""
    return hashlib.sha256(f"{kind}\n{subject}".encode()).hexdigest()[:16]
