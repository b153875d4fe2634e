"""Leases: keys that live as long as somebody renews."""

import asyncio

from ares.ports.store import Committed, Put, Store, StoreChange
from tests.contract.store.conftest import Subject, SystemClock
from tests.contract.store.watching import changes_until

# The shortest that every adapter grants as asked.
TTL_S = 2


def deleted(changes: list[StoreChange]) -> list[str]:
    return [change.kv.key for change in changes if change.deleted]


async def attach(store: Store, lease: int, *keys: str) -> int:
    outcome = await store.txn([], [Put(key, b"held", lease=lease) for key in keys])
    assert isinstance(outcome, Committed)
    return outcome.revision


async def test_expiry_deletes_the_keys_and_is_watched(subject: Subject, store: Store) -> None:
    a, b, kept, free = (subject.key(name) for name in ("a", "b", "kept", "free"))
    lease = await store.grant_lease(TTL_S)
    start = await attach(store, lease, a, b, free)
    # A write without the lease takes the key out of it.
    await store.txn([], [Put(free, b"free"), Put(kept, b"kept")])
    seen = await changes_until(store, subject.prefix, start, lambda got: len(deleted(got)) >= 2)
    assert deleted(seen) == [a, b]
    assert seen[-1].kv.mod_revision == seen[-2].kv.mod_revision
    assert [kv.key for kv in (await store.range(subject.prefix)).kvs] == [free, kept]
    assert await store.keep_alive(lease) == 0


async def test_keep_alive_holds_the_keys(subject: Subject, store: Store, clock: SystemClock) -> None:
    lease = await store.grant_lease(TTL_S)
    start = await attach(store, lease, subject.key("a"))
    began = clock.monotonic()
    # Well past the time the lease would have ended without renewal.
    while clock.monotonic() < began + 2.5 * TTL_S:
        assert await store.keep_alive(lease) == TTL_S
        found = await store.get(subject.key("a"))
        assert found is not None
        assert found.lease == lease
        await clock.sleep(0.3)
    renewed = clock.monotonic()
    assert await store.keep_alive(lease) == TTL_S
    await changes_until(store, subject.prefix, start, lambda got: bool(deleted(got)))
    # Never earlier than promised, counted from before the renewal was sent.
    assert clock.monotonic() - renewed >= TTL_S


async def test_revoke(subject: Subject, store: Store) -> None:
    lease = await store.grant_lease(60)
    other = await store.grant_lease(60)
    assert other != lease
    start = await attach(store, lease, subject.key("a"))
    await attach(store, other, subject.key("b"))
    await store.revoke_lease(lease)
    assert await store.get(subject.key("a")) is None
    assert await store.get(subject.key("b")) is not None
    assert deleted(await changes_until(store, subject.prefix, start, lambda got: bool(deleted(got)))) == [
        subject.key("a")
    ]
    assert await store.keep_alive(lease) == 0
    assert await store.keep_alive(other) == 60
    # Once more is harmless.
    await store.revoke_lease(lease)
    await store.revoke_lease(other)


async def test_many_leases_end_each_with_its_own_keys(subject: Subject, store: Store) -> None:
    short = [await store.grant_lease(TTL_S) for _ in range(5)]
    long = await store.grant_lease(60)
    start = await store.revision() + 1
    await asyncio.gather(*(attach(store, lease, subject.key(f"short/{n}")) for n, lease in enumerate(short)))
    await attach(store, long, subject.key("long"))
    seen = await changes_until(store, subject.prefix, start, lambda got: len(deleted(got)) >= 5)
    assert sorted(deleted(seen)) == [subject.key(f"short/{n}") for n in range(5)]
    assert await store.get(subject.key("long")) is not None
    await store.revoke_lease(long)
