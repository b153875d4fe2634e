"""Is this replica alive, and fit to serve? What does it know, and how old is that?"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from ares.api.plugins import RefusedPlugin
from ares.control.governance.watches import DiskWatch
from ares.control.scheduler.monitor import ready
from ares.control.state.leader import Leader, leads_for_s
from ares.control.state.view import View
from ares.control.state.write_probe import WriteProbe
from ares.ports.clock import Clock
from ares.ports.disk import Disk, DiskRoom
from ares.ports.telemetry import Telemetry

# Below this much of a disk, or a hundredth of a smaller one, the next write may fail.
FREE_BYTES_MIN: Final = 64 << 20
FREE_INODES_MIN: Final = 1000


class Health:
    def __init__(
        self,
        view: View,
        leader: Leader,
        clock: Clock,
        proof: WriteProbe,
        disk: Disk | None = None,
        refused: tuple[RefusedPlugin, ...] = (),
        reserves: DiskWatch | None = None,
        # Plugins that plans are made without, with what happened: those of the moment it is asked.
        cut: Mapping[str, str] = MappingProxyType({}),
        # How the planners do, where there are several.
        planners: Callable[[], Mapping[str, str]] = dict[str, str],
        # How the object store does, where files are kept in one.
        objects: Callable[[], Mapping[str, str]] = dict[str, str],
    ) -> None:
        self._objects = objects
        self._planners = planners
        self._view = view
        self._leader = leader
        self._clock = clock
        self._proof = proof
        self._disk = disk
        self._refused = refused
        self._reserves = reserves
        self._cut = cut

    def rooms(self) -> tuple[DiskRoom, ...]:
        """What is left where this replica writes."""
        return () if self._disk is None else self._disk()

    def live(self) -> bool:
        return True

    async def ready(self) -> tuple[bool, dict[str, str]]:
        """Ready while the view follows the store, the store takes writes and there is room for them. Having a leader is
        reported, not required."""
        view, rooms = self._view, () if self._disk is None else self._disk()
        unproven = await self._proof.missing()
        short = next((why for room in rooms if (why := lacks_room(room))), "")
        facts = {
            "store": "unreachable" if not view.connected else "following",
            "writes": unproven or "proven",
            "writes_age_s": f"{min(self._proof.age_s, 1e6):.1f}",
            "store_age_s": f"{self._clock.monotonic() - view.heard_at:.1f}",
            "leader": "none" if view.leader is None else view.leader.replica,
            "leading": "yes" if self._leader.leading else "no",
            # For clients that compare it with their own.
            "clock": f"{self._clock.wall():.3f}",
        }
        if (age_s := leads_for_s(view, self._clock)) is not None:
            facts["leader_age_s"] = f"{age_s:.1f}"
        if self._refused or self._cut:
            sorts = {"refused": sorted(plugin.name for plugin in self._refused), "cut off": sorted(self._cut)}
            facts["plugins"] = "; ".join(f"{sort}: {', '.join(names)}" for sort, names in sorts.items() if names)
        facts |= self._planners()
        facts |= self._objects()
        if rooms:
            facts["disk"] = short or "has room"
            facts["disk_free_mib"] = str(min(room.bytes_free for room in rooms) >> 20)
        if self._reserves is not None and (lacking := self._reserves.look()):
            facts["disk_reserve"] = lacking
        if view.aside.records:
            facts["records_set_aside"] = str(len(view.aside.records))
        return view.connected and not unproven and not short, facts

    def measure(self, telemetry: Telemetry) -> None:
        """The same in numbers, as of now."""
        view = self._view
        ages = [view.lease_age_s(node) or 0.0 for node in view.nodes if ready(view, node)]
        telemetry.gauges("ares_nodes", {("ready",): len(ages), ("lost",): len(view.nodes) - len(ages)})
        telemetry.gauge("ares_lease_age_seconds", max(ages, default=0.0))
        telemetry.gauge("ares_store_age_seconds", self._clock.monotonic() - view.heard_at)
        telemetry.gauge("ares_leader_age_seconds", leads_for_s(view, self._clock) or 0.0)
        telemetry.gauge("ares_records_aside", len(view.aside.records))
        rooms = self.rooms()
        telemetry.gauges("ares_disk_free_bytes", {(room.path,): room.bytes_free for room in rooms})
        telemetry.gauges("ares_disk_bytes", {(room.path,): room.bytes_all for room in rooms})


def lacks_room(room: DiskRoom) -> str:
    """What there is too little of; empty when there is enough."""
    least = _least(room.bytes_all, FREE_BYTES_MIN)
    if room.bytes_free < least:
        return f"{room.bytes_free:,} bytes are left at {room.path}, at least {least:,} are needed"
    least = _least(room.inodes_all, FREE_INODES_MIN)
    if room.inodes_free < least:
        return f"{room.inodes_free:,} inodes are left at {room.path}, at least {least:,} are needed"
    return ""


def _least(whole: int, wanted: int) -> int:
    """Small disks keep a small part of them."""
    return min(wanted, whole // 100)
