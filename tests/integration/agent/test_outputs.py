"""Files that real processes leave, handed over by the real agent to a control plane played by the test."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ares.agent.files import upload
from ares.agent.settings import AgentSettings
from ares.model.link import Exited, Fenced, OutputAck, OutputChunk, Start, Stop
from tests.integration.agent.conftest import Running
from tests.integration.agent.scripted import ScriptedPlane

TWO_FILES = "cd $ARES_OUTPUT_DIR; mkdir sub; echo one > a; head -c 3000000 /dev/zero > sub/b"


def job(plane: ScriptedPlane, name: str, script: str, **spec: Any) -> Start:
    return plane.start(name, "sh", "-c", script, **spec)


async def gone(path: Path) -> None:
    async with asyncio.timeout(20):
        while path.exists():  # noqa: ASYNC240
            await asyncio.sleep(0.01)


async def test_files_are_handed_over_before_the_end_is_told(running: Running, plane: ScriptedPlane) -> None:
    plane.say(job(plane, "j1", TWO_FILES))
    exited = await plane.first(Exited, "j1")
    assert exited.exit.failure is None
    assert {file.path: plane.outputs[file.sha256] for file in exited.outputs} == {
        "a": b"one\n",
        "sub/b": bytes(3_000_000),
    }
    assert max(len(chunk.data) for chunk in plane.all(OutputChunk)) <= 256 * 1024
    await gone(running.state_dir / "attempts" / "j1.1.1.0")


@pytest.mark.parametrize(
    ("script", "failure"),
    [
        (":", None),
        ("mkdir $ARES_OUTPUT_DIR/empty", None),
        ("rmdir $ARES_OUTPUT_DIR", None),
        ("echo x > $ARES_OUTPUT_DIR/a; exit 3", "exit"),
    ],
)
async def test_nothing_is_sent_when_there_is_nothing_or_it_failed(
    running: Running, plane: ScriptedPlane, script: str, failure: str | None
) -> None:
    plane.say(job(plane, "j1", script))
    exited = await plane.first(Exited, "j1")
    assert exited.exit.failure == failure
    assert exited.outputs == ()
    assert not plane.all(OutputChunk)


async def test_what_cannot_be_kept_fails_the_attempt_with_a_word(running: Running, plane: ScriptedPlane) -> None:
    for name, script, says in (
        ("j1", "ln -s /etc/passwd $ARES_OUTPUT_DIR/x", "'x' is a symbolic link"),
        ("j2", "mkfifo $ARES_OUTPUT_DIR/x", "'x' is a named pipe"),
        ("j3", "rmdir $ARES_OUTPUT_DIR; ln -s /etc $ARES_OUTPUT_DIR", "outputs: "),
        ("j4", "cd $ARES_OUTPUT_DIR; seq 1500 | xargs touch", "more than 1,000 files"),
        ("j5", "truncate -s 2G $ARES_OUTPUT_DIR/x", "more than the 1,073,741,824 bytes"),
    ):
        plane.say(job(plane, name, script))
        exited = await plane.first(Exited, name)
        assert exited.exit.failure == "exit"
        assert "its outputs cannot be kept: " in exited.exit.message
        assert says in exited.exit.message
        assert exited.outputs == ()
    assert not plane.all(OutputChunk)


async def test_an_older_control_plane_is_not_sent_what_it_does_not_know(
    tmp_path: Path, plane: ScriptedPlane, settings: AgentSettings
) -> None:
    plane.output_bytes_max = 0
    running = Running(tmp_path, plane, settings)
    await plane.until(lambda: plane.incarnation > 0)
    plane.say(job(plane, "j1", TWO_FILES))
    exited = await plane.first(Exited, "j1")
    assert "keeps no outputs" in exited.exit.message
    assert not plane.all(OutputChunk)
    running.agent.stop()
    await running.task


async def test_a_broken_connection_goes_on_where_it_was(running: Running, plane: ScriptedPlane) -> None:
    seen = 0

    def cut_once(chunk: OutputChunk) -> OutputAck | None:
        nonlocal seen
        seen += 1
        plane.on_output = None
        plane.cut()
        return None

    plane.on_output = cut_once
    plane.say(job(plane, "j1", TWO_FILES))
    exited = await plane.first(Exited, "j1")
    assert seen == 1
    assert {plane.outputs[file.sha256] for file in exited.outputs} == {b"one\n", bytes(3_000_000)}


async def test_several_attempts_share_the_window(running: Running, plane: ScriptedPlane) -> None:
    """More bytes each than may be under way at once for all: none waits for ever."""
    names = [f"j{number}" for number in range(3)]
    plane.say(
        *(job(plane, name, f"head -c 3000000 /dev/zero | tr '\\0' {name[1]} > $ARES_OUTPUT_DIR/x") for name in names)
    )
    for name in names:
        exited = await plane.first(Exited, name)
        assert plane.outputs[exited.outputs[0].sha256] == name[1].encode() * 3_000_000


async def test_losing_the_place_ends_the_upload(tmp_path: Path, settings: AgentSettings) -> None:
    """Told by a refusal, by a stop, or by the end of its right: never a report of success."""
    plane = ScriptedPlane(self_fence_ratio=0.2)
    running = Running(tmp_path, plane, settings)
    await plane.until(lambda: plane.incarnation > 0)
    plane.on_output = lambda chunk: plane.output_ack(chunk, refused="taken away")
    plane.say(job(plane, "j1", TWO_FILES))
    assert (await plane.first(Fenced, "j1")).reason == "taken away"
    plane.on_output = lambda chunk: None
    plane.say(start := job(plane, "j2", TWO_FILES))
    await plane.first(OutputChunk, "j2")
    plane.say(Stop(ref=start.ref, grace_s=5.0, reason="cancelled"))
    assert (await plane.first(Fenced, "j2")).reason == "cancelled"
    plane.say(job(plane, "j3", TWO_FILES))
    await plane.first(OutputChunk, "j3")
    plane.renewals = False
    assert "right to run ended" in (await plane.first(Fenced, "j3")).reason
    assert not plane.all(Exited)
    running.agent.stop()
    await running.task


async def test_trouble_is_tried_again_and_some_time_told(
    running: Running, plane: ScriptedPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload, "PAUSE_S", 0.001)

    def full(chunk: OutputChunk) -> OutputAck:
        return plane.output_ack(chunk, trouble="the control plane cannot keep it: No space left on device")

    plane.on_output = full
    plane.say(job(plane, "j1", 'echo one > "$ARES_OUTPUT_DIR/a"'))
    await plane.first(OutputChunk, "j1", nth=2)
    plane.on_output = None
    exited = await plane.first(Exited, "j1")
    assert exited.exit.failure is None
    plane.on_output = full
    plane.outputs.clear()
    plane.parts.clear()
    plane.say(job(plane, "j2", 'echo one > "$ARES_OUTPUT_DIR/a"'))
    exited = await plane.first(Exited, "j2")
    assert exited.exit.failure == "exit"
    assert "'a': the control plane cannot keep it: No space left on device; it was sent 7 times" in exited.exit.message
    assert exited.outputs == ()


async def test_files_that_were_lost_are_sent_again_with_the_report(running: Running, plane: ScriptedPlane) -> None:
    plane.acks = False
    plane.say(job(plane, "j1", TWO_FILES))
    exited = await plane.first(Exited, "j1")
    lost = exited.outputs[1]
    plane.outputs.clear()
    plane.parts.clear()
    plane.acks = True
    for file in exited.outputs:
        plane.say(OutputAck(ref=exited.ref, rank=0, sha256=file.sha256, offset=0, trouble="it was not kept"))
    again = await plane.first(Exited, "j1", nth=1)
    assert again == exited
    assert plane.outputs[lost.sha256] == bytes(3_000_000)
    await gone(running.state_dir / "attempts" / "j1.1.1.0")


async def test_an_agent_that_leaves_finishes_what_it_hands_over(running: Running, plane: ScriptedPlane) -> None:
    held = list[OutputChunk]()
    plane.on_output = held.append
    plane.say(job(plane, "j1", 'echo one > "$ARES_OUTPUT_DIR/a"'))
    (chunk,) = [await plane.first(OutputChunk, "j1")]
    running.agent.stop()
    await plane.until(lambda: len(plane.said) > plane.said.index(chunk) + 1)
    plane.say(plane.output_ack(chunk, offset=chunk.size, sealed=True))
    exited = await plane.first(Exited, "j1")
    assert [file.path for file in exited.outputs] == ["a"]
    await running.task
