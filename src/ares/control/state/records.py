"""Records that people create and change one at a time, by compare-and-swap, also when an outcome is unknown."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec

from ares.control.state.view import View
from ares.core.refusal import Refusal
from ares.model.base import Record
from ares.ports.store import KV, Committed, Compare, Delete, Op, Put, Store, StoreUnavailable

T = TypeVar("T")
R = TypeVar("R", bound=Record)
_TRIES = 10


class Records:
    """One record's life: looked up, decided about, written if it is still what it was."""

    def __init__(self, store: Store, view: View) -> None:
        self._store = store
        self._view = view

    async def read(self, key: str, kind: type[R]) -> tuple[KV, R] | None:
        kv = await self._store.get(key)
        return None if kv is None else (kv, msgspec.json.decode(kv.value, type=kind))

    async def write(self, compares: Sequence[Compare], ops: Sequence[Op], *, seen: bool = True) -> bool:
        """Whether it is certain that this was written; if so, and with `seen`, this replica's view has it."""
        written = await self._store.txn(compares, ops)
        if not isinstance(written, Committed) or not written.succeeded:
            return False
        if seen:
            await self._view.reach(written.revision)
        return True

    async def ensure(self, compares: Sequence[Compare], ops: Sequence[Op]) -> bool:
        """As `write`. When the outcome is unknown, the record under the first operation's key tells."""
        if await self.write(compares, ops):
            return True
        own = ops[0]
        kv = await self._store.get(own.key)
        if (None if kv is None else kv.value) != (own.value if isinstance(own, Put) else None):
            return False
        await self._view.catch_up()
        return True

    async def delete(
        self,
        key: str,
        what: str,
        missing: Refusal,
        also: Sequence[Op] = (),
        allowed: Callable[[KV], Refusal | None] = lambda _: None,
    ) -> KV | Refusal:
        """Deletes a record, with what hangs on it, and gives it as it was; `missing` where there is none. Deleting it
        twice because an answer was lost is no error."""
        offered: KV | None = None

        async def attempt() -> KV | Refusal | None:
            nonlocal offered
            kv = await self._store.get(key)
            if kv is None:
                await self._view.catch_up()
                # An earlier try of this very call may have landed.
                return offered or missing
            if (no := allowed(kv)) is not None:
                return no
            offered = kv
            return kv if await self.ensure([same(kv)], [Delete(key), *also]) else None

        return await self.settle(f"that {what} is deleted", attempt)

    async def settle(self, what: str, attempt: Callable[[], Awaitable[T | None]], *, seen: bool = True) -> T:
        """Repeats an attempt that read and found the record changed, or does not know whether it wrote: it gives None.

        Without `seen` the attempt itself, or nothing, brings this replica's view up to what it found.
        """
        for tried in range(_TRIES):
            done = await attempt()
            if done is None:
                continue
            if tried and seen:
                # A record that was read may not be in this replica's view yet.
                await self._view.catch_up()
            return done
        raise StoreUnavailable(f"the store did not confirm {what}; try again")


def unchanged(key: str, kv: KV | None) -> Compare:
    """Holds unless the record was created, changed or deleted since."""
    return Compare(key, "mod_revision", 0 if kv is None else kv.mod_revision)


def same(kv: KV) -> Compare:
    """Holds unless the record was changed since."""
    return Compare(kv.key, "mod_revision", kv.mod_revision)


def absent(key: str) -> Compare:
    return Compare(key, "mod_revision", 0)
