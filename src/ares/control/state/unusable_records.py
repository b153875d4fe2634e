"""Records that cannot be used: left out of the view and reported. They never end a replica."""

import asyncio

import structlog

from ares.core import keys
from ares.ports.store import StoreChange

log = structlog.get_logger()

# Up to this number each is reported.
ASIDE_MAX = 1000
_WHY_MAX = 300
# Exceptions of a record that is not valid, where it is read.
UNUSABLE = (ValueError, ArithmeticError, LookupError, TypeError, RecursionError)
# A job or a lease keeps its last valid state: without it, the resources it holds would look free.
_KEPT = frozenset({keys.STATE, keys.LEASES})


class Aside:
    """By key, why each record is not used. Changed by the view, and by what cannot go on with a record of it."""

    def __init__(self) -> None:
        self.records: dict[str, str] = {}
        self.changed = asyncio.Event()

    def put(self, key: str, error: BaseException) -> None:
        why = (str(error) or type(error).__name__)[:_WHY_MAX]
        log.error("record.set_aside", key=key, why=why)
        if len(self.records) < ASIDE_MAX or key in self.records:
            self.records[key] = why
        self.changed.set()

    def instead(self, kind: str, change: StoreChange, error: BaseException) -> StoreChange | None:
        """Sets a record aside that cannot be read; it is then as if it were not there, or had not changed."""
        self.put(change.kv.key, error)
        return None if kind in _KEPT or change.deleted else StoreChange(change.kv, deleted=True)
