"""A job's way to submit jobs, with real processes: who is let in, and what is passed on."""

import asyncio
import os
import sys
from pathlib import Path

import msgspec

from ares import job as job_module
from ares.model.job_session import ChildAnswer
from ares.model.link import Exited, LogChunk
from tests.integration.agent.conftest import Running
from tests.integration.agent.scripted import ScriptedPlane

PYTHON = {"PYTHONPATH": str(Path(job_module.__file__).parents[1])}
PROGRAM = """
import subprocess, sys
from ares import job
try:
    made = [job.submit(["part", "1"], memory="4G", cpus=2), job.submit(["part", "2"], after="ok:x", time="2h")]
    made.append(job.submit(["part", "7"], call=7, detached=True))
    # From a process that is nobody's child any more.
    last = "import os; os.fork() and os._exit(0); from ares import job; print(job.submit(['last']))"
    # It waits for the orphan to close its output.
    made.append(subprocess.run([sys.executable, "-c", last], capture_output=True, text=True).stdout.strip())
    job.result(made)
except job.SubmitRefused as no:
    job.result([no.code, no.message])
"""


def _spec(data: bytes) -> dict[str, object]:
    return msgspec.json.decode(data)


async def test_calls_are_numbered_and_passed_on_in_the_attempts_name(running: Running, plane: ScriptedPlane) -> None:
    start = plane.start("parent", sys.executable, "-c", PROGRAM, env=PYTHON, children=10)
    plane.say(start)
    ended = await plane.first(Exited, "parent")
    assert msgspec.json.decode(ended.value) == ["made 1", "made 2", "made 7", "made 8"]
    first, second, seventh = plane.children[:3]
    assert {call.ref for call in plane.children} == {start.ref}
    assert [call.call for call in plane.children[:3]] == [1, 2, 7]
    assert _spec(first.spec) == {"command": ["part", "1"], "resources": {"memoryMib": 4096, "cpuMilli": 2000}}
    assert _spec(second.spec) == {
        "command": ["part", "2"], "timeLimitS": 7200, "needs": [{"job": "x", "on": "success"}],
        "resources": {"memoryMib": 0},
    }  # fmt: skip
    assert (first.detached, seventh.detached) == (False, True)


async def test_a_job_without_children_and_a_refusal_are_told(running: Running, plane: ScriptedPlane) -> None:
    plane.say(plane.start("childless", sys.executable, "-c", PROGRAM, env=PYTHON))
    told = msgspec.json.decode((await plane.first(Exited, "childless")).value)
    assert told == ["not-allowed", "this job may submit no jobs"]
    plane.child_answer = ChildAnswer(code="quota-exceeded", message="too much")
    plane.say(plane.start("refused", sys.executable, "-c", PROGRAM, env=PYTHON, children=1))
    assert msgspec.json.decode((await plane.first(Exited, "refused")).value) == ["quota-exceeded", "too much"]


async def test_the_way_of_an_attempt_is_closed_to_all_others_and_after_its_end(
    running: Running, plane: ScriptedPlane, tmp_path: Path
) -> None:
    """Another job may run as the same user: what counts is the slot that a process lives in."""
    say = "import os, time; print(os.environ['ARES_SUBMIT_SOCKET'], flush=True); time.sleep(600)"
    start = plane.start("parent", sys.executable, "-c", say, env=PYTHON, children=10)
    plane.say(start)
    door = (await plane.first(LogChunk, "parent")).data.decode().strip()
    assert os.stat(os.path.dirname(door)).st_mode & 0o077 == 0
    ask = f"import os, sys; sys.path.insert(0, {PYTHON['PYTHONPATH']!r}); os.environ['ARES_SUBMIT_SOCKET'] = {door!r}\n"
    ask += "from ares import job\ntry: print(job.submit(['x']))\nexcept job.SubmitRefused as no: print(no.code)"
    outside = await asyncio.create_subprocess_exec(sys.executable, "-c", ask, stdout=asyncio.subprocess.PIPE)
    assert (await outside.communicate())[0].strip() in (b"forbidden", b"store-unavailable")
    plane.say(plane.start("other", sys.executable, "-c", ask, env=PYTHON))
    await plane.first(Exited, "other")
    assert plane.children == []
    running.agent.stop()
    await asyncio.wait_for(running.task, 60)
    assert not Path(door).exists()  # noqa: ASYNC240
