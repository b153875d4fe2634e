"""Watches: every change once, in order, from any revision that is still known."""

import asyncio
from collections import defaultdict

import pytest

from ares.ports.store import KV, Committed, Compacted, Delete, Put, Store, StoreChange, StoreUnavailable
from tests.contract.store.conftest import Subject
from tests.contract.store.watching import changes_until, first_of


async def write(store: Store, *ops: Put | Delete) -> int:
    outcome = await store.txn([], ops)
    assert isinstance(outcome, Committed)
    return outcome.revision


async def test_from_a_past_revision(subject: Subject, store: Store) -> None:
    a, b = subject.key("a"), subject.key("b")
    first = await write(store, Put(a, b"1"))
    second = await write(store, Put(a, b"2"), Put(b, b"1"))
    third = await write(store, Delete(a))
    expected = [
        StoreChange(KV(a, b"1", first, first, 1)),
        StoreChange(KV(a, b"2", first, second, 2)),
        StoreChange(KV(b, b"1", second, second, 1)),
        StoreChange(KV(a, b"", 0, third, 0), deleted=True),
    ]
    for start, skip in ((first, 0), (second, 1), (third, 3)):
        seen = await changes_until(
            store, subject.prefix, start, lambda got, skip=skip: len(got) >= len(expected) - skip
        )
        assert seen == expected[skip:]


async def test_from_now_and_from_the_future(subject: Subject, store: Store) -> None:
    at = await store.revision()
    watching = asyncio.create_task(changes_until(store, subject.prefix, at + 3, lambda got: len(got) >= 2))
    revisions = [await write(store, Put(subject.key(n), b"1")) for n in range(4)]
    assert [change.kv.mod_revision for change in await watching] == revisions[2:]


async def test_a_list_and_a_watch_meet_without_a_gap(subject: Subject, store: Store) -> None:
    """List, then watch from its revision + 1, while writers go on: the copy equals the store."""
    total, writers = 40, 4

    async def writer(number: int) -> None:
        for step in range(total):
            await write(store, Put(subject.key(f"{number}/{step % 7}"), b"%d" % step))

    work = [asyncio.create_task(writer(n)) for n in range(writers)]
    await asyncio.sleep(0)
    page = await store.range(subject.prefix)
    copy = {kv.key: kv for kv in page.kvs}
    done = asyncio.gather(*work)
    last = subject.key("last")

    async def finish() -> None:
        await done
        await write(store, Put(last, b""))

    _, seen = await asyncio.gather(
        finish(), changes_until(store, subject.prefix, page.revision + 1, lambda got: got[-1].kv.key == last)
    )
    copy |= {change.kv.key: change.kv for change in seen}
    assert copy == {kv.key: kv for kv in (await store.range(subject.prefix)).kvs}


async def test_nothing_lost_nothing_twice_under_concurrent_writers(subject: Subject, store: Store) -> None:
    writers, steps = 8, 30
    start = await store.revision() + 1

    async def writer(number: int) -> None:
        for _ in range(steps):
            await write(store, Put(subject.key(number), b"x"))

    watches = [
        asyncio.create_task(changes_until(store, subject.prefix, start, lambda got: len(got) >= writers * steps))
        for _ in range(3)
    ]
    await asyncio.gather(*(writer(number) for number in range(writers)))
    for watch in watches:
        versions: dict[str, list[int]] = defaultdict(list)
        for change in await watch:
            versions[change.kv.key].append(change.kv.version)
        assert dict(versions) == {subject.key(n): list(range(1, steps + 1)) for n in range(writers)}


async def test_resumes_where_another_watch_ended(subject: Subject, store: Store) -> None:
    start = await write(store, Put(subject.key("a"), b"0"))
    seen: list[StoreChange] = []
    for step in range(1, 6):
        await write(store, Put(subject.key("a"), b"%d" % step), Put(subject.key(step), b""))
        seen += await changes_until(store, subject.prefix, start, bool)
        start = seen[-1].kv.mod_revision + 1
    assert [change.kv.value for change in seen if change.kv.key == subject.key("a")] == [b"%d" % n for n in range(6)]
    assert len(seen) == 11


async def test_only_the_prefix(subject: Subject, store: Store) -> None:
    start = await write(store, Put(subject.key("aa"), b""))
    await write(store, Put(subject.key("b"), b""), Put(subject.key("a/1"), b""))
    await write(store, Delete(subject.prefix, prefix=True))
    await write(store, Put(subject.key("a/2"), b""))
    seen = await changes_until(store, subject.key("a/"), start, lambda got: len(got) >= 3)
    assert [(change.kv.key, change.deleted) for change in seen] == [
        (subject.key("a/1"), False),
        (subject.key("a/1"), True),
        (subject.key("a/2"), False),
    ]


async def test_history_that_is_gone(subject: Subject) -> None:
    """Compacted, list again, watch on: the way every reader recovers."""
    a = subject.key("a")
    old = await write(subject.store, Put(a, b"1"))
    gone = await write(subject.store, Delete(a))
    await subject.forget()
    for start in (old, gone):
        found = await first_of(subject.store, subject.prefix, start)
        assert isinstance(found, Compacted), start
        assert found.revision >= start
    page = await subject.store.range(subject.prefix)
    assert page.kvs == ()
    after = await write(subject.store, Put(a, b"2"))
    seen = await changes_until(subject.store, subject.prefix, page.revision + 1, bool)
    assert [(change.kv.value, change.kv.mod_revision) for change in seen] == [(b"2", after)]


async def test_a_large_revision_comes_whole(subject: Subject, store: Store) -> None:
    """Deleting many keys with one operation is one revision, larger than one message of any transport."""
    count = 3_000
    for start in range(0, count, 60):
        await store.txn([], [Put(subject.key(f"{n:05d}" + "x" * 800), b"1") for n in range(start, start + 60)])
    at = await write(store, Delete(subject.prefix, prefix=True))
    found = await first_of(store, subject.prefix, at)
    assert not isinstance(found, Compacted)
    assert len(found.changes) == count
    assert all(change.deleted and change.kv.mod_revision == at for change in found.changes)


async def test_closing_the_store_ends_its_watches(subject: Subject) -> None:
    start = await subject.store.revision() + 1
    watching = asyncio.create_task(first_of(subject.store, subject.prefix, start))
    await write(subject.store, Put("/elsewhere", subject.prefix.encode()))
    await subject.store.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await watching
    with pytest.raises(StoreUnavailable, match="closed"):
        await subject.store.get(subject.key("a"))
