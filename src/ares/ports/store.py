"""The state of record, with etcd's semantics. One contract suite holds every adapter to this page.

Revisions only grow. A transaction is atomic; several transactions may share one revision when an
adapter coalesces them, so a revision names a moment, not a writer. `txn` never retries: when the
outcome cannot be known it returns `Unknown`, and the caller finds out by reading back.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from types import TracebackType
from typing import Literal, Protocol, Self

from msgspec import Struct

# Values here are structs rather than dataclasses: made by the hundred thousand a second, they cost a tenth,
# and without reference cycles the garbage collector need not visit them (gc=False).

# What one transaction may hold on every adapter: compares, and operations per branch.
TXN_OPS_MAX = 60
VALUE_BYTES_MAX = 1_000_000
# Keys and values of one transaction, both branches and compares together.
TXN_BYTES_MAX = 1_300_000


class KV(Struct, frozen=True, gc=False):
    key: str
    value: bytes
    create_revision: int
    mod_revision: int
    version: int
    lease: int = 0


class Compare(Struct, frozen=True, gc=False):
    """A condition on one key. `mod_revision` 0 means "does not exist"."""

    key: str
    target: Literal["mod_revision", "create_revision", "version", "value"]
    equals: int | bytes


class Put(Struct, frozen=True, gc=False):
    key: str
    value: bytes
    lease: int = 0


class Delete(Struct, frozen=True, gc=False):
    """Deletes one key, or every key under it when `prefix` is set."""

    key: str
    prefix: bool = False


class Get(Struct, frozen=True, gc=False):
    key: str


Op = Put | Delete | Get


class Committed(Struct, frozen=True, gc=False):
    """`succeeded` tells which branch ran; `gets` holds the answers of its Get operations, in order."""

    succeeded: bool
    revision: int
    gets: tuple[KV | None, ...] = ()


class Unknown(Struct, frozen=True, gc=False):
    """The request was sent and no answer came: it may have committed, now or later."""

    why: str


class Page(Struct, frozen=True, gc=False):
    """Keys in order. `revision` is the store's revision the page was read at."""

    kvs: tuple[KV, ...]
    revision: int
    more: bool = False


class StoreChange(Struct, frozen=True, gc=False):
    """One watched change. A delete carries the key, no value and its revision as `mod_revision`."""

    kv: KV
    deleted: bool = False


class Changes(Struct, frozen=True, gc=False):
    """All changes of one revision or several, in order; complete up to `revision`."""

    revision: int
    changes: tuple[StoreChange, ...]


class Compacted(Struct, frozen=True, gc=False):
    """The history asked for is gone: list again, then watch from `revision` + 1. Ends the watch."""

    revision: int


class StoreError(Exception):
    """The store failed; nothing was changed by the call that raised this."""


class StoreUnavailable(StoreError):
    """The store cannot be reached or refused before the request was carried out."""


class StoreFull(StoreUnavailable):
    """There is no room left to write. Reading goes on, and so does writing once there is room."""


class StoreBroken(StoreUnavailable):
    """The store will not work again in this process: only a new process may use it."""


class StoreRefused(StoreError):
    """The store works, and does not take this request: it is too large, or not well formed. To repeat it is no use."""


class StoreVersionRefused(StoreError):
    """The server's version is known to lose acknowledged writes, or a newer version of Ares writes to the store."""


class Store(Protocol):
    """Reads are linearizable. Every call has a deadline of its own."""

    async def get(self, key: str) -> KV | None: ...

    async def range(self, prefix: str, *, after: str = "", limit: int = 0, min_mod_revision: int = 0) -> Page:
        """Keys under `prefix`, in order, after the key `after`, at most `limit` (0: all)."""
        ...

    async def txn(
        self, compares: Sequence[Compare], then: Sequence[Op], otherwise: Sequence[Op] = ()
    ) -> Committed | Unknown: ...

    async def revision(self) -> int:
        """The newest committed revision, read linearizably."""
        ...

    def watch(self, prefix: str, from_revision: int) -> AsyncIterator[Changes | Compacted]:
        """Every change at or after `from_revision`, exactly once and in order. Survives reconnects
        by itself; may yield empty `Changes` as progress."""
        ...

    async def grant_lease(self, ttl_s: float) -> int: ...

    async def keep_alive(self, lease: int) -> float:
        """Renews; returns the seconds it is valid for from when the call was made, 0 if it is gone."""
        ...

    async def revoke_lease(self, lease: int) -> None:
        """Ends the lease and deletes its keys."""
        ...

    async def close(self) -> None: ...


# ---- the store at one moment


# Called with how much is done, and of how much in all.
Progress = Callable[[int, int], None]


class Snapshot(Protocol):
    """Every answer is from the same revision. Used by one thread, in a `with` block."""

    @property
    def revision(self) -> int: ...

    def rows(self, prefix: str) -> Iterator[KV]:
        """Keys under `prefix`, in order, fetched on demand. Several iterations may be under way at once."""
        ...

    def get(self, key: str) -> KV | None: ...

    def count(self, prefix: str) -> int: ...

    def damage(self) -> tuple[str, ...]:
        """What is wrong with the storage itself, in its own words; nothing when it is sound or cannot tell."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...
