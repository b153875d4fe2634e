"""Files become visible once, by the committed list, as they were announced; what another attempt sent never does."""

import errno
import hashlib
import os

import pytest

from ares.adapters.blobs.memory import MemoryBlobs
from ares.api.jobs import OutputList
from ares.core.lifecycle.inputs import Preempt
from ares.model.job import Gang
from ares.model.link import AttemptRef, Exited, OutputAck, OutputChunk, Start
from ares.model.state import Fence, OutputFile
from tests.agents import ScriptedAgent, output
from tests.world import ALICE, BOB, Replica, World

MODEL, REPORT = b"weights " * 1000, b"accuracy 0.9"


async def listed(world: World, job: str, replica: Replica | None = None) -> OutputList:
    found = await (replica or world.one).outputs.list(ALICE, job)
    assert found is not None
    return found


async def content(world: World, job: str, path: str, replica: Replica | None = None) -> bytes:
    found = await (replica or world.one).outputs.open(ALICE, job, path)
    assert found is not None
    return await found.read(0, found.file.size + 10)


async def visible(world: World, job: str) -> dict[str, bytes]:
    """Everything a client can get: its paths and its bytes."""
    return {file.path: await content(world, job, file.path) for file in (await listed(world, job)).files}


def metric(replica: Replica, name: str) -> float:
    lines = replica.telemetry.render().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


def finish(agent: ScriptedAgent, start: Start, **files: bytes) -> Exited:
    return agent.exited(start, outputs=tuple(output(path, data) for path, data in files.items()))


async def hand_over(world: World, agent: ScriptedAgent, start: Start, **files: bytes) -> None:
    """As agents do it: the report goes when all files are kept."""
    for data in files.values():
        agent.upload(start, data)
    await world.settle()
    finish(agent, start, **files)
    await world.settle()


async def test_files_are_visible_with_the_result_and_not_before() -> None:
    async with World() as world:
        agent, job = await world.running()
        start = agent.starts[job]
        agent.upload(start, MODEL)
        agent.upload(start, REPORT)
        await world.settle()
        assert [(ack.offset, ack.sealed) for ack in agent.output_acks] == [(len(MODEL), True), (len(REPORT), True)]
        assert await listed(world, job) == OutputList(job=job)
        assert await world.one.outputs.open(ALICE, job, "model") is None
        finish(agent, start, model=MODEL, report=REPORT)
        await world.settle()
        assert world.state(job).phase == "SUCCEEDED"
        assert world.audit.results[job].outputs == (output("model", MODEL), output("report", REPORT))
        assert await visible(world, job) == {"model": MODEL, "report": REPORT}
        for who, path in ((BOB, "model"), (ALICE, "../model"), (ALICE, "Model"), (ALICE, "")):
            assert await world.one.outputs.open(who, job, path) is None
        assert await world.one.outputs.list(BOB, job) is None


async def test_pieces_may_come_twice_late_and_in_any_order() -> None:
    async with World() as world:
        agent, job = await world.running()
        start = agent.starts[job]
        for begin, end in ((4000, None), (0, 1000), (0, 1000), (500, 3000), (0, 100), (3000, 4000), (4000, None)):
            agent.upload(start, MODEL, begin, end)
        await world.settle()
        assert [ack.offset for ack in agent.output_acks] == [0, 1000, 1000, 3000, 3000, 4000, len(MODEL)]
        assert [ack.sealed for ack in agent.output_acks] == [False] * 6 + [True]
        finish(agent, start, model=MODEL)
        # A piece that was under way all the time.
        agent.upload(start, MODEL, 0, 1000)
        await world.settle()
        assert await visible(world, job) == {"model": MODEL}


