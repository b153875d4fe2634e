"""Limits that processes inherit: a slot sets its own for what it starts, and anew each time."""

import resource
from typing import Final

_ALL: Final = tuple(getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_"))


class Bounds:
    def __init__(self) -> None:
        self._own = {which: resource.getrlimit(which) for which in _ALL}

    def set(self, which: int, value: int, *, final: bool) -> None:
        """On the slot itself, which needs no more than what it starts. `final`: that cannot raise it again. Raises
        ValueError when the slot may have no more by now."""
        now = resource.getrlimit(which)
        _, hard = now if self._own[which][1] == now[1] else self._own[which]
        soft = value if hard == resource.RLIM_INFINITY else min(value, hard)
        wanted = (soft, soft if final else hard)
        if now != wanted:
            resource.setrlimit(which, wanted)
        self._own[which] = wanted

    def kept(self) -> bool:
        """Sets anew what an attempt of the slot's own user may have changed. False when it cannot be."""
        try:
            for which, wanted in self._own.items():
                if resource.getrlimit(which) != wanted:
                    resource.setrlimit(which, wanted)
        except (OSError, ValueError):
            return False
        return True
