"""Draining a real node: the program hears its signal, saves, and goes on where it stopped on another node."""

import sys
from pathlib import Path

import pytest

from ares.model.job import JobSpec, Preemption, Resources
from tests.platform import Platform, eventually

pytestmark = pytest.mark.slow

# Counts up, saves where it is when told, and ends well once it was moved.
PROGRAM = """
import pathlib, signal, sys, time
saved, ready = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
if saved.exists():
    sys.exit(0)
def save(*_):
    saved.write_text("saved")
    sys.exit(0)
signal.signal(signal.SIGUSR2, save)
ready.write_text("ready")
while True:
    time.sleep(0.05)
"""


def test_a_drained_nodes_job_saves_its_work_and_ends_elsewhere(platform: Platform, tmp_path: Path) -> None:
    platform.server()
    platform.agent("node-a")
    client = platform.client()
    saved, ready = tmp_path / "saved", tmp_path / "ready"
    moves = client.submit(
        JobSpec(
            command=(sys.executable, "-c", PROGRAM, str(saved), str(ready)),
            resources=Resources(cpu_milli=100, memory_mib=64),
            preemption=Preemption(checkpoint_signal="SIGUSR2", wait_s=20.0),
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
    assert saved.read_text() == "saved"
    (told,) = [event for event in client.job_events(moves) if event.kind == "preempted"]
    assert told.reason.endswith("new disk")
    (tmp_path / "end").touch()
    last = platform.cli("node", "drain", "node-a", "--wait")
    assert last.out.splitlines()[-1] == "node-a: done: nothing is left of 2 jobs", last
    assert client.get(stays).state.phase == "SUCCEEDED"
    assert any(node.drained_by for node in client.nodes() if node.name == "node-a")
    assert platform.cli("node", "undrain", "node-a").code == 0
