"""Is this replica alive, and fit to serve? What does it know, and how old is that?"""

from ares.ports.clock import Clock
from ares.ports.telemetry import Telemetry
from ares.services.leader import Leader, leads_for_s
from ares.services.monitor import ready
from ares.services.plugins import RefusedPlugin
from ares.services.view import View


class Health:
    def __init__(self, view: View, leader: Leader, clock: Clock, refused: tuple[RefusedPlugin, ...] = ()) -> None:
        self._view = view
        self._leader = leader
        self._clock = clock
        self._refused = refused

    def live(self) -> bool:
        return True

    def ready(self) -> tuple[bool, dict[str, str]]:
        """Ready once the view follows the store. Having a leader is reported, not required."""
        view = self._view
        facts = {
            "store": "following" if view.connected else "unreachable",
            "store_age_s": f"{self._clock.monotonic() - view.heard_at:.1f}",
            "leader": "none" if view.leader is None else view.leader.replica,
            "leading": "yes" if self._leader.leading else "no",
        }
        if (age_s := leads_for_s(view, self._clock)) is not None:
            facts["leader_age_s"] = f"{age_s:.1f}"
        if self._refused:
            facts["plugins"] = "refused: " + ", ".join(sorted(one.name for one in self._refused))
        return view.connected, facts

    def measure(self, telemetry: Telemetry) -> None:
        """The same in numbers, as of now."""
        view = self._view
        ages = [view.lease_age_s(node) or 0.0 for node in view.nodes if ready(view, node)]
        telemetry.gauge("ares_nodes", len(ages), "ready")
        telemetry.gauge("ares_nodes", len(view.nodes) - len(ages), "lost")
        telemetry.gauge("ares_lease_age_seconds", max(ages, default=0.0))
        telemetry.gauge("ares_store_age_seconds", self._clock.monotonic() - view.heard_at)
        telemetry.gauge("ares_leader_age_seconds", leads_for_s(view, self._clock) or 0.0)
