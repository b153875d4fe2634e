"""Many callers at once: each keeps its own outcome, and nothing is lost."""

import asyncio

from ares.ports.store import Committed, Compare, Delete, Get, Put, Store, StoreError
from tests.contract.store.conftest import Subject


async def increment(store: Store, key: str) -> int:
    """Adds one by compare-and-swap; returns how often it had to try."""
    tries = 0
    while True:
        tries += 1
        found = await store.get(key)
        at, value = (0, 0) if found is None else (found.mod_revision, int(found.value))
        outcome = await store.txn([Compare(key, "mod_revision", at)], [Put(key, b"%d" % (value + 1))])
        assert isinstance(outcome, Committed)
        if outcome.succeeded:
            return tries


async def test_increments_are_never_lost(subject: Subject, store: Store) -> None:
    writers, each = 8, 12
    key = subject.key("counter")

    async def writer() -> None:
        for _ in range(each):
            await increment(store, key)

    await asyncio.gather(*(writer() for _ in range(writers)))
    found = await store.get(key)
    assert found is not None
    assert int(found.value) == found.version == writers * each


async def test_one_of_many_creates(subject: Subject, store: Store) -> None:
    key = subject.key("one")
    outcomes = await asyncio.gather(
        *(store.txn([Compare(key, "version", 0)], [Put(key, b"%d" % n)], [Get(key)]) for n in range(50))
    )
    won = [n for n, outcome in enumerate(outcomes) if isinstance(outcome, Committed) and outcome.succeeded]
    assert len(won) == 1
    for n, outcome in enumerate(outcomes):
        assert isinstance(outcome, Committed)
        if n not in won:
            # Who lost sees who won, in the same transaction.
            assert [kv.value for kv in outcome.gets if kv] == [b"%d" % won[0]]


async def test_each_transaction_of_a_batch_has_its_own_outcome(subject: Subject, store: Store) -> None:
    count = 300
    await store.txn([], [Put(subject.key(f"odd/{n}"), b"old") for n in range(1, 100, 2)])

    def one(n: int) -> tuple[str, Compare]:
        key = subject.key(f"odd/{n}") if n % 2 and n < 100 else subject.key(f"new/{n}")
        return key, Compare(key, "version", 0)

    outcomes = await asyncio.gather(
        *(store.txn([compare], [Put(key, b"%d" % n)], [Get(key)]) for n in range(count) for key, compare in [one(n)])
    )
    for n, outcome in enumerate(outcomes):
        assert isinstance(outcome, Committed)
        existed = n % 2 == 1 and n < 100
        assert outcome.succeeded is not existed
        assert [kv.value for kv in outcome.gets if kv] == ([b"old"] if existed else [])
        found = await store.get(one(n)[0])
        assert found is not None
        assert found.value == (b"old" if existed else b"%d" % n)
        if not existed:
            assert found.mod_revision == outcome.revision


async def test_conflicting_transactions_at_once_are_as_one_after_another(subject: Subject, store: Store) -> None:
    """Readers, writers and prefix deletes of the same few keys: some order explains what each saw."""
    a, b, folder = subject.key("d/a"), subject.key("d/b"), subject.key("d/")

    def move(n: int) -> list[Put | Delete | Get]:
        if n % 5 == 4:
            return [Delete(folder, prefix=True), Get(a), Get(b)]
        if n % 5 == 3:
            return [Get(a), Get(b)]
        return [Put(a, b"%d" % n), Put(b, b"%d" % n), Get(a), Get(b)]

    outcomes = await asyncio.gather(*(store.txn([], move(n)) for n in range(100)))
    for n, outcome in enumerate(outcomes):
        assert isinstance(outcome, Committed)
        first, second = (kv.value if kv else None for kv in outcome.gets)
        # Both keys are always written and deleted together.
        assert first == second
        if n % 5 == 4:
            assert first is None
        elif n % 5 != 3:
            assert first == b"%d" % n
    revisions = [outcome.revision for n, outcome in enumerate(outcomes) if n % 5 < 3 and isinstance(outcome, Committed)]
    assert len(set(revisions)) == len(revisions)


async def test_a_refused_one_does_not_take_the_others_along(subject: Subject, store: Store) -> None:
    outcomes = await asyncio.gather(
        *(store.txn([], [Put(subject.key(n), b"1", lease=987654321 if n == 7 else 0)]) for n in range(20)),
        return_exceptions=True,
    )
    for n, outcome in enumerate(outcomes):
        assert isinstance(outcome, StoreError if n == 7 else Committed), outcome
    assert len((await store.range(subject.prefix)).kvs) == 19


async def test_transactions_of_one_caller_keep_their_order(subject: Subject, store: Store) -> None:
    """Started in order on one key without waiting in between: the last one started stays."""
    key = subject.key("a")
    outcomes = await asyncio.gather(*(store.txn([], [Put(key, b"%d" % n)]) for n in range(30)))
    revisions = [outcome.revision for outcome in outcomes if isinstance(outcome, Committed)]
    assert revisions == sorted(set(revisions))
    found = await store.get(key)
    assert found is not None
    assert (found.value, found.version) == (b"29", 30)
