"""The view of a replica: complete before anything is served, and never given up for being slow."""

import asyncio

from msgspec.json import encode

from ares.adapters.store.memory import MemoryStore
from ares.control.state.view import View
from ares.core import keys
from ares.model.access import TokenRecord
from ares.model.node import NodeLease
from ares.model.state import ArrayRecord, FlowRecord, JobState
from ares.ports.store import Page, Put
from tests.clocks import ManualClock
from tests.world import World


class SlowListing(MemoryStore):
    """Answers each listing after a minute, as a store with millions of jobs would."""

    clock: ManualClock

    async def range(self, prefix: str, *, after: str = "", limit: int = 0, min_mod_revision: int = 0) -> Page:
        await self.clock.sleep(60.0)
        return await super().range(prefix, after=after, limit=limit, min_mod_revision=min_mod_revision)


async def test_the_first_listing_may_take_longer_than_a_reader_waits() -> None:
    clock = ManualClock()
    store = SlowListing(clock)
    store.clock = clock
    view = View(store, clock)
    opening = asyncio.create_task(view.open())
    await clock.advance(3600)
    await opening
    following = asyncio.create_task(view.run())
    # The listing is not repeated: what follows is the watch alone.
    await view.catch_up()
    assert view.connected
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    await store.close()


async def test_a_view_that_was_opened_follows_and_lists_again_when_the_watch_breaks() -> None:
    async with World() as world:
        agent = await world.agent(auto=True)
        world.one.wire.break_watch()
        job = await world.submit()
        await world.advance(2)
        assert world.one.view.entries[job].state.phase == "SUCCEEDED"
        assert agent.connected


class WrittenWhileListing(MemoryStore):
    """Changes a lease and revokes a token after the first kind was listed: the watch will repeat both."""

    async def range(self, prefix: str, *, after: str = "", limit: int = 0, min_mod_revision: int = 0) -> Page:
        page = await super().range(prefix, after=after, limit=limit, min_mod_revision=min_mod_revision)
        if prefix == keys.STATE:
            for taken in (1, 2):
                lease = NodeLease(node="n1", incarnation=taken, replica="r1")
                token = TokenRecord(id="k", tenant="t", role="admin", sha256="0" * 64, revoked=taken == 2)
                puts = [Put(keys.lease("n1"), encode(lease)), Put(keys.token("k"), encode(token))]
                await self.txn([], puts)
        return page


async def test_what_the_watch_repeats_after_a_listing_changes_nothing() -> None:
    clock = ManualClock()
    store = WrittenWhileListing(clock)
    view = View(store, clock)
    await view.open()
    seen: list[tuple[int, bool]] = []
    view.subscribe(lambda _: seen.append((view.leases["n1"].lease.incarnation, view.tokens["k"].revoked)))
    await clock.advance(5)
    following = asyncio.create_task(view.run())
    await view.catch_up()
    assert seen
    assert set(seen) == {(2, True)}
    assert view.lease_age_s("n1") == 5
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    await store.close()


class MadeWholeWhileListing(MemoryStore):
    """A workflow's job is written, and then that the workflow is whole, after the states were listed."""

    async def range(self, prefix: str, *, after: str = "", limit: int = 0, min_mod_revision: int = 0) -> Page:
        page = await super().range(prefix, after=after, limit=limit, min_mod_revision=min_mod_revision)
        if prefix == keys.STATE:
            state = JobState(id="j", tenant="t", name="j", flow="f")
            flow = FlowRecord(id="f", tenant="t", name="f", jobs=1, tasks=1, whole=True)
            array = ArrayRecord(id="a", tenant="t", name="a", indices="0", tasks=1, expanded=True)
            task = JobState(id="a_0", tenant="t", name="a", array="a", index=0)
            await self.txn([], [Put(keys.state("t", job.id), encode(job)) for job in (state, task)])
            await self.txn([], [Put(keys.flow("t", "f"), encode(flow)), Put(keys.array("t", "a"), encode(array))])
        return page


async def test_no_workflow_or_array_looks_whole_whose_jobs_were_not_listed() -> None:
    clock = ManualClock()
    store = MadeWholeWhileListing(clock)
    view = View(store, clock)
    await view.open()
    assert not view.entries
    assert (dict(view.kept.flows), dict(view.arrays)) == ({}, {})
    following = asyncio.create_task(view.run())
    await view.catch_up()
    assert view.entries.keys() == {"j", "a_0"}
    assert (view.kept.flows["f"].whole, view.arrays["a"].expanded) == (True, True)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    await store.close()
