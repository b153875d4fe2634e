"""Raises alerts for problems that a replica cannot mend: records that cannot be read, full disks, and in the audit log
break-glass access and callers that are denied again and again."""

import asyncio
from collections import Counter

import structlog

from ares.control.governance.alerts import Alerts
from ares.control.state.unusable_records import Aside
from ares.core import keys
from ares.model.audit import AuditDraft
from ares.ports.clock import Clock
from ares.ports.disk import Reserves

log = structlog.get_logger()

# A record that is still there is told of again.
_AGAIN_S = 3600.0
_DISK_EVERY_S = 5.0
WINDOW_S = 60.0
DENIALS_MANY = 50
# Different senders that are counted at a time.
_SENDERS_MAX = 10_000


class AsideWatch:
    """Tells people of records that were set aside. Every replica runs it: the same record is the same alert."""

    def __init__(self, aside: Aside, alerts: Alerts, clock: Clock) -> None:
        self._aside = aside
        self._alerts = alerts
        self._clock = clock

    async def run(self) -> None:
        told: dict[str, float] = {}
        while True:
            await self._aside.changed.wait()
            self._aside.changed.clear()
            now = self._clock.monotonic()
            told = {key: at for key, at in told.items() if key in self._aside.records and now - at < _AGAIN_S}
            for key, why in tuple(self._aside.records.items()):
                if key not in told:
                    told[key] = now
                    await self._alerts.raise_("record-set-aside", "", key, _record_text(key, why), severity="critical")


def _record_text(key: str, why: str) -> str:
    if key.startswith(keys.NODES):
        name = key.removeprefix(keys.NODES)
        fix = f"correct what node {name} says of itself and start its agent again, or `ares node remove {name}`"
    else:
        fix = "the store may be damaged or written by another version; `ares verify` looks through all of it"
    return f"the record {key} cannot be used and is left out: {why}; {fix}"


class DiskWatch:
    """Tells people before the store itself is short of room. `short` is what is lacking, in words, as of the last look;
    empty when nothing is."""

    def __init__(self, reserves: Reserves, alerts: Alerts, clock: Clock, replica: str) -> None:
        self._reserves = reserves
        self._alerts = alerts
        self._clock = clock
        self._replica = replica
        self.short = ""

    def look(self) -> str:
        """As it is now."""
        try:
            self.short = self._reserves.short()
        except OSError as error:
            self.short = f"the disk cannot be looked at: {error.strerror or error}"
        return self.short

    async def run(self) -> None:
        while True:
            before = self.short
            if lacking := self.look():
                text = f"{lacking}; output and files of jobs are not kept until there is room"
                await self._alerts.raise_("disk-reserve", "", f"replicas/{self._replica}", text, severity="critical")
            elif before:
                log.info("disk.has_room", replica=self._replica)
            await self._clock.sleep(_DISK_EVERY_S)


class AuditWatch:
    """Told of every entry as it is noted."""

    def __init__(self, alerts: Alerts, clock: Clock) -> None:
        self._alerts = alerts
        self._clock = clock
        self._since = clock.monotonic()
        self._denials: Counter[tuple[str, str]] = Counter()
        self._raising: set[asyncio.Task[None]] = set()

    def heed(self, draft: AuditDraft) -> None:
        if draft.outcome == "DENY":
            self._denied(draft)
        elif draft.glass and draft.outcome == "ALLOW":
            who = f"{draft.user or draft.token} of {draft.home}"
            text = f"{who} did {draft.operation} of {draft.object or 'everything'}: {draft.glass}"
            self._raise("break-glass", draft.tenant, f"{who} {draft.operation} {draft.object}", text, {})

    def _denied(self, draft: AuditDraft) -> None:
        if self._clock.monotonic() - self._since >= WINDOW_S:
            self._since = self._clock.monotonic()
            self._denials.clear()
        sender = (draft.tenant, draft.user or draft.token or draft.remote)
        if sender not in self._denials and len(self._denials) >= _SENDERS_MAX:
            return
        self._denials[sender] += 1
        if self._denials[sender] == DENIALS_MANY:
            text = f"{sender[1]} was denied {DENIALS_MANY} times within a minute, the last time: {draft.reason}"
            self._raise("denials", draft.tenant, sender[1], text, {"denials": DENIALS_MANY})

    def _raise(self, kind: str, tenant: str, subject: str, text: str, numbers: dict[str, float]) -> None:
        task = asyncio.create_task(self._alerts.raise_(kind, tenant, subject, text, numbers))
        self._raising.add(task)
        task.add_done_callback(self._raising.discard)
