"""Is this replica alive, and fit to serve?"""

from ares.services.leader import Leader
from ares.services.plugins import RefusedPlugin
from ares.services.view import View


class Health:
    def __init__(self, view: View, leader: Leader, refused: tuple[RefusedPlugin, ...] = ()) -> None:
        self._view = view
        self._leader = leader
        self._refused = refused

    def live(self) -> bool:
        return True

    def ready(self) -> tuple[bool, dict[str, str]]:
        """Ready once the view follows the store. Having a leader is reported, not required."""
        leader = self._view.leader
        facts = {
            "store": "following" if self._view.connected else "unreachable",
            "leader": "none" if leader is None else leader.replica,
            "leading": "yes" if self._leader.leading else "no",
        }
        if self._refused:
            facts["plugins"] = "refused: " + ", ".join(sorted(one.name for one in self._refused))
        return self._view.connected, facts
