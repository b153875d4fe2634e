"""Whether anything is left to do in a world, by its store alone."""

import msgspec

from ares.core import keys
from ares.model.state import TERMINAL, ArrayRecord, JobState
from ares.sim.world.store import RecordedStore

_state = msgspec.json.Decoder(JobState).decode
_array = msgspec.json.Decoder(ArrayRecord).decode


class Quiet:
    def __init__(self, store: RecordedStore) -> None:
        self._store = store

    def quiet(self) -> bool:
        """Every job has ended and holds nothing, and every array has its tasks."""
        kvs = self._store.snapshot()
        states = (_state(kv.value) for key, kv in kvs.items() if key.startswith(keys.STATE))
        arrays = (_array(kv.value) for key, kv in kvs.items() if key.startswith(keys.ARRAYS))
        return all(s.phase in TERMINAL and not s.lingering for s in states) and all(a.expanded for a in arrays)
