"""A program that writes to an embedded store by a script and says on standard output what it was told.

Each transaction can be recognised in the store, whatever happened to the others: `applied` finds which of them are
there, `expected` says what the store must hold then.
"""

import asyncio
import sys
from collections.abc import Iterable, Sequence

from ares.adapters.clocks import SystemClock
from ares.adapters.store.sqlite import SqliteStore, writer
from ares.ports.store import Committed, Compare, Delete, Op, Put, StoreBroken, StoreError, Unknown

# Small enough for a checkpoint in the middle of the script.
CHECKPOINT_PAGES = 12
# One after the other, then many in one group commit, then one after the other.
SCRIPT = (1, 1, 1, 6, 1, 1, 8, 1)
TRANSACTIONS = sum(SCRIPT)
LEASE_S = 600.0
_VALUE = 700
_KEPT = 4


def operations(number: int) -> list[Op]:
    """A pair that must be whole, a key that all overwrite, and the removal of an earlier one."""
    value = bytes([number]) * _VALUE
    pair: list[Op] = [Put(f"/k/{number:03d}", value), Put(f"/k/{number:03d}/pair", value)]
    return [*pair, Put("/last", b"%d" % number), Put(f"/old/{number:03d}", b""), Delete(f"/old/{number - _KEPT:03d}")]


def applied(found: Iterable[str]) -> list[int]:
    return sorted(int(key.removeprefix("/k/")) for key in found if key.startswith("/k/") and not key.endswith("/pair"))


def expected(numbers: Iterable[int]) -> dict[str, tuple[bytes, int]]:
    """Value and version of every key after these transactions."""
    contents: dict[str, tuple[bytes, int]] = {}
    for number in numbers:
        for op in operations(number):
            if isinstance(op, Put):
                contents[op.key] = (op.value, contents.get(op.key, (b"", 0))[1] + 1)
            else:
                contents.pop(op.key, None)
    return contents


def say(*words: object) -> None:
    sys.stdout.write(f"{' '.join(map(str, words))}\n")
    sys.stdout.flush()


async def one(store: SqliteStore, number: int) -> None:
    try:
        outcome = await store.txn([Compare(f"/k/{number:03d}", "mod_revision", 0)], operations(number))
    except StoreBroken as error:
        say("broken", number, error)
    except StoreError as error:
        say("refused", number, error)
    else:
        if isinstance(outcome, Committed):
            assert outcome.succeeded, f"{number} was there before"
        say(*(("unknown", number, outcome.why) if isinstance(outcome, Unknown) else ("ok", number, outcome.revision)))


async def lease(store: SqliteStore, *, end: bool) -> None:
    """Held ones stay; the others end with their key."""
    try:
        number = await store.grant_lease(LEASE_S)
        outcome = await store.txn([], [Put(f"/leased/{number}", b"", lease=number)])
        if end:
            await store.revoke_lease(number)
        say("revoked" if end else "leased" if isinstance(outcome, Committed) else "no-lease", number)
    except StoreError as error:
        say("no-lease", error)


async def run(path: str, script: Sequence[int]) -> None:
    writer._CHECKPOINT_PAGES = CHECKPOINT_PAGES  # pyright: ignore[reportPrivateUsage]
    store = await SqliteStore.open(path, SystemClock())
    say("open", await store.revision())
    number = 0
    for size in script:
        await asyncio.gather(*(one(store, number + step) for step in range(1, size + 1)))
        number += size
        if number in (2, 9):
            await lease(store, end=number == 2)
    say("closing")
    await store.close()
    say("closed")


def main(path: str, mode: str) -> None:
    try:
        asyncio.run(run(path, SCRIPT if mode == "run" else ()))
    except StoreError as error:
        say("not-open", error)


if __name__ == "__main__":
    main(*sys.argv[1:])
