"""Checkpoints on real processes: what was saved is gone on from, after a kill, a preemption and a damaged file."""

import json
import sys
from pathlib import Path

from ares.edge.client.calls import operator
from ares.edge.client.sync import Client
from ares.model.checkpoint import CheckpointKeep, CheckpointPolicy, RestoreFrom
from ares.model.job import Gang, JobSpec, Resources, RetryPolicy
from tests.platform import Platform, eventually

# Counts steps, saves whenever a checkpoint is due or every tenth step, and ends when it is told to.
TRAINS = """
import os, sys, time
from ares import job
at = job.restore()
step = int((at / "data").read_bytes()) if at else 0
print("begins at", step, flush=True)
while not os.path.exists(os.environ["GATE"]):
    time.sleep(0.02)
    step += 1
    due = job.checkpoint_due()
    if due or (step % 10 == 0 and "OFTEN" in os.environ):
        job.checkpoint(str(step).encode(), step=step, metrics={"loss": 1 / step}, wait=True)
        print("saved", step, "due" if due else "", flush=True)
    if step % 30 == 0 and job.attempt == 1 and "KILLED" in os.environ:
        os.kill(os.getpid(), 9)
"""

# One of two ranks. Both save under the same numbers; the last rank of the first attempt dies while it writes the third,
# when its peer's part of that is sealed.
GANGS = """
import os, sys, time
from pathlib import Path
from ares import job
at = job.restore()
step = int((at / "data").read_bytes().split()[0]) if at else 0
print("rank", job.rank, "begins at", step, "with", (at / "data").read_bytes().decode() if at else "nothing", flush=True)
while step < 5:
    step += 1
    if step == 3 and job.attempt == 1 and job.rank == 1:
        peer = Path(os.environ["GATE"])
        while not peer.exists():
            time.sleep(0.05)
        half = Path(os.environ["ARES_CHECKPOINT_DIR"]) / ".new-3"
        half.mkdir()
        (half / "data").write_bytes(b"3 of a ra")
        os.kill(os.getpid(), 9)
    job.checkpoint(f"{step} of rank {job.rank}".encode(), step=step, wait=step < 3 or job.attempt > 1)
    if step == 3 and job.attempt == 1:
        time.sleep(600)
"""


def trains(platform: Platform, resources: Resources | None = None, **changes: object) -> JobSpec:
    env = {"GATE": str(platform.directory / "go"), **({"OFTEN": "", "KILLED": ""} if changes.pop("killed", 0) else {})}
    return JobSpec(
        command=(sys.executable, "-c", TRAINS), env=env, retry=RetryPolicy(base_s=0.1),
        resources=resources or Resources(cpu_milli=500, memory_mib=64),
        **{"checkpoint": CheckpointPolicy(), **changes},  # pyright: ignore[reportArgumentType]
    )  # fmt: skip


def written(client: Client, job: object, attempt: int) -> str:
    return b"".join(client.logs(job, attempt=attempt)).decode()  # pyright: ignore[reportArgumentType]


def files_of(platform: Platform, job: str, seq: int) -> list[Path]:
    return [
        path for path in (platform.directory / "outputs").rglob("*") if f"+{seq}/" in str(path) and job in str(path)
    ]