async def test_another_replica_takes_over_in_the_middle() -> None:
    async with World(replicas=2) as world:
        agent, job = await world.running()
        start = agent.starts[job]
        agent.upload(start, MODEL, 0, 3000)
        await world.settle()
        await agent.connect(world.two.sessions, alive=(start.ref,))
        # It does not know how much of it arrived, and asks.
        agent.upload(start, MODEL, len(MODEL))
        await world.settle()
        assert agent.output_acks[-1].offset == 3000
        agent.upload(start, MODEL, 3000)
        finish(agent, start, model=MODEL)
        await world.settle()
        assert world.state(job).phase == "SUCCEEDED"
        for replica in world.replicas:
            assert await content(world, job, "model", replica) == MODEL


# ---- attempts that lost their place


async def taken_over(world: World) -> tuple[str, ScriptedAgent, Start, ScriptedAgent, Start]:
    """A job whose first attempt was declared lost, and whose second runs elsewhere while the first still writes."""
    first = await world.agent("n1")
    second = await world.agent("n2")
    job = await world.submit()
    await world.settle()
    await world.bind(job, "n1")
    old = first.starts[job]
    first.started(old)
    first.upload(old, b"half of " + MODEL, 0, 100)
    await world.settle()
    await first.silent()
    await world.until(lambda: world.state(job).phase == "PENDING")
    await world.bind(job, "n2")
    new = second.starts[job]
    second.started(new)
    await world.settle()
    return job, first, old, second, new


async def test_a_zombies_upload_is_refused_and_counted() -> None:
    """N44."""
    async with World(scheduling=False) as world:
        job, zombie, old, agent, new = await taken_over(world)
        kept = dict(world.blobs.parts)
        zombie.upload(old, b"half of " + MODEL, 100)
        zombie.upload(old, REPORT)
        await world.settle()
        assert [ack.refused for ack in zombie.output_acks[-2:]] == ["the attempt is no longer the current one"] * 2
        assert not any(ack.sealed for ack in zombie.output_acks)
        assert metric(world.one, "ares_uploads_refused_total") == 2
        assert world.blobs.parts == kept
        assert not world.blobs.sealed
        # It says it ended well all the same.
        finish(zombie, old, model=b"half of " + MODEL)
        await hand_over(world, agent, new, model=MODEL)
        assert await visible(world, job) == {"model": MODEL}
        assert world.audit.results[job].fence == new.ref.fence


async def test_nobody_uploads_for_another_node_or_attempt() -> None:
    async with World(scheduling=False) as world:
        one, two = await world.agent("n1"), await world.agent("n2")
        job = await world.submit()
        await world.settle()
        await world.bind(job, "n1")
        start = one.starts[job]
        one.started(start)
        await world.settle()
        wrong_fence = AttemptRef(job=job, tenant="alpha", fence=Fence(counter=9))
        wrong_tenant = AttemptRef(job=job, tenant="beta", fence=start.ref.fence)
        for agent, ref, rank in (
            (two, start.ref, 0),
            (one, wrong_fence, 0),
            (one, wrong_tenant, 0),
            (one, start.ref, 1),
        ):
            sha256 = hashlib.sha256(MODEL).hexdigest()
            agent.send(OutputChunk(ref=ref, rank=rank, sha256=sha256, size=len(MODEL), offset=0, data=MODEL))
            await world.settle()
            assert agent.output_acks[-1].refused
        assert not world.blobs.sealed
        assert not world.blobs.parts


async def test_two_attempts_of_a_job_never_mix() -> None:
    async with World(scheduling=False) as world:
        job, _, old, agent, new = await taken_over(world)
        # The same file, of which the first attempt had sent a part: nothing of that is taken over.
        whole = b"half of " + MODEL
        agent.upload(new, whole, 100)
        await world.settle()
        assert agent.output_acks[-1].offset == 0
        await hand_over(world, agent, new, model=whole)
        assert await visible(world, job) == {"model": whole}
        # And what the first sent goes when the job has ended.
        assert {ref.fence for ref, _ in (*world.blobs.sealed, *world.blobs.parts)} == {new.ref.fence}
        assert old.ref.fence != new.ref.fence


