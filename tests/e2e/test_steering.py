"""Steering real processes: a throttled array, a job sent back to the queue, another time limit while it runs."""

import json
import sys
from typing import Any

from ares.edge.client.calls.steering import update_of
from ares.model.job import JobSpec, Preemption, Resources
from tests.platform import Platform, eventually

WAITS = """
import os, time
while not os.path.exists(os.environ["GATE"]):
    time.sleep(0.02)
"""
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


def ask(platform: Platform, program: str, **more: Any) -> JobSpec:
    return JobSpec(
        command=(sys.executable, "-I", "-S", "-c", program),
        env={"GATE": str(platform.directory / "go"), "SAVED": str(platform.directory / "saved")},
        resources=Resources(cpu_milli=100, memory_mib=64),
        **more,
    )


def test_a_throttled_array_and_a_throttle_that_is_raised(platform: Platform) -> None:
    platform.server()
    platform.agent("node-a")
    client = platform.client()
    array = client.submit(ask(platform, WAITS, array="0-7%2"))
    eventually(lambda: (client.get(array).array_counts or {}).get("RUNNING") == 2, "two running tasks")
    waiting = client.get(f"{array.id}_7")
    eventually(
        lambda: (found := client.explain(f"{array.id}_7").reason) and found.code == "ARRAY_THROTTLE", "the reason"
    )
    assert waiting.state.phase == "PENDING"
    assert client.get(array).array_counts == {"RUNNING": 2, "PENDING": 6}
    client.update(array, throttle=5)
    assert client.get(array).array_throttle == 5
    eventually(lambda: (client.get(array).array_counts or {}).get("RUNNING") == 5, "five running tasks")
    platform.cli("update", array.id, "--throttle", "none")
    eventually(lambda: (client.get(array).array_counts or {}).get("RUNNING") == 8, "all tasks running")
    (platform.directory / "go").touch()
    assert client.wait(array, timeout=60).state.phase == "SUCCEEDED"


def test_a_job_goes_back_saves_its_work_and_comes_back(platform: Platform) -> None:
    platform.server()
    platform.agent("node-a")
    client = platform.client()
    saves = Preemption(allowed=False, checkpoint_signal="SIGUSR1", wait_s=600.0)
    job = client.submit(ask(platform, SAVES, preemption=saves, time_limit_s=3600.0))
    eventually(lambda: b"".join(client.logs(job)) == b"fresh\n", "its start")
    assert client.requeue(job, "slow node").phase == "PREEMPTED"
    eventually(lambda: client.get(job).state.attempt == 2, "its second attempt")
    (platform.directory / "go").touch()
    done = client.wait(job, timeout=60).state
    assert (done.phase, done.requeues, done.preemptions, done.retries) == ("SUCCEEDED", 1, 0, {})
    assert b"".join(client.logs(job, attempt=2)) == b"restored\n"
    assert "requeue-requested" in [entry.kind for entry in client.job_events(job)]


def test_a_running_job_ends_by_its_new_time_limit(platform: Platform) -> None:
    platform.server()
    platform.agent("node-a")
    client = platform.client()
    job = client.submit(ask(platform, WAITS, time_limit_s=3600.0, grace_s=1.0))
    eventually(lambda: client.get(job).state.phase == "RUNNING", "its start")
    client.update(job, time="1s")
    done = client.wait(job, timeout=60)
    assert (done.state.phase, done.state.exit and done.state.exit.failure) == ("FAILED", "time-limit")
    assert done.state.exit is not None
    assert "time limit of 1 s" in done.state.exit.message


def test_what_waits_is_changed_by_filter_on_the_command_line(platform: Platform) -> None:
    platform.server()
    client = platform.client()
    jobs = [client.submit(ask(platform, WAITS, name="sweep", labels={"exp": "7"})) for _ in range(3)]
    answer = platform.cli("update", "--name", "sweep", "--priority", "LOW", "--yes", "-o", "json")
    assert json.loads(answer.out)["changed"] == 3
    assert {client.get(job).spec.priority for job in jobs} == {"LOW"}
    counted = client.steer_all("cancel", name="sweep", label={"exp": "7"}, dry_run=True)
    assert (counted.matched, counted.changed) == (3, 0)
    changed = client.steer_all("update", change=update_of({"memory": "128M"}), name="sweep")
    assert (changed.changed, changed.refused) == (3, 0)
    assert (
        "3 jobs cancelled" in platform.cli("cancel", "--state", "pending", "--label", "exp=7", "--older", "0", "-y").out
    )
    assert {client.get(job).state.phase for job in jobs} == {"CANCELLED"}
