"""Checkpoints that are not kept any more are removed, and never by what was known of their job before."""

import asyncio
import errno

import pytest

from ares.control.state import checkpoint_cleanup as cleanup
from ares.control.state.checkpoint_cleanup import CheckpointCleanup, checkpoints_of
from ares.control.submit.submit import SubmitRequest
from ares.core import keys
from ares.core.refusal import Refusal
from ares.model.base import CheckpointRef
from ares.model.checkpoint import CheckpointId, CheckpointPolicy, CheckpointRecord, RestoreFrom
from ares.model.job import Gang, RetryPolicy
from ares.ports.store import Delete, Store
from tests.agents import ScriptedAgent
from tests.checkpoints import save
from tests.world import ALICE, World, settle, spec

POLICY = CheckpointPolicy()


async def saved(agent: ScriptedAgent, job: str, *numbers: int) -> None:
    for seq in numbers:
        said = save(agent, agent.starts[job], seq)
        await settle()
        agent.send(said)
        await settle()


def left(_: CheckpointCleanup, tenant: str, job: str) -> None:
    """In place of `saved`: nothing is tidied up by itself."""


async def numbers(world: World, job: str) -> list[int]:
    return [record.pointer.seq for record in await checkpoints_of(world.store, world.state(job).tenant, job)]


async def test_a_job_whose_files_cannot_be_removed_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async with World() as world:
        agent = await world.agent("n1")
        first, second = [await world.submit(checkpoint=POLICY) for _ in range(2)]
        await settle()
        for job in (first, second):
            agent.started(agent.starts[job])
        await settle()
        there = list[str]()

        async def failing(tenant: str, job: str) -> tuple[CheckpointId, ...]:
            there.append(job)
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(world.blobs, "checkpoints", failing)
        tidy = CheckpointCleanup(world.store, world.one.view, world.blobs, world.clock)
        await saved(agent, first, 1)
        await saved(agent, second, 1)
        there.clear()
        tenant = world.state(first).tenant

        for job in (first, second):
            tidy.saved(tenant, job)
        task = asyncio.create_task(tidy.run())
        await settle()
        task.cancel()
        assert set(there) == {first, second}


async def test_what_was_decided_before_the_job_changed_removes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with World() as world:
        agent, job = await world.running(checkpoint=POLICY)
        tidy = CheckpointCleanup(world.store, world.one.view, world.blobs, world.clock)
        monkeypatch.setattr(CheckpointCleanup, "saved", left)
        await saved(agent, job, 1, 2, 3)
        assert await numbers(world, job) == [1, 2, 3]

        async def late(store: Store, tenant: str, job: str) -> list[CheckpointRecord]:
            found = await checkpoints_of(store, tenant, job)
            await saved(agent, job, 4)
            return found

        monkeypatch.setattr(cleanup, "checkpoints_of", late)
        await tidy.trim(world.state(job).tenant, job)
        assert await numbers(world, job) == [1, 2, 3, 4]
        monkeypatch.undo()
        await tidy.trim(world.state(job).tenant, job)
        assert await numbers(world, job) == [3, 4]


@pytest.mark.parametrize(("gang", "kept"), [(Gang(ranks=2, min_ranks=1), [1, 2, 4, 5]), (None, [4, 5])])
async def test_what_ranks_that_join_later_go_on_from_is_kept(gang: Gang | None, kept: list[int]) -> None:
    """An elastic gang grows while it runs: its new ranks go on from what was there before the attempt."""
    async with World() as world:
        agent = await world.agent("n1", cpu_milli=1000)
        job = await world.submit(checkpoint=POLICY, gang=gang, retry=RetryPolicy(limit=5, base_s=0.1))
        await settle()
        agent.started(agent.starts[job])
        await settle()
        await saved(agent, job, 1, 2)
        agent.exited(agent.starts[job], code=1)
        await world.clock.advance(5.0)
        agent.started(agent.starts[job])
        await settle()
        await saved(agent, job, 3, 4, 5)
        tidy = CheckpointCleanup(world.store, world.one.view, world.blobs, world.clock)
        await tidy.trim(world.state(job).tenant, job)
        assert await numbers(world, job) == kept


async def test_a_checkpoint_that_is_removed_while_it_is_taken_over_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    async with World() as world:
        agent, job = await world.running(checkpoint=POLICY)
        await saved(agent, job, 1)
        adopt = world.blobs.adopt

        async def raced(source: CheckpointRef, target: CheckpointRef) -> None:
            await adopt(source, target)
            known = CheckpointId(fence=source.fence, seq=source.seq)
            await world.store.txn([], [Delete(keys.checkpoint(source.tenant, source.job, known))])

        monkeypatch.setattr(world.blobs, "adopt", raced)
        wish = SubmitRequest(spec=spec(checkpoint=POLICY, restore_from=RestoreFrom(job=job)))
        (outcome,) = await world.one.submit.submit(ALICE, [wish])
        assert isinstance(outcome, Refusal)
        assert outcome.code == "checkpoint-missing"
