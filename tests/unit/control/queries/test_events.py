"""Live events: resumable after any event, on any replica, without a loss or a repeat."""

import asyncio
from typing import Any

import pytest

from ares.control.queries import events
from ares.control.queries.events import BadEventCursor
from ares.core import keys
from ares.model.state import LedgerEvent
from ares.ports.store import Page
from tests.world import ALICE, BOB, Replica, World

Seen = list[tuple[str, LedgerEvent]]


class Reader:
    """Follows in the background and keeps what it got."""

    def __init__(self, replica: Replica, cursor: str = "", job: str | None = None) -> None:
        self.seen: Seen = []
        self._stream = replica.events.follow(ALICE, cursor, job)
        self._task = asyncio.create_task(self._run())
        self.error: Exception | None = None

    async def _run(self) -> None:
        try:
            async for item in self._stream:
                self.seen.append(item)
        except Exception as error:
            self.error = error

    async def close(self) -> Seen:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._stream.aclose()
        return self.seen


async def read(world: World, replica: Replica, cursor: str, job: str | None = None) -> Seen:
    """Everything that is there to be read now."""
    reader = Reader(replica, cursor, job)
    await world.settle()
    assert reader.error is None
    return await reader.close()


def places(seen: Seen) -> list[tuple[str, int]]:
    return [(event.job, event.seq) for _, event in seen]


async def _history(world: World) -> Seen:
    """Several events in one revision, several revisions, another tenant's in between."""
    await world.agent(auto=True, cpu_milli=2000)
    live = Reader(world.one)
    await world.settle()
    for _ in range(3):
        await world.submit_many(3)
        await world.submit(who=BOB)
        await world.settle()
    seen = await live.close()
    assert len({cursor for cursor, _ in seen}) == len(seen)
    assert len({cursor.split("-")[0] for cursor, _ in seen}) < len(seen)
    assert {event.tenant for _, event in seen} == {"alpha"}
    return seen


