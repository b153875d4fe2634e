"""Runs the guide about Ray on two agents, in a network that has the loopback interface only; ended.json says how.

With a number of rounds, it then strikes parts of running clusters, and struck.json says what came of each."""

import fcntl
import json
import os
import signal
import socket
import struct
import sys
import time
from pathlib import Path

from tests.e2e.test_runtime_guides import ROOT, agents, files, submitted
from tests.platform import Platform, eventually
from tests.runtimes import ray_python

_SIOCSIFFLAGS = 0x8914
_UP_AND_RUNNING = 0x41


# The services of the first rank, and those of a worker.
STRUCK = (("gcs_server", 0), ("raylet", 0), ("raylet", 1))
HOLDS = "import os, time, ray; ray.init(); open(os.environ['SEEN'], 'w').close(); time.sleep(1000)"
# Forty tasks, of which those of a lost node are Ray's to repeat.
TASKS = """
import os, time, ray
from ares import job
ray.init()

@ray.remote(num_cpus=1, max_retries=5)
def square(number):
    time.sleep(0.5)
    return number * number

found = [square.remote(number) for number in range(40)]
ray.get(found[0])
open(os.environ["SEEN"], "w").close()
job.result({"sum": sum(ray.get(found))})
"""


def main(folder: Path, tools: Path, rounds: int = 0) -> None:
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14s", b"lo", _UP_AND_RUNNING, b""))
    with Platform(folder / "platform", warm=True) as platform:
        agents(platform, tools)
        job = submitted(platform, files("ray.md", folder / "project"), "squares.yaml")
        detail = platform.client().wait(job, timeout=240)
        value = detail.state.reason if detail.result is None else detail.result.value
        eventually(lambda: not platform.job_processes(), "the end of all its processes")
        (folder / "ended.json").write_text(json.dumps([detail.state.phase, value]))
        if rounds:
            (folder / "elastic.json").write_text(json.dumps(elastic(platform, folder / "begun")))
        struck = list[object]()
        for number in range(3 * rounds):
            struck.append(strike(platform, folder / f"seen-{number}", *STRUCK[number % 3]))
            (folder / "struck.json").write_text(json.dumps(struck))


def elastic(platform: Platform, seen: Path) -> tuple[str, int, object]:
    """A machine of an elastic cluster is lost while tasks run: how the job ended, in which attempt, and with what."""
    client = platform.client()
    job = client.submit(
        command=[str(ray_python() / "python"), "-c", TASKS], runtime="ray", elastic=True,
        # The folder that tests lend their jobs covers the one in which an agent has `ares.job` for them.
        env={"SEEN": str(seen), "PYTHONPATH": str(ROOT / "src")},
        ranks=2, min_ranks=1, per_node=1, cpus=1, memory="1G", retries=5,
    ).id  # fmt: skip
    eventually(seen.exists, "the program", 240)
    node = client.get(job).state.placements[1].node
    platform.agents[node].kill()
    detail = client.wait(job, timeout=240)
    platform.agent(node)
    eventually(lambda: not platform.job_processes(), "the end of all its processes")
    return (
        detail.state.phase,
        detail.state.attempt,
        detail.state.reason if detail.result is None else detail.result.value,
    )


def strike(platform: Platform, seen: Path, name: str, rank: int) -> tuple[str, int, int, float]:
    """Ends a part of a running cluster: the rank that the verdict names, and after how long a retry was decided."""
    client = platform.client()
    job = client.submit(
        command=[str(ray_python() / "python"), "-c", HOLDS], env={"SEEN": str(seen)}, runtime="ray",
        ranks=2, per_node=1, cpus=1, memory="1G", retries=5,
    ).id  # fmt: skip
    eventually(seen.exists, "the program", 240)
    at = time.time()
    os.kill(part(platform, job, name, rank), signal.SIGKILL)
    again = eventually(lambda: [event for event in client.job_events(job) if event.kind == "retrying"], "a retry", 60)[
        0
    ]
    client.cancel(job)
    client.wait(job, timeout=60)
    eventually(lambda: not platform.job_processes(), "the end of all its processes")
    return name, rank, again.data["rank"], again.at - at


def part(platform: Platform, job: str, name: str, rank: int) -> int:
    for pid, who in platform.job_processes().items():
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]
        env = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        if who.split()[0] == job and words.endswith(name.encode()) and f"ARES_RANK_ID={rank}".encode() in env:
            return pid
    raise AssertionError(f"rank {rank} has no {name}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
