"""Making room: the more important job runs at once, the other saves its work and comes back."""

import sys

from ares.edge.client.calls import operator
from ares.model.job import JobSpec, Preemption, Resources
from tests.platform import Platform, eventually

# Saves what it has when asked to, and says so.
SAVES = """
import os, signal, sys, time
saved = os.environ["SAVED"]
def save(*_):
    open(saved, "w").close()
    sys.exit(0)
signal.signal(signal.SIGUSR1, save)
print("restored" if os.path.exists(saved) else "fresh", flush=True)
while not os.path.exists(os.environ["GATE"]):
    time.sleep(0.05)
"""


def ask(platform: Platform, program: str, cpu_milli: int, **more: object) -> JobSpec:
    return JobSpec(
        command=(sys.executable, "-I", "-S", "-c", program),
        env={"GATE": str(platform.directory / "go"), "SAVED": str(platform.directory / "saved")},
        resources=Resources(cpu_milli=cpu_milli, memory_mib=64),
        **more,  # pyright: ignore[reportArgumentType]
    )


def test_a_preempted_job_saves_its_work_and_comes_back(platform: Platform) -> None:
    platform.server()
    platform.agent("node-a")
    client = platform.client()
    client.send(operator.set_profile({"preemption.min_runtime_s": "0"}, "", None))
    all_of_it = client.nodes()[0].info.cpu_milli
    saves = Preemption(checkpoint_signal="SIGUSR1", wait_s=600.0)
    low = client.submit(ask(platform, SAVES, all_of_it, priority="LOW", preemption=saves))
    eventually(lambda: b"".join(client.logs(low)) == b"fresh\n", "the start of the job that will be preempted")
    high = client.submit(ask(platform, "print('done')", all_of_it, priority="CRITICAL"))
    assert client.wait(high, timeout=60).state.phase == "SUCCEEDED"
    assert (platform.directory / "saved").exists()
    (platform.directory / "go").touch()
    detail = client.wait(low, timeout=60)
    assert (detail.state.phase, detail.state.attempt, detail.state.preemptions) == ("SUCCEEDED", 2, 1)
    assert b"".join(client.logs(low, attempt=2)) == b"restored\n"
    # One record, seen from both sides.
    (told,) = client.preemptions(low)
    (made,) = client.preemptions(high)
    assert (told.kind, made.kind) == ("preempted", "preempting")
    assert told.data["for"]["job"] == high.id
    assert [one["job"] for one in made.data["victims"]] == [low.id]
    assert told.data["lostGpuS"] == made.data["lostGpuS"]
