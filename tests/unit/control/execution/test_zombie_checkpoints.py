"""A node freezes at any point of a save, for any length of time, and goes on with it: what an attempt saves counts as
long as the attempt does, and never after.

Goal: no checkpoint of an attempt that was taken away becomes the job's newest. Method: six points of a save and four
lengths, on the real control plane in virtual time, while another attempt begins, saves and ends."""

import hashlib
from collections.abc import Callable

import pytest

from ares.core.lifecycle.inputs import Preempt
from ares.model.checkpoint import Checkpointed, CheckpointPolicy
from ares.model.job import RetryPolicy
from ares.model.link import AgentMessage, OutputChunk, Start
from tests.agents import ScriptedAgent, output
from tests.checkpoints import save
from tests.world import World, settle

DATA = b"half and half of it"
SHA = hashlib.sha256(DATA).hexdigest()
# Within the lease; until its end; another attempt has begun; that one has saved and ended.
LENGTHS_S = (1.0, 6.0, 15.0, 60.0)


class Save:
    """The messages of the second checkpoint of an attempt, in their order."""

    def __init__(self, agent: ScriptedAgent, start: Start) -> None:
        def piece(begin: int, end: int) -> OutputChunk:
            return OutputChunk(
                ref=start.ref, rank=0, sha256=SHA, size=len(DATA), offset=begin, data=DATA[begin:end], seq=9
            )

        self.pieces = (piece(0, 10), piece(10, len(DATA)))
        self.report = Checkpointed(
            number=agent.number(), ref=start.ref, rank=0, seq=9, step=9, taken_at=1.0, files=(output("w", DATA),)
        )


# What is sent before the node freezes, and what when it goes on.
POINTS: dict[str, Callable[[Save], tuple[tuple[AgentMessage, ...], tuple[AgentMessage, ...]]]] = {
    "before the first piece": lambda save: ((), (*save.pieces, save.report)),
    "between two pieces": lambda save: (save.pieces[:1], (save.pieces[1], save.report)),
    "before its report": lambda save: (save.pieces, (save.report,)),
    "all of it again": lambda save: (save.pieces, (*save.pieces, save.report)),
    "its report twice": lambda save: ((*save.pieces, save.report), (save.report,)),
    "while it is preempted": lambda save: (save.pieces, (save.report,)),
}


async def begun(world: World, agent: ScriptedAgent, job: str, seq: int) -> Start:
    """An attempt that runs on the node and has saved once."""
    start = agent.starts[job]
    agent.started(start)
    await settle()
    report = save(agent, start, seq)
    await settle()
    agent.send(report)
    await settle()
    assert world.state(job).checkpoint is not None
    return start


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("length_s", LENGTHS_S)
async def test_what_a_frozen_node_saves_counts_only_while_its_attempt_does(point: str, length_s: float) -> None:
    async with World() as world:
        agent = await world.agent("n1")
        job = await world.submit(checkpoint=CheckpointPolicy(), retry=RetryPolicy(limit=5, base_s=0.1))
        await settle()
        start = await begun(world, agent, job, 1)
        other = await world.agent("n2")
        rest = Save(agent, start)
        sent, left = POINTS[point](rest)
        agent.send(*sent)
        await settle()
        if point == "while it is preempted":
            await world.apply(job, Preempt(fence=start.ref.fence, by="scheduler", reason="for another"))
        await agent.silent()
        await world.advance(length_s)
        taken_away = job in other.starts
        assert taken_away == (length_s > 10)
        if length_s > 20:
            later = await begun(world, other, job, 3)
            other.exited(later)
            await settle()
        before = world.state(job).checkpoint
        assert before is not None
        agent.send(*left)
        await settle()
        # The connection is renewed, and what was not acknowledged is sent once more.
        await agent.connect(world.one.sessions, alive=(start.ref,))
        agent.send(rest.report)
        await world.advance(1.0)
        after = world.state(job).checkpoint
        assert after is not None
        if taken_away:
            assert after == before
            assert length_s < 20 or (after.fence > start.ref.fence and after.seq == 3)
        else:
            assert (after.fence, after.seq) == (start.ref.fence, 9)
