"""Reading watches in tests, always with a limit on how long."""

import asyncio
from collections.abc import Callable

from ares.ports.store import Changes, Compacted, Store, StoreChange

WAIT_S = 30.0


async def changes_until(
    store: Store, prefix: str, from_revision: int, enough: Callable[[list[StoreChange]], bool]
) -> list[StoreChange]:
    """Everything a watch yields until `enough` says so. Judges the order of revisions on the way."""
    seen: list[StoreChange] = []
    complete = from_revision - 1
    async with asyncio.timeout(WAIT_S):
        async for found in store.watch(prefix, from_revision):
            assert isinstance(found, Changes), found
            revisions = [change.kv.mod_revision for change in found.changes]
            assert revisions == sorted(revisions)
            assert all(complete < revision <= found.revision for revision in revisions)
            assert all(change.kv.key.startswith(prefix) for change in found.changes)
            complete = found.revision
            seen.extend(found.changes)
            if enough(seen):
                return seen
    raise AssertionError("the watch ended by itself")


async def first_of(store: Store, prefix: str, from_revision: int) -> Changes | Compacted:
    async with asyncio.timeout(WAIT_S):
        async for found in store.watch(prefix, from_revision):
            if isinstance(found, Compacted) or found.changes:
                return found
    raise AssertionError("the watch ended by itself")
