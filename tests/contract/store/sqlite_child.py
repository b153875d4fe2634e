"""A process that writes to a store until it is killed, telling every acknowledged write on its output."""

import asyncio
import resource
import sys
from pathlib import Path

from ares.adapters.store.sqlite import SqliteStore
from ares.ports.store import Committed, Put, StoreError, Unknown
from tests.contract.store.conftest import SystemClock


def tell(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def write_forever(path: str) -> None:
    store = await SqliteStore.open(path, SystemClock())

    async def writer(number: int) -> None:
        step = 0
        while True:
            key = f"/k/{number:03d}/{step:06d}"
            if isinstance(await store.txn([], [Put(key, b"x" * 200), Put(f"{key}/pair", b"")]), Committed):
                tell(key)
            step += 1

    await asyncio.gather(*(writer(number) for number in range(40)))


def limit_files(log: Path) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (log.stat().st_size + 20_000, resource.RLIM_INFINITY))


async def meet_a_broken_disk(path: str) -> None:
    """Writes beyond the limit fail with an error that is not "disk full": what a failing disk looks like."""
    store = await SqliteStore.open(path, SystemClock())
    assert isinstance(await store.txn([], [Put("/good", b"1")]), Committed)
    limit_files(Path(f"{path}-wal"))
    outcomes = await asyncio.gather(
        *(store.txn([], [Put(f"/bad/{n}", b"x" * 1000)]) for n in range(100)), return_exceptions=True
    )
    tell("unknown", sum(isinstance(outcome, Unknown) for outcome in outcomes))
    tell("refused", sum(isinstance(outcome, StoreError) for outcome in outcomes))
    # The disk works again, but nobody knows what it has dropped.
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    for call in (store.txn([], [Put("/later", b"1")]), store.get("/good"), store.revision(), store.grant_lease(5)):
        try:
            tell("went on", await call)
        except StoreError as error:
            tell("broken", error)
    try:
        async for _ in store.watch("/", 1_000):
            tell("went on")
    except StoreError as error:
        tell("broken", error)
    await store.close()


async def hold(path: str) -> None:
    await SqliteStore.open(path, SystemClock())
    tell("open")
    await asyncio.Event().wait()


if __name__ == "__main__":
    MODES = {"write": write_forever, "broken": meet_a_broken_disk, "hold": hold}
    asyncio.run(MODES[sys.argv[1]](sys.argv[2]))
