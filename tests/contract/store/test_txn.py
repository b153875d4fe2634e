"""What a transaction does, the same on every store."""

import pytest

from ares.ports.store import KV, Committed, Compare, Delete, Get, Put, Store, StoreError, Unknown
from tests.contract.store.conftest import Subject


async def put(store: Store, key: str, value: bytes) -> int:
    outcome = await store.txn([], [Put(key, value)])
    assert isinstance(outcome, Committed)
    assert outcome.succeeded
    return outcome.revision


async def test_revisions_and_versions_of_a_key(subject: Subject, store: Store) -> None:
    key = subject.key("a")
    assert await store.get(key) is None
    first = await put(store, key, b"1")
    second = await put(store, key, b"2")
    assert second > first
    assert await store.get(key) == KV(key, b"2", first, second, 2)
    assert await store.revision() >= second
    await store.txn([], [Delete(key)])
    third = await put(store, key, b"3")
    assert await store.get(key) == KV(key, b"3", third, third, 1)


@pytest.mark.parametrize("target", ["mod_revision", "create_revision", "version", "value"])
async def test_compares_choose_the_branch(subject: Subject, store: Store, target: str) -> None:
    key, flag = subject.key("a"), subject.key("flag")
    created = await put(store, key, b"1")
    modified = await put(store, key, b"2")
    right = {"mod_revision": modified, "create_revision": created, "version": 2, "value": b"2"}[target]
    wrong = {"mod_revision": created, "create_revision": modified, "version": 1, "value": b"1"}[target]
    for equals, expected in ((right, True), (wrong, False)):
        outcome = await store.txn(
            [Compare(key, target, equals)],  # pyright: ignore[reportArgumentType]
            [Put(flag, b"then")],
            [Put(flag, b"otherwise")],
        )
        assert isinstance(outcome, Committed)
        assert outcome.succeeded is expected
        found = await store.get(flag)
        assert found is not None
        assert found.value == (b"then" if expected else b"otherwise")


async def test_compares_of_a_missing_key(subject: Subject, store: Store) -> None:
    missing = subject.key("missing")
    for compare, holds in (
        (Compare(missing, "mod_revision", 0), True),
        (Compare(missing, "create_revision", 0), True),
        (Compare(missing, "version", 0), True),
        (Compare(missing, "version", 1), False),
        # A missing value is not an empty one.
        (Compare(missing, "value", b""), False),
    ):
        outcome = await store.txn([compare], [])
        assert isinstance(outcome, Committed)
        assert outcome.succeeded is holds, compare


async def test_all_compares_must_hold(subject: Subject, store: Store) -> None:
    a, b, c = subject.key("a"), subject.key("b"), subject.key("c")
    at = await put(store, a, b"1")
    await put(store, b, b"2")
    good = [Compare(a, "mod_revision", at), Compare(b, "value", b"2"), Compare(c, "version", 0)]
    outcome = await store.txn(good, [Put(c, b"x")])
    assert isinstance(outcome, Committed)
    assert outcome.succeeded
    # Now the last one does not hold any more.
    outcome = await store.txn(good, [Put(a, b"y"), Delete(b)], [Get(a), Get(b), Get(c)])
    assert isinstance(outcome, Committed)
    assert not outcome.succeeded
    assert [kv.value if kv else None for kv in outcome.gets] == [b"1", b"2", b"x"]


async def test_a_transaction_is_one_change(subject: Subject, store: Store) -> None:
    keys = [subject.key(n) for n in range(5)]
    outcome = await store.txn([], [Put(key, b"1") for key in keys])
    assert isinstance(outcome, Committed)
    page = await store.range(subject.prefix)
    assert [kv.key for kv in page.kvs] == keys
    assert {kv.mod_revision for kv in page.kvs} == {outcome.revision}


async def test_gets_see_what_the_transaction_wrote(subject: Subject, store: Store) -> None:
    a, b = subject.key("a"), subject.key("b")
    await put(store, b, b"old")
    outcome = await store.txn([], [Get(a), Put(a, b"1"), Get(a), Delete(b), Get(b)])
    assert isinstance(outcome, Committed)
    at = outcome.revision
    assert outcome.gets == (None, KV(a, b"1", at, at, 1), None)


async def test_reading_and_deleting_nothing_keep_the_revision(subject: Subject, store: Store) -> None:
    at = await put(store, subject.key("a"), b"1")
    outcome = await store.txn(
        [], [Get(subject.key("a")), Delete(subject.key("none")), Delete(subject.key("x/"), prefix=True)]
    )
    assert isinstance(outcome, Committed)
    assert outcome.revision == at
    assert await store.revision() == at


async def test_delete_prefix(subject: Subject, store: Store) -> None:
    names = ["d", "d/", "d/1", "d/2/x", "d0", "e"]
    await store.txn([], [Put(subject.key(name), b"1") for name in names])
    await store.txn([], [Delete(subject.key("d/"), prefix=True)])
    page = await store.range(subject.prefix)
    assert [kv.key for kv in page.kvs] == [subject.key(name) for name in ("d", "d0", "e")]


async def test_values_are_any_bytes(subject: Subject, store: Store) -> None:
    values = [b"", b"\0", b"\xff\xfe", bytes(range(256)), b'{"a": 1}']
    await store.txn([], [Put(subject.key(n), value) for n, value in enumerate(values)])
    page = await store.range(subject.prefix)
    assert [kv.value for kv in page.kvs] == values
    outcome = await store.txn([], [Get(subject.key(n)) for n in range(len(values))])
    assert isinstance(outcome, Committed)
    assert [kv.value for kv in outcome.gets if kv] == values


async def test_writing_one_key_twice_is_refused(subject: Subject, store: Store) -> None:
    key = subject.key("a/b")
    for ops in (
        [Put(key, b"1"), Put(key, b"2")],
        [Put(key, b"1"), Delete(key)],
        [Delete(subject.key("a/"), prefix=True), Put(key, b"1")],
    ):
        with pytest.raises(StoreError, match="a/"):
            await store.txn([], ops)
    assert await store.get(key) is None


async def test_a_lease_that_is_gone_refuses_the_whole_transaction(subject: Subject, store: Store) -> None:
    a, b = subject.key("a"), subject.key("b")
    with pytest.raises(StoreError, match="lease"):
        await store.txn([], [Put(a, b"1"), Put(b, b"1", lease=123456789)])
    assert await store.get(a) is None
    # Not when the branch that names it does not run.
    outcome = await store.txn([Compare(a, "version", 5)], [Put(b, b"1", lease=123456789)], [Put(a, b"2")])
    assert not isinstance(outcome, Unknown)
    assert await store.get(a) is not None


@pytest.mark.parametrize("key", ["", "a\0b"])
async def test_keys_that_no_store_takes(store: Store, key: str) -> None:
    for call in (store.get(key), store.txn([], [Put(key, b"")]), store.txn([Compare(key, "version", 0)], [])):
        with pytest.raises(StoreError, match="refused"):
            await call
