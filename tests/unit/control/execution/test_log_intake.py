"""Output of attempts: kept whole, or its log and the attempt's end say what is missing; no node writes another's."""

import errno
from typing import Any

import msgspec
import pytest

from ares.control.execution.log_intake import LOG_BYTES_MAX
from ares.model.link import LogChunk
from ares.model.state import Fence
from tests.world import ALICE, World

_CAP = LOG_BYTES_MAX + 4096


def _fill(world: World) -> Any:
    """From now on there is no room for output. Returns what makes room again."""
    append = world.logs.append

    def full(*where: Any, note: bool = False, **more: Any) -> int:
        if note:
            return append(*where, note=True)
        raise OSError(errno.ENOSPC, "No space left on device")

    world.logs.append = full  # type: ignore[method-assign]

    def free() -> None:
        world.logs.append = append  # type: ignore[method-assign]

    return free


async def _text(world: World, job: str) -> str:
    piece = await world.one.logs.read(ALICE, job, attempt=1, rank=0, offset=0, limit=1 << 20)
    assert piece is not None
    return piece.data.decode()


async def test_what_was_not_written_is_not_acknowledged_and_the_end_waits_for_it() -> None:
    async with World() as world:
        agent, job = await world.running()
        start = agent.starts[job]
        agent.resends_logs = True
        await agent.connect(world.one.sessions, alive=(start.ref,))
        agent.log(start, 0, b"one\n")
        await world.settle()
        free = _fill(world)
        # As agents send it: the last output and the end in one frame.
        rest = LogChunk(ref=start.ref, rank=0, attempt=1, offset=4, data=b"two\n")
        end = agent.exit_report(start)
        agent.send(rest, end)
        nonce = agent.renew()
        await world.settle()
        assert agent.log_acks == [4, 4]
        assert "No space left" in agent.log_troubles[0]
        assert nonce in agent.renewed
        assert end.number not in agent.acked
        assert world.state(job).phase == "RUNNING"
        free()
        agent.send(rest, end)
        await world.settle()
        assert agent.log_acks[-1] == 8
        assert end.number in agent.acked
        assert world.state(job).phase == "SUCCEEDED"
        assert await _text(world, job) == "one\ntwo\n"


async def test_what_came_after_a_piece_that_was_not_kept_is_not_acknowledged_either() -> None:
    async with World() as world:
        agent, job = await world.running()
        start = agent.starts[job]
        free = _fill(world)
        agent.log(start, 0, b"one\n")
        await world.settle()
        free()
        agent.log(start, 4, b"two\n")
        await world.settle()
        assert agent.log_acks == [0, 0]
        assert len(agent.log_troubles) == 2
        agent.log(start, 0, b"one\ntwo\n")
        await world.settle()
        assert agent.log_acks[-1] == 8


async def test_output_that_is_given_up_is_told_in_the_log_and_with_the_end() -> None:
    async with World() as world:
        agent, job = await world.running()
        start = agent.starts[job]
        agent.resends_logs = True
        await agent.connect(world.one.sessions, alive=(start.ref,))
        agent.log(start, 0, b"one\n")
        await world.settle()
        _fill(world)
        agent.log(start, 4, b"x" * 996)
        end = msgspec.structs.replace(agent.exit_report(start), log_lost=1996)
        agent.send(end, end)
        await world.settle()
        assert world.state(job).phase == "SUCCEEDED"
        told = await _text(world, job)
        assert told.startswith("one\n\n[ares: 1,996 bytes of output are missing here: ")
        assert told.count("missing here") == 1
        info = world.state(job).exit
        assert info is not None
        assert "1,996 bytes of its output are not in its log" in info.message


async def test_the_end_of_an_agent_of_the_version_before_does_not_wait_and_the_log_says_what_is_missing() -> None:
    async with World() as world:
        agent, job = await world.running()
        start = agent.starts[job]
        agent.log(start, 0, b"one\n")
        await world.settle()
        _fill(world)
        agent.log(start, 4, b"x" * 96)
        agent.exited(start)
        await world.settle()
        assert world.state(job).phase == "SUCCEEDED"
        assert "[ares: 96 bytes of output are missing here" in await _text(world, job)


async def test_a_disk_that_takes_nothing_at_all_costs_output_and_nothing_else() -> None:
    async with World() as world:
        agent, job = await world.running()

        def full(*_: object, **more: object) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        world.logs.append = full  # type: ignore[method-assign]
        agent.log(agent.starts[job], 0, b"lost")
        nonce = agent.renew()
        agent.exited(agent.starts[job])
        await world.settle()
        assert nonce in agent.renewed
        info = world.state(job).exit
        assert info is not None
        assert "4 bytes of its output are not in its log" in info.message


async def test_beyond_the_cap_nothing_is_kept_whatever_the_agent_thinks() -> None:
    async with World() as world:
        agent, job = await world.running()
        start = agent.starts[job]
        block = b"x" * (4 << 20)
        for offset in range(0, _CAP + 2 * len(block), len(block)):
            agent.log(start, offset, block)
            await world.settle()
        assert not agent.log_troubles
        size = world.logs.size("alpha", job, 1, 0)
        assert _CAP < size < _CAP + 200
        last = world.logs.read("alpha", job, 1, 0, size - 100, 100)
        assert b"is not kept]" in last
        # Also where it lies that there is more before it.
        agent.log(start, 2**62, b"far")
        await world.settle()
        assert world.logs.size("alpha", job, 1, 0) == size


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempt": 2},
        {"attempt": 0},
        {"attempt": 999_999_999},
        {"rank": 1},
        {"fence": Fence(epoch=1, counter=9)},
        {"job": "no-such-job"},
        {"tenant": "beta"},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
async def test_output_of_attempts_that_are_not_there_is_refused(wrong: dict[str, Any]) -> None:
    async with World() as world:
        agent, job = await world.running()
        ref = agent.starts[job].ref
        ref = msgspec.structs.replace(ref, **{k: v for k, v in wrong.items() if k in ("fence", "job", "tenant")})
        chunk = LogChunk(ref=ref, rank=wrong.get("rank", 0), attempt=wrong.get("attempt", 1), offset=0, data=b"forged")
        before = sorted(world.logs._root.rglob("*"))  # pyright: ignore[reportPrivateUsage]
        agent.send(chunk)
        await world.settle()
        assert agent.log_acks == [6]
        assert sorted(world.logs._root.rglob("*")) == before  # pyright: ignore[reportPrivateUsage]


async def test_a_tenant_that_holds_too_much_gets_no_more_and_its_log_says_so() -> None:
    async with World() as world:
        agent, job = await world.running()
        start = agent.starts[job]
        agent.log(start, 0, b"one\n")
        await world.settle()
        append = world.logs.append

        def over(*where: Any, note: bool = False, **more: Any) -> int:
            if note:
                return append(*where, note=True)
            raise OSError(errno.EDQUOT, "tenant alpha holds 50 MiB of 50 MiB that it may")

        world.logs.append = over  # type: ignore[method-assign]
        agent.log(start, 4, b"two\n")
        agent.log(start, 8, b"three\n")
        agent.exited(start)
        await world.settle()
        assert agent.log_acks == [4, 8, 14]
        assert world.state(job).phase == "SUCCEEDED"
        told = await _text(world, job)
        assert told.startswith("one\n\n[ares: output from here on is not kept: tenant alpha holds")
        assert told.count("[ares:") == 1
