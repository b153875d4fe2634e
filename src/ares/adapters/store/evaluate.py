"""What a transaction means, for the adapters that carry it out themselves."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from ares.ports.store import KV, Committed, Compare, Delete, Get, Op, Put, StoreChange, StoreError


class Txn(Struct, frozen=True, gc=False):
    compares: Sequence[Compare]
    then: Sequence[Op]
    otherwise: Sequence[Op]


class KeyState(Protocol):
    """The keys as the transactions before this one left them."""

    def meta(self, key: str) -> KV | None:
        """The key without a promise about its value, which may cost a read."""
        ...

    def full(self, key: str) -> KV | None: ...

    def under(self, prefix: str) -> Sequence[str]:
        """Every key under `prefix`, in order."""
        ...

    def put(self, kv: KV) -> None: ...

    def remove(self, key: str) -> None: ...

    def has_lease(self, lease: int) -> bool: ...


def evaluate(state: KeyState, txn: Txn, revision: int) -> tuple[Committed, list[StoreChange]]:
    """Carries `txn` out on `state`, which is at `revision`. Raises before it changes anything."""
    succeeded = True
    for compare in txn.compares:
        if not _holds(state, compare):
            succeeded = False
            break
    ops = txn.then if succeeded else txn.otherwise
    for op in ops:
        if isinstance(op, Put) and op.lease and not state.has_lease(op.lease):
            raise StoreError(f"lease {op.lease} of key {op.key!r} is gone: it expired or was revoked; grant a new one")
    changes: list[StoreChange] = []
    gets: list[KV | None] = []
    for op in ops:
        if isinstance(op, Put):
            changes.append(_put(state, op, revision + 1))
        elif isinstance(op, Get):
            gets.append(state.full(op.key))
        else:
            changes.extend(_delete(state, op, revision + 1))
    return Committed(succeeded, revision + 1 if changes else revision, tuple(gets)), changes


def remove_keys(state: KeyState, keys: Sequence[str], revision: int) -> list[StoreChange]:
    """Deletes keys that exist, as one change of the store at `revision`."""
    for key in keys:
        state.remove(key)
    return [StoreChange(KV(key, b"", 0, revision, 0), deleted=True) for key in keys]


def _holds(state: KeyState, compare: Compare) -> bool:
    if compare.target == "value":
        kv = state.full(compare.key)
        return kv is not None and kv.value == compare.equals
    kv = state.meta(compare.key)
    return (0 if kv is None else getattr(kv, compare.target)) == compare.equals


def _put(state: KeyState, op: Put, revision: int) -> StoreChange:
    old = state.meta(op.key)
    if old is None:
        kv = KV(op.key, op.value, revision, revision, 1, op.lease)
    else:
        kv = KV(op.key, op.value, old.create_revision, revision, old.version + 1, op.lease)
    state.put(kv)
    return StoreChange(kv)


def _delete(state: KeyState, op: Delete, revision: int) -> list[StoreChange]:
    keys = state.under(op.key) if op.prefix else (op.key,)
    return remove_keys(state, [key for key in keys if state.meta(key) is not None], revision)
