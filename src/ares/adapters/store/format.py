"""Takes a store into use by the format of this version."""

from contextlib import suppress

from ares.core import store_format as formats
from ares.core.keys import FORMAT
from ares.ports.clock import Clock
from ares.ports.store import Compare, Put, Store, StoreError, StoreUnavailable, StoreVersionRefused

_TRIES = 3
_LOOK_S = 5.0


async def ensure_format(store: Store) -> None:
    """Records the format of this version in the store. StoreVersionRefused if the store has a newer one."""
    for _ in range(_TRIES):
        found = await store.get(FORMAT)
        if found is not None:
            if why := formats.newer(found.value):
                raise StoreVersionRefused(why)
            if formats.decode(found.value) == formats.FORMAT:
                return
        guard = Compare(FORMAT, "mod_revision", 0 if found is None else found.mod_revision)
        # The next read tells the outcome, also of an Unknown.
        await store.txn([guard], [Put(FORMAT, formats.encode())])
    raise StoreUnavailable(f"the store's format could not be written in {_TRIES} tries: is the store writable?")


async def keep_to_format(store: Store, clock: Clock) -> None:
    """Ends by StoreVersionRefused when a newer version has begun to write. The view notices at once, unless the store
    forgot that part of its history before the view could follow."""
    while True:
        await clock.sleep(_LOOK_S)
        found = None
        with suppress(StoreError):
            found = await store.get(FORMAT)
        if found is not None and (why := formats.newer(found.value)):
            raise StoreVersionRefused(why)
