"""Lists with whole arrays: each array once, found by any of its tasks, on every page and in either order."""

from typing import Any

import pytest

from ares.api.jobs import JobPage
from ares.control.queries.job_list import JobQuery
from tests.world import ALICE, BOB, World


async def everything(world: World, **query: Any) -> list[JobPage]:
    """Pages of two until the end."""
    pages: list[JobPage] = []
    cursor = ""
    while True:
        page = await world.one.jobs.list(ALICE, JobQuery(limit=2, cursor=cursor, **query))
        assert isinstance(page, JobPage)
        pages.append(page)
        cursor = page.cursor
        if not cursor:
            return pages


@pytest.mark.parametrize("sort", ["submitted", "-submitted"])
async def test_an_array_is_one_row_on_one_page(sort: str) -> None:
    async with World() as world:
        jobs = [await world.submit(array=array) for array in (None, "0-6", None, "3,9", None)]
        pages = await everything(world, arrays="whole", sort=sort)
        rows = [state.id for page in pages for state in page.jobs]
        assert rows == (jobs if sort == "submitted" else jobs[::-1])
        counts = {job: count for page in pages for job, count in page.array_counts.items()}
        assert counts == {jobs[1]: {"PENDING": 7}, jobs[3]: {"PENDING": 2}}


async def test_an_array_is_found_by_any_of_its_tasks() -> None:
    async with World() as world:
        agent = await world.agent()
        array = await world.submit(array="0-2", name="sweep")
        await world.submit(name="other")
        await world.until(lambda: agent.starts.get(f"{array}_1"))
        await world.one.jobs.cancel(ALICE, f"{array}_0")

        async def found(**query: Any) -> list[str]:
            return [state.id for page in await everything(world, arrays="whole", **query) for state in page.jobs]

        # The first task has ended: the array is also among the live jobs, by its others.
        assert await found(phases=frozenset({"CANCELLED"})) == [array]
        assert array in await found(phases=frozenset({"STAGING", "RUNNING"}))
        assert await found(phases=frozenset({"FAILED"})) == []
        assert await found(name="sweep", node="n1") == [array]
        assert await found(array=array) == [array]
        assert await world.one.jobs.list(BOB, JobQuery(array=array, arrays="whole")) == JobPage(jobs=())


async def test_tasks_of_an_array_come_in_the_order_of_their_indices() -> None:
    async with World() as world:
        array = await world.submit(array="3,10,200")
        tasks = await everything(world, array=array, sort="submitted")
        assert [state.index for page in tasks for state in page.jobs] == [3, 10, 200]
        tasks = await everything(world, array=array)
        assert [state.index for page in tasks for state in page.jobs] == [200, 10, 3]


async def test_pending_jobs_say_why_they_wait() -> None:
    async with World() as world:
        await world.agent()
        large = await world.submit(gpus=99)
        sweep = await world.submit(gpus=98, array="0-3")
        small = await world.submit()
        await world.until(lambda: world.state(small).phase == "STAGING")
        (page,) = [await world.one.jobs.list(ALICE, JobQuery(arrays="whole"))]
        assert isinstance(page, JobPage)
        assert page.waiting.keys() == {large, sweep}
        assert (page.waiting[large].code, page.waiting[large].remedy) == ("INFEASIBLE_GPU", "yours")
        assert page.waiting[sweep].numbers["asked"] == 98
        for job in (large, sweep, f"{sweep}_2"):
            detail = await world.one.jobs.get(ALICE, job)
            assert detail is not None
            assert detail.waiting is not None
        tasks = await world.one.jobs.list(ALICE, JobQuery(array=sweep))
        assert isinstance(tasks, JobPage)
        assert len(tasks.waiting) == 4


async def test_every_replica_says_why_and_none_holds_on_to_an_old_reason() -> None:
    async with World(replicas=2) as world:
        job = await world.submit(gpus=99)

        async def codes() -> list[str]:
            details = [await replica.jobs.get(ALICE, job) for replica in world.replicas]
            return [detail.waiting.code for detail in details if detail is not None and detail.waiting is not None]

        await world.settle()
        assert await codes() == ["NO_NODES", "NO_NODES"]
        await world.agent()
        await world.advance(4.0)
        assert await codes() == ["INFEASIBLE_GPU", "INFEASIBLE_GPU"]
