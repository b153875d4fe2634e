"""The health of the platform on one page: replicas, store, disks, machines, certificates, backups, records, alerts."""

from collections.abc import Callable, Iterator
from typing import Final

from ares.api.telemetry.status import PartVerdict, PlatformStatus, StatusPart
from ares.control.queries.health import Health, lacks_room
from ares.control.scheduler.monitor import ready
from ares.control.state.leader import leads_for_s
from ares.control.state.view import View
from ares.control.telemetry.replica_roll import SILENT_S, ReplicaRoll
from ares.ports.clock import Clock

# The last part of its life: a machine's certificate is renewed well before. One that was not needs a person.
CERTIFICATE_SOON: Final = 0.2
BACKUP_OLD_S: Final = 2 * 86_400.0
# Of its disk.
_DISK_LOW: Final = 0.1
_STORE_OLD_S: Final = 10.0
_PARTS_MAX: Final = 200
_ORDER: Final[tuple[PartVerdict, ...]] = ("bad", "warn", "ok")


class StatusReport:
    """`backed_up` tells when the store was last backed up, None when never; it is None itself where backups are made by
    other means than Ares. `roll` is None where the store allows one replica only."""

    def __init__(
        self,
        view: View,
        health: Health,
        clock: Clock,
        replica: str,
        cluster: str,
        backed_up: Callable[[], float | None] | None = None,
        roll: ReplicaRoll | None = None,
    ) -> None:
        self._view = view
        self._health = health
        self._clock = clock
        self._replica = replica
        self._cluster = cluster
        self._backed_up = backed_up
        self._roll = roll

    async def now(self) -> PlatformStatus:
        found = [await self._store(), *self._leads(), *self._replicas(), *self._disks(), *self._nodes()]
        found += (*self._certificates(), *self._backups(), *self._records(), *self._alerts())
        found.sort(key=lambda part: _ORDER.index(part.verdict))
        return PlatformStatus(
            at=self._clock.wall(),
            replica=self._replica,
            cluster=self._cluster,
            verdict=found[0].verdict,
            parts=tuple(found[:_PARTS_MAX]),
            left_out=max(0, len(found) - _PARTS_MAX),
        )

    async def _store(self) -> StatusPart:
        _, facts = await self._health.ready()
        age_s = self._clock.monotonic() - self._view.heard_at
        unproven = facts["writes"] if facts["writes"] != "proven" else ""
        verdict: PartVerdict = "bad" if unproven or not self._view.connected else "ok"
        said = "takes writes and is followed" if verdict == "ok" else unproven or "it cannot be reached"
        late = verdict == "ok" and age_s > _STORE_OLD_S
        return StatusPart("store", "store", "warn" if late else verdict, said, age_s)

    def _leads(self) -> Iterator[StatusPart]:
        leader, age_s = self._view.leader, leads_for_s(self._view, self._clock)
        if leader is None:
            yield StatusPart("leader", "", "bad", "no replica leads: nothing is scheduled until one does")
        else:
            mine = " (this one)" if leader.replica == self._replica else ""
            yield StatusPart("leader", leader.replica, "ok", f"leads{mine}", age_s)

    def _replicas(self) -> Iterator[StatusPart]:
        mine = f"answers this; {'shares' if self._roll else 'has'} the store{'' if self._roll else ' to itself'}"
        yield StatusPart("replica", self._replica, "ok", mine, 0.0)
        for seen in () if self._roll is None else self._roll.others():
            silent, name = seen.age_s > SILENT_S, seen.record.replica
            there = f"is there, version {seen.record.version}"
            gone = "does not write any more: it was killed, or cannot reach the store"
            yield StatusPart("replica", name, "warn" if silent else "ok", gone if silent else there, seen.age_s)

    def _disks(self) -> Iterator[StatusPart]:
        # Several things may be written at one place.
        for room in {room.path: room for room in self._health.rooms()}.values():
            share = room.bytes_free / room.bytes_all if room.bytes_all else 1.0
            lacking = lacks_room(room)
            verdict: PartVerdict = "bad" if lacking else "warn" if share < _DISK_LOW else "ok"
            said = lacking or f"{room.bytes_free / 2**30:,.1f} of {room.bytes_all / 2**30:,.1f} GiB are free"
            yield StatusPart("disk", room.path, verdict, said)

    def _nodes(self) -> Iterator[StatusPart]:
        view = self._view
        lost = {name: None for name in sorted(view.nodes) if not ready(view, name)}
        there = len(view.nodes)
        ages = [age for name in view.nodes if name not in lost and (age := view.lease_age_s(name)) is not None]
        said = f"{there - len(lost)} of {there} are ready" if there else "there is none: jobs wait for the first"
        yield StatusPart("nodes", "nodes", "ok" if there and not lost else "warn", said, max(ages, default=None))
        for name in lost:
            said = "its agent does not renew; what ran there is repeated elsewhere"
            yield StatusPart("node", name, "warn", said, view.lease_age_s(name))

    def _certificates(self) -> Iterator[StatusPart]:
        now = self._clock.wall()
        for name, machine in sorted(self._view.kept.machines.items()):
            good = [each for each in machine.certificates if each.generation >= machine.generation]
            newest = max(good, key=lambda each: each.ends_at, default=None)
            if newest is None or now < newest.ends_at - CERTIFICATE_SOON * (newest.ends_at - newest.issued_at):
                continue
            left_h = (newest.ends_at - now) / 3600
            said = f"ends in {left_h:.1f} h and was not renewed" if left_h > 0 else "has ended: join the machine again"
            yield StatusPart("certificate", name, "warn" if left_h > 0 else "bad", said, now - newest.issued_at)

    def _backups(self) -> Iterator[StatusPart]:
        if self._backed_up is None:
            return
        at = self._backed_up()
        age_s = None if at is None else max(0.0, self._clock.wall() - at)
        if age_s is None:
            yield StatusPart("backup", "store", "warn", "was never backed up here: `ares store backup FILE`")
        else:
            old = age_s > BACKUP_OLD_S
            said = "the newest backup is old: `ares store backup FILE`" if old else "backed up"
            yield StatusPart("backup", "store", "warn" if old else "ok", said, age_s)

    def _records(self) -> Iterator[StatusPart]:
        if aside := len(self._view.aside.records):
            yield StatusPart("records", "store", "bad", f"{aside} records cannot be read: `ares alert list` names them")

    def _alerts(self) -> Iterator[StatusPart]:
        still = [alert for alert in self._view.kept.alerts.values() if alert.state == "open"]
        if still:
            grave = sum(alert.severity == "critical" for alert in still)
            said = f"{len(still)} are open, {grave} of them critical: `ares alert list`"
            age_s = self._clock.wall() - max(alert.last_at for alert in still)
            yield StatusPart("alerts", "alerts", "warn", said, age_s)
