"""Listing keys: order, pages, and only what changed."""

import asyncio

from ares.ports.store import Committed, Put, Store
from tests.contract.store.conftest import Subject

# In order of their bytes: before and after "/", several alphabets, and both sides of the surrogates.
NAMES = [
    "!",
    "-",
    "/",
    "/x",
    "0",
    "A",
    "a",
    "a/",
    "a/1",
    "a0",
    "z",
    "\u00e9",
    "\ud7ff",
    "\ud7ff!",
    "\ue000",
    "\U0001f600",
]


async def fill(store: Store, subject: Subject) -> list[str]:
    keys = [subject.key(name) for name in NAMES]
    await store.txn([], [Put(key, key.encode()) for key in reversed(keys)])
    return keys


async def test_keys_come_in_byte_order(subject: Subject, store: Store) -> None:
    keys = await fill(store, subject)
    page = await store.range(subject.prefix)
    assert [kv.key for kv in page.kvs] == keys == sorted(keys, key=str.encode)
    assert not page.more
    assert page.revision == await store.revision()


async def test_pages_cover_everything_once(subject: Subject, store: Store) -> None:
    keys = await fill(store, subject)
    for limit in (1, 3, len(keys) - 1, len(keys), len(keys) + 1):
        seen: list[str] = []
        after = ""
        while True:
            page = await store.range(subject.prefix, after=after, limit=limit)
            assert len(page.kvs) <= limit
            seen.extend(kv.key for kv in page.kvs)
            if not page.more:
                break
            after = page.kvs[-1].key
        assert seen == keys, limit


async def test_after_need_not_exist_nor_lie_under_the_prefix(subject: Subject, store: Store) -> None:
    keys = await fill(store, subject)
    page = await store.range(subject.prefix, after=subject.key("a/0"))
    assert [kv.key for kv in page.kvs] == [key for key in keys if key > subject.key("a/0")]
    assert [kv.key for kv in (await store.range(subject.prefix, after="/")).kvs] == keys
    assert (await store.range(subject.prefix, after="~")).kvs == ()


async def test_a_prefix_is_not_a_folder(subject: Subject, store: Store) -> None:
    keys = await fill(store, subject)
    for name in ("a", "a/", "\ud7ff", "none"):
        page = await store.range(subject.key(name))
        assert [kv.key for kv in page.kvs] == [key for key in keys if key.startswith(subject.key(name))]


async def test_the_empty_prefix_is_everything(subject: Subject, store: Store) -> None:
    keys = await fill(store, subject)
    everything = [kv.key for kv in (await store.range("")).kvs]
    assert [key for key in everything if key.startswith(subject.prefix)] == keys
    assert everything == sorted(everything, key=str.encode)


async def test_only_what_changed_since(subject: Subject, store: Store) -> None:
    keys = await fill(store, subject)
    outcome = await store.txn([], [Put(keys[1], b"new"), Put(keys[-1], b"new")])
    assert isinstance(outcome, Committed)
    page = await store.range(subject.prefix, min_mod_revision=outcome.revision)
    assert [kv.key for kv in page.kvs] == [keys[1], keys[-1]]
    page = await store.range(subject.prefix, min_mod_revision=outcome.revision, limit=1)
    assert [kv.key for kv in page.kvs] == [keys[1]]
    assert page.more
    page = await store.range(subject.prefix, min_mod_revision=outcome.revision, limit=1, after=keys[1])
    assert [kv.key for kv in page.kvs] == [keys[-1]]
    assert not page.more


async def test_a_long_listing_is_of_one_moment(subject: Subject, store: Store) -> None:
    """More keys than any adapter reads at once, while a writer moves a pair of them together."""
    many = 6_000
    for start in range(0, many, 60):
        await store.txn([], [Put(subject.key(f"{n:06d}"), b"0") for n in range(start, start + 60)])
    first, last = subject.key(f"{0:06d}"), subject.key(f"{many - 1:06d}")

    async def move(step: int) -> None:
        await store.txn([], [Put(first, b"%d" % step), Put(last, b"%d" % step)])

    moves = asyncio.gather(*(move(step) for step in range(1, 40)))
    pages, _ = await asyncio.gather(store.range(subject.prefix), moves)
    assert len(pages.kvs) == many
    assert pages.kvs[0].value == pages.kvs[-1].value
