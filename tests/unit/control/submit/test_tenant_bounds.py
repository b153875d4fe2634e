"""One tenant's jobs are bounded, so that another's find room; arrays count with their tasks."""

from ares.control.submit.submit import AcceptedJob, SubmitRequest
from ares.core.lifecycle.inputs import Cancel
from ares.core.refusal import Refusal
from tests.world import ALICE, BOB, World, spec


async def test_one_tenant_does_not_take_all_there_is() -> None:
    async with World(tenant_jobs_max=5, tenant_records_max=8, scheduling=False) as world:
        taken = [await world.submit() for _ in range(2)]
        (array,) = await world.one.submit.submit(ALICE, [SubmitRequest(spec=spec(array="0-3"))])
        assert isinstance(array, Refusal)
        assert (array.code, array.message) == ("queue-full", "4 more do not fit: 2 of 5 jobs of alpha have not ended")
        assert "limits.tenant_jobs_max" in array.fix
        # Of what comes at once, as much as fits; others are not touched.
        batch = await world.one.submit.submit(ALICE, [SubmitRequest(spec=spec()) for _ in range(4)])
        assert [isinstance(one, AcceptedJob) for one in batch] == [True, True, True, False]
        assert await world.submit(who=BOB)
        # What has ended makes room for what lives, until too much is kept.
        for job in taken:
            await world.apply(job, Cancel(by="x", reason=""))
        (array,) = await world.one.submit.submit(ALICE, [SubmitRequest(spec=spec(array="0-1"))])
        assert isinstance(array, AcceptedJob)
        await world.settle()
        (full,) = await world.one.submit.submit(ALICE, [SubmitRequest(spec=spec())])
        assert isinstance(full, Refusal)
        await world.apply(f"{array.job}_0", Cancel(by="x", reason=""))
        (ninth, tenth) = await world.one.submit.submit(ALICE, [SubmitRequest(spec=spec()) for _ in range(2)])
        assert isinstance(ninth, AcceptedJob)
        assert isinstance(tenth, Refusal)
        await world.apply(ninth.job, Cancel(by="x", reason=""))
        (kept,) = await world.one.submit.submit(ALICE, [SubmitRequest(spec=spec())])
        assert isinstance(kept, Refusal)
        assert kept.message == "1 more do not fit: 8 of 8 jobs of alpha are kept"


async def test_a_replica_that_comes_later_counts_the_same() -> None:
    async with World(tenant_jobs_max=3, scheduling=False) as world:
        (array,) = await world.one.submit.submit(ALICE, [SubmitRequest(spec=spec(array="0-2"))])
        assert isinstance(array, AcceptedJob)
        await world.settle()
        late = await world.add_replica()
        (no,) = await late.submit.submit(ALICE, [SubmitRequest(spec=spec())])
        assert isinstance(no, Refusal)
        await world.apply(f"{array.job}_1", Cancel(by="x", reason=""))
        (yes,) = await late.submit.submit(ALICE, [SubmitRequest(spec=spec())])
        assert isinstance(yes, AcceptedJob)