@pytest.mark.parametrize("ring", [20_000, 7])
async def test_resuming_after_any_event_goes_on_exactly_there(ring: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also across the border between memory and store, and on a replica that was not there at the time."""
    monkeypatch.setattr(events, "_RING_EVENTS", ring)
    async with World(replicas=2) as world:
        seen = await _history(world)
        late = await world.add_replica()
        await world.settle()
        for replica in (world.one, world.two, late):
            assert await read(world, replica, "0") == seen
            for place, (cursor, _) in enumerate(seen):
                assert await read(world, replica, cursor) == seen[place + 1 :]


async def test_one_jobs_events_have_their_own_order_and_cursors() -> None:
    async with World() as world:
        seen = await _history(world)
        job = seen[4][1].job
        own = await read(world, world.one, "0", job)
        assert places(own) == [place for place in places(seen) if place[0] == job]
        for place, (cursor, _) in enumerate(own):
            assert await read(world, world.one, cursor, job) == own[place + 1 :]


async def test_resuming_on_a_replica_that_lags_waits_for_what_the_cursor_saw() -> None:
    async with World(replicas=2) as world:
        world.two.wire.hold_watch()
        live = Reader(world.one)
        await world.settle()
        await world.submit_many(3)
        await world.settle()
        seen = await live.close()
        reader = Reader(world.two, seen[0][0])
        await world.settle()
        world.two.wire.release_watch()
        await world.settle()
        assert await reader.close() == seen[1:]


async def test_events_that_arrive_while_the_past_is_read_are_not_lost() -> None:
    async with World() as world:
        reading = asyncio.Event()
        inner = world.one.wire.range

        async def slow(*args: str, **rest: int) -> Page:
            page = await inner(*args, **rest)
            await reading.wait()
            return page

        world.one.wire.range = slow  # type: ignore[assignment]
        reader = Reader(world.one, "0")
        await world.settle()
        job = await world.submit()
        await world.settle()
        reading.set()
        await world.settle()
        assert places(await reader.close()) == [(job, 1)]


async def test_a_follower_gets_from_the_store_what_its_replica_missed() -> None:
    async with World(replicas=2) as world:
        reader = Reader(world.two, "0")
        await world.settle()
        first = await world.submit()
        await world.settle()
        world.two.wire.hold_watch()
        missed = [await world.submit() for _ in range(3)]
        world.store.compact()
        world.two.wire.break_watch()
        await world.advance(1)
        later = await world.submit()
        await world.settle()
        assert reader.error is None
        assert places(await reader.close()) == [(job, 1) for job in (first, *missed, later)]


async def test_nothing_is_kept_for_a_reader_that_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads what memory has, and what memory has no more from the store, page by page."""
    monkeypatch.setattr(events, "_RING_EVENTS", 5)
    monkeypatch.setattr(events, "_PAGE_EVENTS", 3)
    async with World() as world:
        follow = world.one.events.follow(ALICE)
        first = asyncio.ensure_future(anext(follow))
        await world.settle()
        jobs = [await world.submit()]
        await world.settle()
        seen = [await first]
        jobs += await world.submit_many(10)
        await world.settle()
        while len(seen) < 30:
            seen.append(await anext(follow))
            # New events keep coming while the reader slowly takes the old ones.
            jobs.append(await world.submit())
            await world.settle()
        await follow.aclose()
        resumed = await read(world, world.one, seen[-1][0])
        assert sorted(places(seen + resumed)) == sorted((job, 1) for job in jobs)


@pytest.mark.parametrize("page", [1, 2, 7])
async def test_a_long_past_comes_job_by_job(page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not all of it at once in memory. Resuming after any event of it, each of the others comes once."""
    monkeypatch.setattr(events, "_RING_EVENTS", 7)
    monkeypatch.setattr(events, "_PAGE_EVENTS", page)
    async with World(replicas=2) as world:
        live = await _history(world)
        monkeypatch.setattr(events, "_SORTED_MAX", 5)
        asked: list[int] = []
        inner = world.one.wire.range

        async def counted(prefix: str, **rest: Any) -> Page:
            found = await inner(prefix, **rest)
            asked.append(len(found.kvs))
            return found

        world.one.wire.range = counted  # type: ignore[assignment]
        seen = await read(world, world.one, "0")
        assert places(seen) == sorted(places(live), key=lambda place: (_turned(place[0]), place[1]))
        assert max(asked) <= page
        for replica in (world.one, world.two):
            for place, (cursor, _) in enumerate(seen):
                rest = await read(world, replica, cursor)
                assert sorted(places(rest)) == sorted(places(seen[place + 1 :]))
            for place, (cursor, _) in enumerate(live):
                rest = await read(world, replica, cursor)
                assert sorted(places(rest)) == sorted(places(live[place + 1 :]))
        for cursor in (seen[3][0], live[3][0]):
            reader = Reader(world.one, cursor)
            late = await world.submit()
            await world.settle()
            assert places(await reader.close())[-1][0] == late or late in {job for job, _ in places(reader.seen)}


def _turned(job: str) -> str:
    return keys.job_events("alpha", job)


@pytest.mark.parametrize(
    "cursor", ["x", "1-x", "-1--1", "1.5", "1-1.2.../x", "1.2.3.4", "1-1.2.", "999999999999", "1" * 40]
)
async def test_a_cursor_that_was_never_given_out_is_refused(cursor: str) -> None:
    async with World() as world:
        with pytest.raises(BadEventCursor):
            await anext(world.one.events.follow(ALICE, cursor))


async def test_from_now_means_from_the_first_wait_on() -> None:
    async with World() as world:
        await world.submit()
        reader = Reader(world.one)
        await world.settle()
        job = await world.submit()
        await world.settle()
        assert places(await reader.close()) == [(job, 1)]