async def test_a_replica_that_has_not_heard_of_the_loss_shows_nothing_of_the_zombie() -> None:
    async with World(replicas=2, scheduling=False) as world:
        zombie = await world.agent("n1", replica=world.two)
        agent = await world.agent("n2")
        job = await world.submit()
        await world.settle()
        await world.bind(job, "n1")
        old = zombie.starts[job]
        zombie.started(old)
        await world.settle()
        world.two.wire.hold_watch()
        await world.apply(job, Preempt(fence=old.ref.fence, by="scheduler", reason="for another"))
        # This replica still thinks that the attempt is the current one: it keeps the bytes ...
        await hand_over(world, zombie, old, model=MODEL)
        assert zombie.output_acks[-1].sealed
        # ... and the transaction refuses the list.
        assert not world.audit.results
        world.two.wire.release_watch()
        await world.until(lambda: world.state(job).phase == "PENDING")
        await world.bind(job, "n2")
        new = agent.starts[job]
        agent.started(new)
        await world.settle()
        await hand_over(world, agent, new, report=REPORT)
        assert await visible(world, job) == {"report": REPORT}
        assert {ref.fence for ref, _ in world.blobs.sealed} == {new.ref.fence}


# ---- files that are not what was announced


class Faulty(MemoryBlobs):
    """Loses or spoils what it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.spoil = 0
        self.full = 0
        self.short = 0

    async def append(self, ref: AttemptRef, sha256: str, offset: int, data: bytes) -> int:
        if self.full:
            self.full -= 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self.short:
            self.short -= 1
            data = data[: len(data) // 2]
        if self.spoil and data:
            self.spoil -= 1
            await super().append(ref, sha256, offset, b"\x00" + data[1:])
            return offset + len(data)
        return await super().append(ref, sha256, offset, data)


class FaultyWorld(World):
    async def add_replica(self) -> Replica:
        self.blobs = self.faulty = Faulty()
        return await super().add_replica()


async def test_a_wrong_digest_is_never_committed() -> None:
    async with FaultyWorld() as world:
        agent, job = await world.running()
        start = agent.starts[job]
        world.faulty.spoil = 1
        sha256 = agent.upload(start, MODEL)
        finish(agent, start, model=MODEL)
        await world.settle()
        first, second = agent.output_acks
        spoilt = hashlib.sha256(b"\x00" + MODEL[1:]).hexdigest()
        assert (first.offset, first.sealed) == (0, False)
        assert spoilt in first.trouble
        assert sha256 in first.trouble
        assert (second.offset, second.trouble) == (0, "it was not kept")
        assert world.state(job).phase == "RUNNING"
        assert not agent.acked[1:]
        # Sent again, whole; the report comes again too.
        agent.upload(start, MODEL)
        finish(agent, start, model=MODEL)
        await world.settle()
        assert await visible(world, job) == {"model": MODEL}


async def test_a_full_disk_commits_nothing() -> None:
    async with FaultyWorld() as world:
        agent, job = await world.running()
        start = agent.starts[job]
        world.faulty.full = 1
        agent.upload(start, MODEL)
        finish(agent, start, model=MODEL)
        await world.settle()
        assert "No space left" in agent.output_acks[0].trouble
        assert world.state(job).phase == "RUNNING"
        agent.upload(start, MODEL)
        finish(agent, start, model=MODEL)
        await world.settle()
        assert await visible(world, job) == {"model": MODEL}


async def test_a_report_without_its_files_waits_for_them() -> None:
    async with World() as world:
        agent, job = await world.running()
        start = agent.starts[job]
        agent.upload(start, REPORT)
        report = finish(agent, start, model=MODEL, report=REPORT)
        await world.settle()
        assert agent.output_acks[-1] == OutputAck(
            ref=start.ref, rank=0, sha256=output("", MODEL).sha256, offset=0, trouble="it was not kept"
        )
        assert report.number not in agent.acked
        assert world.state(job).phase == "RUNNING"
        agent.upload(start, MODEL)
        agent.send(report)
        await world.settle()
        assert report.number in agent.acked
        assert await visible(world, job) == {"model": MODEL, "report": REPORT}


@pytest.mark.parametrize(
    "files",
    [
        (OutputFile(path="../escape", size=0, sha256=output("", b"").sha256),),
        (OutputFile(path="/etc/passwd", size=0, sha256=output("", b"").sha256),),
        (OutputFile(path="a\x1b[2J", size=0, sha256=output("", b"").sha256),),
        (output("a", b""), output("a", b"")),
        (OutputFile(path="a", size=-1, sha256=output("", b"").sha256),),
        (OutputFile(path="a", size=0, sha256="../../x"),),
        (OutputFile(path="a", size=1 << 60, sha256=output("", b"").sha256),),
        tuple(output(f"f{number}", b"") for number in range(1001)),
        tuple(output(f"{'long' * 100}{number}", b"") for number in range(900)),
    ],
)
async def test_a_list_that_cannot_be_is_a_failure(files: tuple[OutputFile, ...]) -> None:
    async with World() as world:
        agent, job = await world.running(restart="never")
        agent.upload(agent.starts[job], b"")
        agent.exited(agent.starts[job], outputs=files)
        await world.settle()
        state = world.state(job)
        assert state.phase == "FAILED"
        assert state.exit is not None
        assert state.exit.message.startswith("its outputs cannot be kept: ")
        assert (await listed(world, job)).files == ()
        assert not world.blobs.sealed


async def test_an_agent_that_does_not_wait_is_cut_off() -> None:
    async with World() as world:
        agent, job = await world.running()
        start, block = agent.starts[job], bytes(1 << 20)
        whole = block * 18
        sha256 = hashlib.sha256(whole).hexdigest()
        agent.send(
            *(
                OutputChunk(ref=start.ref, rank=0, sha256=sha256, size=len(whole), offset=n << 20, data=block)
                for n in range(18)
            )
        )
        await world.settle()
        assert not agent.connected


# ---- crashes


async def test_a_crash_between_seal_and_commit_loses_nothing() -> None:
    async with World(replicas=2) as world:
        agent, job = await world.running()
        start = agent.starts[job]
        agent.upload(start, MODEL)
        await world.settle()
        world.one.wire.up = False
        finish(agent, start, model=MODEL)
        await world.settle()
        await world.one.crash()
        assert world.state(job).phase == "RUNNING"
        await agent.connect(world.two.sessions, alive=(start.ref,))
        finish(agent, start, model=MODEL)
        await world.settle()
        assert world.state(job).phase == "SUCCEEDED"
        assert await content(world, job, "model", world.two) == MODEL


async def test_an_unknown_commit_makes_files_visible_once() -> None:
    async with World() as world:
        agent, job = await world.running()
        start = agent.starts[job]
        agent.upload(start, MODEL)
        await world.settle()
        world.faults("lost-reply")
        finish(agent, start, model=MODEL)
        await world.until(lambda: world.state(job).phase == "SUCCEEDED")
        assert await visible(world, job) == {"model": MODEL}


async def test_what_a_crash_left_is_found_by_its_age() -> None:
    async with World(replicas=2) as world:
        agent, job = await world.running(replica=world.two)
        agent.upload(agent.starts[job], MODEL, 0, 100)
        unknown = AttemptRef(job="f" * 16, tenant="alpha", fence=agent.starts[job].ref.fence)
        await world.blobs.append(unknown, output("", MODEL).sha256, 0, MODEL)
        await world.settle()
        await world.two.crash()
        await agent.connect(world.one.sessions, alive=(agent.starts[job].ref,) if job in agent.starts else ())
        outcome = await world.one.jobs.cancel(ALICE, job, "")
        assert outcome is not None
        await world.settle()
        await world.one.leftovers.sweep()
        assert len(world.blobs.parts) == 2
        world.clock.jump_wall(3601.0)
        await world.one.leftovers.sweep()
        assert not world.blobs.parts


async def test_a_cancelled_jobs_files_go_at_once_and_a_committed_ones_with_the_job() -> None:
    async with World() as world:
        agent, job = await world.running()
        agent.upload(agent.starts[job], MODEL)
        await world.settle()
        assert world.blobs.sealed
        await world.one.jobs.cancel(ALICE, job, "")
        await world.settle()
        assert not world.blobs.sealed
        agent.obey()
        kept = await world.submit()
        await world.settle()
        agent.started(agent.starts[kept])
        await world.settle()
        await hand_over(world, agent, agent.starts[kept], model=MODEL)
        assert await visible(world, kept) == {"model": MODEL}
        world.later(31 * 86_400.0)
        await world.one.retention.sweep()
        assert not world.blobs.sealed


# ---- gangs


async def test_all_ranks_hand_over_and_each_has_its_folder() -> None:
    async with World(scheduling=False) as world:
        agents = [await world.agent(f"n{n}") for n in range(3)]
        job = await world.submit(gang=Gang(ranks=3))
        await world.settle()
        await world.bind(job, "n0", "n1", "n2")
        starts = [agents[n].ranks(job)[n] for n in range(3)]
        for agent, start in zip(agents, starts, strict=True):
            agent.started(start)
        await world.settle()
        for n in (2, 0):
            await hand_over(world, agents[n], starts[n], shard=b"shard %d" % n)
            assert (await listed(world, job)).files == ()
        # A rank whose end is known sends nothing any more.
        agents[2].upload(starts[2], MODEL)
        await world.settle()
        assert agents[2].output_acks[-1].refused
        await hand_over(world, agents[1], starts[1], shard=b"shard 1")
        assert world.state(job).phase == "SUCCEEDED"
        assert await visible(world, job) == {f"rank-{n}/shard": b"shard %d" % n for n in range(3)}
        assert world.state(job).outputs == ()


async def test_a_gang_that_fails_shows_nothing_of_the_ranks_that_did_not() -> None:
    async with World(scheduling=False) as world:
        agents = [await world.agent(f"n{n}") for n in range(2)]
        job = await world.submit(gang=Gang(ranks=2), restart="never")
        await world.settle()
        await world.bind(job, "n0", "n1")
        starts = [agents[n].ranks(job)[n] for n in range(2)]
        for agent, start in zip(agents, starts, strict=True):
            agent.started(start)
        await world.settle()
        await hand_over(world, agents[0], starts[0], model=MODEL)
        assert world.state(job).outputs == (output("rank-0/model", MODEL),)
        agents[1].exited(starts[1], 1)
        await world.settle()
        assert world.state(job).phase == "FAILED"
        assert await visible(world, job) == {}
        assert world.state(job).outputs == ()
        assert not world.blobs.sealed


async def test_the_list_of_a_gang_is_bounded_as_a_whole() -> None:
    async with World(scheduling=False) as world:
        agents = [await world.agent(f"n{n}") for n in range(2)]
        job = await world.submit(gang=Gang(ranks=2), restart="never")
        await world.settle()
        await world.bind(job, "n0", "n1")
        starts = [agents[n].ranks(job)[n] for n in range(2)]
        for agent, start in zip(agents, starts, strict=True):
            agent.started(start)
            agent.upload(start, b"")
            await world.settle()
            agent.exited(start, outputs=tuple(output(f"f{n}", b"") for n in range(600)))
            await world.settle()
        state = world.state(job)
        assert state.phase == "FAILED"
        assert state.exit is not None
        assert "1,200 files" in state.exit.message


async def test_a_piece_that_was_kept_in_part_is_asked_for_again() -> None:
    """Found by the simulator, seeds 4 and 66: the agent took the rest for sent, and waited for ever."""
    async with World() as world:
        world.blobs = blobs = Faulty()
        replica = await world.add_replica()
        agent, job = await world.running(replica=replica)
        blobs.short = 1
        agent.upload(agent.starts[job], MODEL)
        await world.settle()
        (ack,) = (message for message in agent.received if isinstance(message, OutputAck))
        assert ack.offset == len(MODEL) // 2
        assert ack.trouble
