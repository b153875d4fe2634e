"""Checkpoints as agents report them: what is refused is said, and what all ranks have saved is committed."""

import asyncio
from typing import Any

import msgspec
import pytest

from ares.control.execution.transitions import JobChange, Outcome
from ares.core import keys
from ares.core.lifecycle.inputs import CheckpointSealed
from ares.model.base import Fence
from ares.model.checkpoint import CheckpointId, CheckpointPolicy, DamageFound, SealingRecord
from ares.model.job import Gang
from ares.model.link import Start
from ares.ports.store import Put, StoreRefused
from tests.agents import ScriptedAgent
from tests.checkpoints import save
from tests.world import World, settle

POLICY = CheckpointPolicy()


async def gang(world: World) -> tuple[ScriptedAgent, str, dict[int, Start]]:
    agent = await world.agent("n1")
    job = await world.submit(gang=Gang(ranks=2), checkpoint=POLICY)
    await settle()
    ranks = agent.ranks(job)
    for start in ranks.values():
        agent.started(start)
    await settle()
    assert world.state(job).phase == "RUNNING"
    return agent, job, ranks


async def test_a_part_of_another_number_in_between_loses_no_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    async with World() as world:
        agent, job, ranks = await gang(world)
        transitions, key = world.one.transitions, keys.sealing(world.state(job).tenant, job)
        apply, between = transitions.apply, [1]

        async def disturbed(changes: list[JobChange]) -> list[Outcome]:
            if between and any(guard.key == key for change in changes for guard in change.guards):
                between.pop()
                kv = await world.store.get(key)
                assert kv is not None
                # As another replica does it for a rank that is already further on.
                await world.store.txn([], [Put(key, kv.value + b" ")])
            return await apply(changes)

        monkeypatch.setattr(transitions, "apply", disturbed)
        for start in ranks.values():
            said = save(agent, start, 5)
            await settle()
            agent.send(said)
            await settle()
            assert said.number in agent.acked
        assert not between
        pointer = world.state(job).checkpoint
        assert pointer is not None
        assert pointer.seq == 5


async def test_a_refused_checkpoint_is_said_before_its_report_is_acknowledged() -> None:
    async with World() as world:
        agent, _, ranks = await gang(world)
        for rank, start in ranks.items():
            said = save(agent, start, 5, step=10 + rank)
            await settle()
            agent.send(said)
            await settle()
            assert said.number in agent.acked
        (refused,) = (ack for ack in agent.output_acks if ack.refused)
        assert (refused.rank, refused.seq) == (1, 5)
        assert refused.refused == "ranks gave number 5 to step 10 and to step 11"


async def test_the_record_of_open_ones_has_metrics_of_one_rank_only() -> None:
    async with World() as world:
        agent, job, ranks = await gang(world)
        for start in reversed(ranks.values()):
            said = save(agent, start, 5, metrics={"loss": float(start.placement.rank)})
            await settle()
            agent.send(said)
            await settle()
        found = await world.store.get(keys.sealing(world.state(job).tenant, job))
        assert found is not None
        record = msgspec.json.decode(found.value, type=SealingRecord)
        assert [seal.metrics for seal in record.open[0].seals] == [{"loss": 0.0}, {}]


async def test_damage_of_what_is_not_kept_is_not_written_down() -> None:
    async with World() as world:
        agent = await world.agent("n1")
        job = await world.submit(checkpoint=POLICY)
        await settle()
        start = agent.starts[job]
        before = world.kinds(job)
        made_up = CheckpointId(fence=Fence(epoch=0, counter=1), seq=7)
        said = DamageFound(number=agent.number(), ref=start.ref, rank=0, checkpoint=made_up, reason="x")
        agent.send(said)
        await settle()
        assert said.number in agent.acked
        assert world.kinds(job) == before


async def test_parts_that_come_together_are_written_together(monkeypatch: pytest.MonkeyPatch) -> None:
    async with World() as world:
        agent = await world.agent("n1", cpu_milli=64_000)
        job = await world.submit(gang=Gang(ranks=40), checkpoint=POLICY, cpu_milli=100)
        await settle()
        ranks = agent.ranks(job)
        for start in ranks.values():
            agent.started(start)
        await settle()
        reports = [save(agent, start, 5) for start in ranks.values()]
        await settle()
        before, txn = world.one.wire.txns, world.one.wire.txn

        async def slow(*what: Any) -> Any:
            for _ in range(20):
                await asyncio.sleep(0)
            return await txn(*what)

        monkeypatch.setattr(world.one.wire, "txn", slow)
        for said in reports:
            agent.send(said)
        await settle()
        pointer = world.state(job).checkpoint
        assert pointer is not None
        assert pointer.seq == 5
        assert {said.number for said in reports} <= set(agent.acked)
        assert world.one.wire.txns - before < len(ranks) / 2


async def test_a_checkpoint_whose_record_the_store_refuses_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with World() as world:
        agent = await world.agent("n1")
        job = await world.submit(checkpoint=POLICY)
        await settle()
        start = agent.starts[job]
        agent.started(start)
        await settle()
        apply = world.one.transitions.apply

        async def refusing(changes: list[JobChange]) -> list[Outcome]:
            if any(isinstance(what, CheckpointSealed) for change in changes for what in change.inputs):
                raise StoreRefused("value refused: 2,000,000 bytes")
            return await apply(changes)

        monkeypatch.setattr(world.one.transitions, "apply", refusing)
        said = save(agent, start, 5)
        await settle()
        agent.send(said)
        agent.exited(start)
        await settle()
        assert said.number in agent.acked
        assert [ack.refused for ack in agent.output_acks if ack.refused] == [
            "its record cannot be written: value refused: 2,000,000 bytes"
        ]
        assert world.state(job).phase == "SUCCEEDED"
