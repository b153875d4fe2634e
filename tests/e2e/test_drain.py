"""Draining a real node: the program hears its signal, saves a checkpoint, and goes on from it on another node."""

import sys
from pathlib import Path

import pytest

from ares.model.checkpoint import CheckpointPolicy
from ares.model.job import JobSpec, Preemption, Resources
from tests.platform import Platform, eventually

pytestmark = pytest.mark.slow

# Counts up, hears the signal, saves a checkpoint because one is due, and ends well where it goes on from that.
PROGRAM = """
import pathlib, signal, sys, time
from ares import job
at = job.restore()
if at:
    job.result({"from": int((at / "data").read_bytes())})
    sys.exit(0)
heard = []
signal.signal(signal.SIGUSR2, lambda *_: heard.append(1))
pathlib.Path(sys.argv[1]).write_text("ready")
count = 0
while True:
    time.sleep(0.05)
    count += 1
    if job.checkpoint_due() and heard:
        print("saves", count, flush=True)
        job.checkpoint(str(count).encode(), step=count, wait=True)
"""


def test_a_drained_nodes_job_saves_its_work_and_ends_elsewhere(platform: Platform, tmp_path: Path) -> None:
    platform.server()
    platform.agent("node-a")
    client = platform.client()
    ready = tmp_path / "ready"
    moves = client.submit(
        JobSpec(
            command=(sys.executable, "-c", PROGRAM, str(ready)),
            resources=Resources(cpu_milli=100, memory_mib=64),
            preemption=Preemption(checkpoint_signal="SIGUSR2", wait_s=600.0),
            checkpoint=CheckpointPolicy(),
        )
    )
    stays = client.submit(
        JobSpec(
            command=("sh", "-c", f"until [ -e {tmp_path}/end ]; do sleep 0.1; done"),
            resources=Resources(cpu_milli=100, memory_mib=64),
            preemption=Preemption(allowed=False),
        )
    )
    eventually(ready.exists, "the start of the program")
    eventually(lambda: client.get(stays).state.phase == "RUNNING", "the start of the other")
    platform.agent("node-b")
    first = platform.cli("node", "drain", "node-a", "--reason", "new disk")
    assert f"of 2 jobs still there; job {stays.id}: it does not allow preemption" in first.out, first
    done = client.wait(moves, 60)
    assert (done.state.phase, done.state.attempt, done.state.placements[0].node) == ("SUCCEEDED", 2, "node-b")
    # What it saved on the one node is what it had on the other.
    (saved,) = client.checkpoints(moves).checkpoints
    assert done.result is not None
    assert done.result.value == {"from": saved.step}
    assert b"".join(client.logs(moves, attempt=1)) == f"saves {saved.step}\n".encode()
    (told,) = [event for event in client.job_events(moves) if event.kind == "preempted"]
    assert told.reason.endswith("new disk")
    (tmp_path / "end").touch()
    last = platform.cli("node", "drain", "node-a", "--wait")
    assert last.out.splitlines()[-1] == "node-a: done: nothing is left of 2 jobs", last
    assert client.get(stays).state.phase == "SUCCEEDED"
    assert any(node.drained_by for node in client.nodes() if node.name == "node-a")
    assert platform.cli("node", "undrain", "node-a").code == 0
