"""Nodes that freeze in a save, on real processes: six points of an upload, four lengths of time.

What a node sends when it wakes up counts as long as its attempt does, and never after. Judged by the ledger: each
checkpoint that was committed is of the attempt that had the job then, and greater than all before it."""

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ares.model.checkpoint import CheckpointPolicy
from ares.model.job import JobSpec, NodeTerm, Resources, RetryPolicy
from ares.model.state import LedgerEvent
from tests.platform import NeverHappened, Platform, eventually, say

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]
# By which a checkpoint of two MB takes some two seconds.
RATE_MB = 1
UPLOAD_S = 2.0
# On a machine so busy that a node's demand is not heard each second, its lease of that rate lapses, and the node has
# the floor of it that is always its own, 25 kB/s of each of two: 80 s for a checkpoint, of which one may be under way.
PATIENCE_S = 240.0
POINTS = range(6)
# Within the lease of 9 s, until its end, and beyond it.
LENGTHS_S = (1.0, 7.0, 15.0, 60.0)
SAVES = """
import os, time
from pathlib import Path
from ares import job
at = job.restore()
step = int((at / "step").read_text()) if at else 0
print("begins at", step, flush=True)
while not os.path.exists(os.environ["GATE"]):
    step += 1
    new = job.checkpoint_dir()
    (new / "weights").write_bytes(os.urandom(2_000_000 if step > 1 else 10))
    (new / "step").write_text(str(step))
    job.checkpoint(new, step=step, wait=True)
    print("saved", step, flush=True)
"""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    with Platform(tmp_path_factory.mktemp("zombies"), warm=True) as platform:
        platform.server()
        for name in ("node-a", "node-b"):
            platform.agent(name)
        assert platform.cli("quota", "set", "default", f"transfer={RATE_MB}").code == 0
        yield platform


def struck(platform: Platform, gate: Path, point: int, length_s: float) -> int:
    """How many attempts it took."""
    client = platform.client()
    job = client.submit(
        JobSpec(
            command=(sys.executable, "-c", SAVES), env={"GATE": str(gate)}, checkpoint=CheckpointPolicy(),
            retry=RetryPolicy(limit=5, base_s=0.1), resources=Resources(cpu_milli=200, memory_mib=128),
            affinity=(NodeTerm(key="node", op="in", values=("node-a",), required=False, weight=100),),
        )
    ).id  # fmt: skip
    eventually(lambda: client.get(job).state.checkpoint, "a first checkpoint", 60)
    node = platform.agents[client.get(job).state.placements[0].node]
    time.sleep(UPLOAD_S * point / len(POINTS))
    node.pause()
    time.sleep(length_s)
    node.resume()
    # The attempt that has the job now saves once more.
    before = client.get(job).state.checkpoint

    def again() -> bool:
        state = client.get(job).state
        saved = state.checkpoint
        return saved is not None and saved.fence == state.fence and (before is None or saved.id > before.id)

    try:
        eventually(again, "a checkpoint of the current attempt", PATIENCE_S)
    except NeverHappened as error:
        told = [(event.kind, event.fence, event.reason, event.data) for event in client.job_events(job)]
        raise AssertionError(f"point {point}, {length_s:g} s: {error}; {client.get(job).state}; {told}") from None
    gate.touch()
    detail = client.wait(job, timeout=PATIENCE_S)
    assert detail.state.phase == "SUCCEEDED", detail.state.reason
    judge(client.job_events(job))
    return detail.state.attempt


def judge(events: Sequence[LedgerEvent]) -> None:
    bound, last = None, None
    for event in events:
        if event.kind == "bound":
            bound = event.fence
        elif event.kind == "checkpointed":
            found = ([int(number) for number in event.fence.split(".")], event.data["checkpoint"])
            assert event.fence == bound, (event, bound)
            assert last is None or found > last, (found, last)
            last = found
    assert last is not None


def test_a_node_that_slept_in_a_save_until_another_has_its_job(pair: Platform, tmp_path: Path) -> None:
    assert struck(pair, tmp_path / "go", 3, 15.0) > 1


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_every_point_and_length(pair: Platform, tmp_path: Path) -> None:
    took = {
        (point, length_s): struck(pair, tmp_path / f"go-{point}-{length_s:g}", point, length_s)
        for length_s in LENGTHS_S
        for point in POINTS
    }
    say(f"{len(took)} of {len(POINTS) * len(LENGTHS_S)} struck, no stale checkpoint; attempts: {took}")
    assert all(attempts == 1 for (_, length_s), attempts in took.items() if length_s < 5)
    assert all(attempts > 1 for (_, length_s), attempts in took.items() if length_s > 10)
