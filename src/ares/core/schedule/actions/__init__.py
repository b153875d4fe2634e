"""Actions of a cycle, the least disruptive first. One file each, named in a profile."""

from collections.abc import Callable

from ares.core.schedule.actions.allocate import allocate
from ares.core.schedule.round import Round

Action = Callable[[Round], None]

ACTIONS: dict[str, Action] = {
    "allocate": allocate,
}
