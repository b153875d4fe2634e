"""How reservations are written: each alone by compare-and-swap, and bookings of room one after the other."""

import msgspec

from ares.control.state.view import View
from ares.core import keys
from ares.model.reservation import Reservation
from ares.ports.store import Committed, Compare, Op, Put, Store


class Book:
    """Whoever gives room away reads `turn` first and writes with it: of two at once, one looks again."""

    def __init__(self, store: Store, view: View) -> None:
        self._store = store
        self._view = view

    async def turn(self) -> int:
        """The revision of the latest booking, with a view that knows of it."""
        kv = await self._store.get(keys.BOOKINGS)
        await self._view.catch_up()
        return 0 if kv is None else kv.mod_revision

    async def write(
        self, one: Reservation, revision: int, turn: int | None = None, guards: tuple[Compare, ...] = ()
    ) -> bool:
        """Whether it was written; with `turn` only if nobody booked since. Returns when the view has it."""
        key = keys.reservation(one.name)
        compares = [*guards, Compare(key, "mod_revision", revision)]
        ops: list[Op] = [Put(key, msgspec.json.encode(one))]
        if turn is not None:
            compares.append(Compare(keys.BOOKINGS, "mod_revision", turn))
            ops.append(Put(keys.BOOKINGS, one.name.encode()))
        written = await self._store.txn(compares, ops)
        if isinstance(written, Committed):
            await self._view.reach(written.revision)
            return written.succeeded
        # Nobody knows whether it landed: what is kept under its name tells.
        kv = await self._store.get(key)
        await self._view.catch_up()
        return kv is not None and msgspec.json.decode(kv.value, type=Reservation) == one
