"""Actions of a cycle, the least disruptive first. One file each, named in a profile."""

from collections.abc import Callable

from ares.core.schedule.actions.allocate import allocate
from ares.core.schedule.actions.backfill import backfill
from ares.core.schedule.actions.claim import claim
from ares.core.schedule.actions.evict import preempt, reclaim, rotate
from ares.core.schedule.actions.pace import paces
from ares.core.schedule.actions.resize import grow, shrink
from ares.core.schedule.trial import Trial

Action = Callable[[Trial], None]

ACTIONS: dict[str, Action] = {
    "allocate": allocate,
    "backfill": backfill,
    "claim": claim,
    "grow": grow,
    "pace": paces,
    "preempt": preempt,
    "reclaim": reclaim,
    "rotate": rotate,
    "shrink": shrink,
}
