"""The store's epoch: it grows when a store is restored, so that old fences stay old."""

import msgspec

from ares.core.keys import EPOCH
from ares.ports.clock import Rng
from ares.ports.store import Committed, Compare, Put, Store, StoreUnavailable

_ID_BYTES = 16
_TRIES = 3


class StoreEpoch(msgspec.Struct, frozen=True):
    epoch: int
    id: str


def encode(epoch: int, random: bytes) -> bytes:
    return msgspec.json.encode(StoreEpoch(epoch, random.hex()))


def decode(value: bytes) -> StoreEpoch:
    return msgspec.json.decode(value, type=StoreEpoch)


async def ensure_epoch(store: Store, rng: Rng) -> int:
    """The store's epoch. The first replica creates it as 1."""
    for _ in range(_TRIES):
        found = await store.get(EPOCH)
        if found is not None:
            return decode(found.value).epoch
        # The next read tells the outcome, also of an Unknown.
        outcome = await store.txn([Compare(EPOCH, "mod_revision", 0)], [Put(EPOCH, encode(1, rng.token(_ID_BYTES)))])
        if isinstance(outcome, Committed) and outcome.succeeded:
            return 1
    raise StoreUnavailable(f"the store's epoch could not be created in {_TRIES} tries: is the store writable?")


async def begin_epoch(store: Store, rng: Rng, above: int = 0) -> int:
    """Moves the store to a new epoch, greater than the present one and than `above`, with a new identity."""
    fresh = rng.token(_ID_BYTES)
    for _ in range(_TRIES):
        found = await store.get(EPOCH)
        now = None if found is None else decode(found.value)
        # An earlier try may have been written although its outcome was unknown.
        if now is not None and now.id == fresh.hex():
            return now.epoch
        number = max(above, 0 if now is None else now.epoch) + 1
        guard = Compare(EPOCH, "mod_revision", 0 if found is None else found.mod_revision)
        outcome = await store.txn([guard], [Put(EPOCH, encode(number, fresh))])
        if isinstance(outcome, Committed) and outcome.succeeded:
            return number
    raise StoreUnavailable(f"a new epoch could not be written in {_TRIES} tries: is the store writable?")
