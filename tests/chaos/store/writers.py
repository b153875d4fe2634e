"""Eight writers on one etcd, and what each was told: every acknowledged write is there, at its own revision."""

import asyncio
from dataclasses import dataclass, field

from ares.ports.store import Committed, Compare, Put, Store, StoreUnavailable

WRITERS = 8
PREFIX = "/chaos/"


@dataclass
class Writers:
    """Each makes new keys without end. What it was told is kept; what nobody knows is told apart."""

    store: Store
    acknowledged: dict[str, int] = field(default_factory=dict[str, int])
    unknown: set[str] = field(default_factory=set[str])
    refused: set[str] = field(default_factory=set[str])
    _tasks: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])
    _starts: int = 0

    def start(self) -> None:
        self._starts += 1
        self._tasks = [asyncio.create_task(self._write(writer)) for writer in range(WRITERS)]

    async def _write(self, writer: int) -> None:
        number = 0
        while True:
            number += 1
            key = f"{PREFIX}{self._starts}/{writer}/{number:08}"
            try:
                outcome = await self.store.txn([Compare(key, "mod_revision", 0)], [Put(key, b"%d" % number)])
            except StoreUnavailable:
                # A refusal: certainly not written.
                self.refused.add(key)
                await asyncio.sleep(0.02)
                continue
            if isinstance(outcome, Committed):
                assert outcome.succeeded, f"{key} was there before it was written"
                self.acknowledged[key] = outcome.revision
            else:
                self.unknown.add(key)

    async def progress(self, count: int, within_s: float = 60.0) -> None:
        """Returns when so many more were acknowledged."""
        wanted = len(self.acknowledged) + count
        async with asyncio.timeout(within_s):
            while len(self.acknowledged) < wanted:
                for task in self._tasks:
                    if task.done():
                        task.result()
                await asyncio.sleep(0.005)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for result in await asyncio.gather(*self._tasks, return_exceptions=True):
            if not isinstance(result, asyncio.CancelledError):
                raise AssertionError("a writer ended by itself") from result

    async def judge(self) -> str:
        """Raises on a lost, moved or resurrected write. Says what there was."""
        found = {kv.key: kv for kv in (await self.store.range(PREFIX)).kvs}
        lost = self.acknowledged.keys() - found.keys()
        assert not lost, f"{len(lost)} acknowledged writes are gone, such as {min(lost)}"
        moved = {key: (at, found[key].mod_revision) for key, at in self.acknowledged.items()
                 if found[key].mod_revision != at}  # fmt: skip
        assert not moved, f"revisions were given twice (told, found): {dict(list(moved.items())[:5])}"
        assert not self.refused & found.keys(), "a refused write was made"
        # A write under way when its writer was stopped is nobody's.
        late = len(found.keys() - self.acknowledged.keys() - self.unknown)
        assert late <= WRITERS * self._starts, f"{late} writes that nobody made"
        made = len(self.unknown & found.keys())
        return f"{len(self.acknowledged)} acknowledged, {len(self.unknown)} unknown of which {made} were made"
