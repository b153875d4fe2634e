"""Delivers alerts to channels, from the records alone: a new leader goes on where the last one was.

A notice is marked as delivered after it arrived. After a crash it may come twice, with the same id, but is never lost.
"""

import asyncio

import msgspec
import structlog

from ares.control.governance.channels import Sealing
from ares.control.state.records import Records, same
from ares.control.state.view import Delta, View
from ares.core import keys
from ares.core.alerts import due, due_notices, in_turn, marked, notice_of
from ares.model.alert import AlertRecord
from ares.ports.clock import Clock, happens
from ares.ports.notify import NotDelivered, Notifier
from ares.ports.store import Compare, Delete, Put, Store, StoreError
from ares.ports.telemetry import Telemetry

log = structlog.get_logger()

# Sent side by side: one receiver that hangs holds up few.
_AT_ONCE = 8
_LOOK_EVERY_S = 60.0


class Delivery:
    """Leader only."""

    def __init__(
        self,
        store: Store,
        view: View,
        clock: Clock,
        telemetry: Telemetry,
        notifier: Notifier | None,
        sealing: Sealing,
    ) -> None:
        self._records = Records(store, view)
        self._view = view
        self._clock = clock
        self._telemetry = telemetry
        self._notifier = notifier
        self._sealing = sealing
        self._woken = asyncio.Event()
        view.subscribe(self._on_delta)

    def _on_delta(self, delta: Delta) -> None:
        if delta.relisted or not delta.kept.isdisjoint((keys.ALERTS, keys.CHANNELS, keys.NOTICES)):
            self._woken.set()

    async def run(self, guard: Compare) -> None:
        while True:
            self._woken.clear()
            wait_s = _LOOK_EVERY_S
            try:
                wait_s = await self.round(guard)
            except StoreError as error:
                log.warning("alerts.delayed", error=str(error))
            await happens(self._woken, self._clock, wait_s)

    async def round(self, guard: Compare) -> float:
        """Sends what is due; returns how long until the next look."""
        if self._notifier is None:
            return _LOOK_EVERY_S
        kept = self._view.kept
        now = self._clock.wall()
        found, wait_s = due(list(kept.alerts.values()), kept.channels, now)
        notices, later_s, over = due_notices(list(kept.notices.values()), kept.channels, now)
        for begin in range(0, len(over), _AT_ONCE):
            await asyncio.gather(*(self._forget(guard, notice) for notice in over[begin : begin + _AT_ONCE]))
        found = in_turn((*found, *notices), kept.channels)
        wait_s = min((wait for wait in (wait_s, later_s) if wait is not None), default=None)
        for begin in range(0, len(found), _AT_ONCE):
            sending = [
                self._send(guard, self._notifier, alert, name) for alert, name in found[begin : begin + _AT_ONCE]
            ]
            await asyncio.gather(*sending)
        if found or over:
            await self._view.catch_up()
        return min(_LOOK_EVERY_S, max(0.0, 0.0 if found else wait_s or _LOOK_EVERY_S))

    async def _send(self, guard: Compare, notifier: Notifier, alert: AlertRecord, name: str) -> None:
        channel = self._view.kept.channels.get(name)
        if channel is None:
            return
        error, final = None, False
        try:
            await self._sealing.send(notifier, channel, notice_of(alert))
        except NotDelivered as why:
            error, final = str(why), why.final
            log.warning("alert.not_delivered", alert=alert.delivery, channel=name, error=error, final=final)
        self._telemetry.count("ares_alert_deliveries_total", 1, "arrived" if error is None else "failed")
        await self._mark(guard, alert, name, error, final)

    async def _mark(self, guard: Compare, alert: AlertRecord, name: str, error: str | None, final: bool) -> None:
        key = _key(alert)

        async def attempt() -> bool | None:
            found = await self._records.read(key, AlertRecord)
            if found is None:
                return True
            kv, known = found
            after = marked(known, name, alert.episode, error, final, self._clock.wall())
            return (
                await self._records.write([guard, same(kv)], [Put(key, msgspec.json.encode(after))], seen=False) or None
            )

        await self._records.settle(f"that alert {alert.delivery} was told to {name}", attempt, seen=False)

    async def _forget(self, guard: Compare, notice: AlertRecord) -> None:
        """A notice that every channel has, or that none will have, is gone from the store."""
        key = keys.notice(notice.tenant, notice.id)

        async def attempt() -> bool | None:
            found = await self._records.read(key, AlertRecord)
            if found is None:
                return True
            return await self._records.write([guard, same(found[0])], [Delete(key)], seen=False) or None

        await self._records.settle(f"that notice {notice.delivery} is done with", attempt, seen=False)


def _key(alert: AlertRecord) -> str:
    """Notices of jobs' ends name their channels."""
    return keys.notice(alert.tenant, alert.id) if alert.channels else keys.alert(alert.tenant, alert.id)
