"""The same limits on every store, refused before anything is sent or written."""

import asyncio

import pytest

from ares.ports.store import (
    TXN_BYTES_MAX,
    TXN_OPS_MAX,
    VALUE_BYTES_MAX,
    Committed,
    Compare,
    Get,
    Put,
    Store,
    StoreError,
)
from tests.contract.store.conftest import Subject


async def test_the_largest_transaction(subject: Subject, store: Store) -> None:
    keys = [subject.key(n) for n in range(TXN_OPS_MAX)]
    outcome = await store.txn(
        [Compare(key, "version", 0) for key in keys], [Put(key, b"1") for key in keys], [Get(key) for key in keys]
    )
    assert isinstance(outcome, Committed)
    assert outcome.succeeded
    assert len((await store.range(subject.prefix)).kvs) == TXN_OPS_MAX


async def test_many_largest_transactions_at_once(subject: Subject, store: Store) -> None:
    outcomes = await asyncio.gather(
        *(store.txn([], [Put(subject.key(f"{n}/{m}"), b"1") for m in range(TXN_OPS_MAX)]) for n in range(100))
    )
    assert all(isinstance(outcome, Committed) for outcome in outcomes)
    assert len((await store.range(subject.prefix)).kvs) == 100 * TXN_OPS_MAX


async def test_the_largest_value(subject: Subject, store: Store) -> None:
    value = b"x" * VALUE_BYTES_MAX
    assert isinstance(await store.txn([], [Put(subject.key("a"), value)]), Committed)
    found = await store.get(subject.key("a"))
    assert found is not None
    assert found.value == value


async def test_many_large_values_at_once(subject: Subject, store: Store) -> None:
    outcomes = await asyncio.gather(*(store.txn([], [Put(subject.key(n), b"x" * 400_000)]) for n in range(10)))
    assert all(isinstance(outcome, Committed) for outcome in outcomes)
    assert [len(kv.value) for kv in (await store.range(subject.prefix)).kvs] == [400_000] * 10


async def test_too_much_is_refused_in_the_same_words(subject: Subject, store: Store) -> None:
    key = subject.key("a")
    many = [subject.key(n) for n in range(TXN_OPS_MAX + 1)]
    half = b"x" * (TXN_BYTES_MAX // 2)
    refused = (
        (([], [Put(k, b"") for k in many], []), "61 operations"),
        (([], [], [Get(k) for k in many]), "61 otherwise"),
        (([Compare(k, "version", 0) for k in many], [], []), "61 compares"),
        (([], [Put(key, b"x" * (VALUE_BYTES_MAX + 1))], []), "1000001 bytes, at most 1000000"),
        (([], [Put(key, half), Put(key + "b", half)], []), "at most 1300000"),
        (([Compare(key, "value", half)], [Put(key, b"")], [Put(key, half)]), "at most 1300000"),
    )
    before = await store.revision()
    for (compares, then, otherwise), words in refused:
        with pytest.raises(StoreError, match=words):
            await store.txn(compares, then, otherwise)
    assert await store.revision() == before