def test_a_killed_job_goes_on_and_a_damaged_checkpoint_gives_way_to_the_older(platform: Platform) -> None:
    platform.server()
    platform.agent("node-a")
    client, gate = platform.client(), platform.directory / "go"
    keeps = CheckpointPolicy(keep=CheckpointKeep(last=3))
    job = client.submit(trains(platform, killed=True, checkpoint=keeps))
    eventually(lambda: "saved 40" in written(client, job, 2), "the second attempt's first checkpoint")
    assert written(client, job, 2).startswith("begins at 30\n")
    gate.touch()
    detail = client.wait(job, timeout=60)
    assert detail.state.phase == "SUCCEEDED"
    listed = json.loads(platform.cli("checkpoints", job.id, "-o", "json").out)["checkpoints"]
    newest, older = listed[0], listed[1]
    assert (len(listed), newest["newest"], newest["step"]) == (3, True, newest["number"])
    table = platform.cli("checkpoints", job.id).out
    assert "newest" in table
    assert f"loss={1 / newest['step']:g}" in table
    assert f"ares checkpoints {job.id}" in platform.cli("show", job.id).out
    # Only these are kept: files of others are gone, and of the attempt that was killed too.
    eventually(lambda: not files_of(platform, job.id, 10), "removal of what is not to be kept")

    # A new job goes on from a chosen one, for itself: what becomes of the first job's files is nothing to it.
    gate.unlink()
    made = platform.cli("resume", job.id, "--from", str(older["number"]), "-o", "json")
    assert made.code == 0, made.err
    again = json.loads(made.out)["job"]
    eventually(lambda: f"begins at {older['step']}\n" in written(client, again, 1), "a start from a chosen checkpoint")
    gate.touch()
    assert client.wait(again, timeout=60).state.phase == "SUCCEEDED"
    missing = platform.cli("resume", job.id, "--from", "7777")
    assert missing.code != 0
    assert "has no checkpoint 7777 that is whole" in missing.err

    # The newest is cut: the older one is used, and the ledger says why.
    (cut,) = [path for path in files_of(platform, job.id, newest["number"]) if path.stat().st_size < 10]
    cut.chmod(0o600)
    cut.write_bytes(cut.read_bytes()[:1])
    gate.unlink()
    other = client.submit(trains(platform, restore_from=RestoreFrom(job=job.id)))
    eventually(lambda: "begins at" in written(client, other, 1), "a start in spite of the damage")
    assert written(client, other, 1).startswith("begins at 0\n")
    assert "checkpoint-damaged" in platform.cli("events", other.id).out
    needs_one = client.submit(
        trains(platform, restore_from=RestoreFrom(job=job.id), checkpoint=CheckpointPolicy(required=True))
    )
    failed = client.wait(needs_one, timeout=60)
    assert failed.state.phase == "FAILED"
    assert "it requires one (checkpoint.required)" in failed.state.reason
    gate.touch()
    assert client.wait(other, timeout=60).state.phase == "SUCCEEDED"


def test_a_gang_goes_on_from_what_all_of_its_ranks_saved(platform: Platform) -> None:
    """A rank dies in the middle of a save, of which the other one's part is sealed already."""
    platform.server()
    for node in ("node-a", "node-b"):
        platform.agent(node)
    client, gate = platform.client(), platform.directory / "go"
    job = client.submit(
        JobSpec(
            command=(sys.executable, "-c", GANGS), env={"GATE": str(gate)}, retry=RetryPolicy(base_s=0.1),
            resources=Resources(cpu_milli=200, memory_mib=64), gang=Gang(ranks=2, per_node=1),
            checkpoint=CheckpointPolicy(keep=CheckpointKeep(last=9)),
        )
    )  # fmt: skip
    eventually(lambda: len(files_of(platform, job.id, 3)) == 2, "the third part of rank 0, and its list")
    gate.touch()
    detail = client.wait(job, timeout=100)
    assert (detail.state.phase, detail.state.attempt) == ("SUCCEEDED", 2), detail.state.reason
    for rank in (0, 1):
        said = b"".join(client.logs(job, attempt=2, rank=rank)).decode()
        assert said.startswith(f"rank {rank} begins at 2 with 2 of rank {rank}\n"), said
    kept = [(checkpoint.fence.counter > 1, checkpoint.step) for checkpoint in client.checkpoints(job).checkpoints]
    assert kept == [(True, 5), (True, 4), (True, 3), (False, 2), (False, 1)]


def test_a_preempted_job_saves_when_it_is_due_and_loses_nothing(platform: Platform) -> None:
    platform.server()
    platform.agent("node-a")
    client = platform.client()
    client.send(operator.set_profile({"preemption.min_runtime_s": "0"}, "", None))
    all_of_it = Resources(cpu_milli=client.nodes()[0].info.cpu_milli, memory_mib=64)
    low = client.submit(trains(platform, all_of_it, priority="LOW"))
    eventually(lambda: "begins at 0" in written(client, low, 1), "the start of the job that will be preempted")
    high = client.submit(JobSpec(command=("true",), resources=all_of_it, priority="CRITICAL"))
    assert client.wait(high, timeout=60).state.phase == "SUCCEEDED"
    eventually(lambda: "begins at" in written(client, low, 2), "the second attempt")
    # It saved only because it had to leave, and it was ended as soon as that was seen.
    (saved,) = client.checkpoints(low).checkpoints
    assert saved.step > 0
    assert written(client, low, 2).startswith(f"begins at {saved.step}\n")
    (platform.directory / "go").touch()
    assert client.wait(low, timeout=60).state.phase == "SUCCEEDED"
