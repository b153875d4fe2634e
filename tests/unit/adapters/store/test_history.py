"""The newest changes in memory: what every watch has seen does not pile up, and no watch loses what it has not."""

from collections.abc import AsyncIterator
from itertools import count

from ares.adapters.store.history import SEEN_COUNT_MAX, History
from ares.ports.store import KV, Changes, Compacted, StoreChange


def _grow(history: History, revisions: range, size: int = 10) -> None:
    for revision in revisions:
        history.append(revision, [StoreChange(KV("/leases/n1", bytes(size), 1, revision, revision, 0))])
        history.wake()


async def _seen(watch: AsyncIterator[Changes | Compacted], up_to: int) -> list[int]:
    seen = list[int]()
    async for item in watch:
        assert isinstance(item, Changes), item
        seen += [change.kv.mod_revision for change in item.changes]
        if item.revision >= up_to:
            return seen
    raise AssertionError("it ended")


async def _kept(history: History, last: int) -> int:
    """How many of the newest revisions a new watch is still given."""
    first = await anext(aiter(history.watch("/", 1)))
    assert isinstance(first, Compacted), first
    return last - first.revision


async def test_what_every_watch_has_seen_does_not_pile_up() -> None:
    history, watch, held = History(0), None, list[int]()
    last = 0
    for step in count(1):
        last = step * SEEN_COUNT_MAX
        _grow(history, range(last - SEEN_COUNT_MAX + 1, last + 1))
        watch = watch or aiter(history.watch("/", 1))
        assert len(await _seen(watch, last)) == SEEN_COUNT_MAX
        if step > 1:
            held.append(await _kept(history, last))
        if step == 4:
            break
    # What was taken is dropped when the next change comes.
    assert max(held) <= 2 * SEEN_COUNT_MAX, held
    assert min(held) >= SEEN_COUNT_MAX, held


async def test_what_a_watch_has_not_seen_is_kept_for_it() -> None:
    history = History(0)
    slow = aiter(history.watch("/", 1))
    quick = aiter(history.watch("/", 1))
    _grow(history, range(1, 101))
    for watch in (slow, quick):
        assert isinstance(await anext(watch), Changes)
    last = 3 * SEEN_COUNT_MAX
    _grow(history, range(101, last + 1))
    assert len(await _seen(quick, last)) == last - 100
    assert len(await _seen(slow, last)) == last - 100


async def test_a_watch_that_ended_holds_nothing() -> None:
    history = History(0)
    gone = history.watch("/", 1)
    going_on = aiter(history.watch("/", 1))
    _grow(history, range(1, 11))
    for watch in (gone, going_on):
        assert isinstance(await anext(watch), Changes)
    await gone.aclose()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    last = 3 * SEEN_COUNT_MAX
    _grow(history, range(11, last + 1))
    assert len(await _seen(going_on, last)) == last - 10
    _grow(history, range(last + 1, last + 2))
    assert len(await _seen(going_on, last + 1)) == 1
    _grow(history, range(last + 2, last + 3))
    assert await _kept(history, last + 2) == SEEN_COUNT_MAX
