"""Which replicas there are: each writes of itself into the store they share, and all read it."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec
import structlog

from ares.control.state.view import View
from ares.core import keys
from ares.model.state import ReplicaRecord
from ares.ports.clock import Clock
from ares.ports.store import Delete, Put, Store, StoreError
from ares.version import __version__

log = structlog.get_logger()

EVERY_S: Final = 10.0
# After so long without a sign it is told of as silent ...
SILENT_S: Final = 3 * EVERY_S
# ... and after so long as not at all: names are new with each start, as a rule.
FORGOTTEN_S: Final = 3600.0
_FORGET_AT_ONCE: Final = 100


class SeenReplica(NamedTuple):
    record: ReplicaRecord
    # Since its record was last seen to change, by this replica's own clock.
    age_s: float


class ReplicaRoll:
    def __init__(self, store: Store, view: View, clock: Clock, replica: str) -> None:
        self._store = store
        self._view = view
        self._clock = clock
        self._replica = replica
        self._began_at = clock.wall()
        # The revision that was seen last, and when.
        self._seen: dict[str, tuple[int, float]] = {}

    async def run(self) -> None:
        try:
            while True:
                await self.write()
                await self._clock.sleep(EVERY_S)
        finally:
            # One that stops in order is not missed.
            await self._put_all([Delete(keys.replica(self._replica))])

    async def write(self) -> None:
        now = self._clock.wall()
        mine = ReplicaRecord(replica=self._replica, version=__version__, began_at=self._began_at, at=now)
        gone = [seen.record.replica for seen in self.others() if seen.age_s > FORGOTTEN_S][:_FORGET_AT_ONCE]
        changes = [Put(keys.replica(self._replica), msgspec.json.encode(mine))]
        await self._put_all([*changes, *(Delete(keys.replica(name)) for name in gone)])

    def others(self) -> Iterator[SeenReplica]:
        """By name. One that has not been seen to change since this replica began is as old as it says."""
        now, wall, table = self._clock.monotonic(), self._clock.wall(), self._view.kept.replicas
        self._seen = {name: seen for name, seen in self._seen.items() if name in table}
        for name, record in sorted(table.items()):
            if name == self._replica:
                continue
            revision = table.revisions[name]
            before = self._seen.get(name)
            if before is None:
                self._seen[name] = (revision, now - max(0.0, wall - record.at))
            elif before[0] != revision:
                self._seen[name] = (revision, now)
            yield SeenReplica(record, now - self._seen[name][1])

    async def _put_all(self, changes: list[Put | Delete]) -> None:
        try:
            await self._store.txn([], changes)
        except StoreError as error:
            log.warning("replicas.delayed", error=str(error))
