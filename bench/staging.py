"""(data) A dataset on its way to a job, against `curl`, `cp`, `s5cmd` and `sha256sum`; what a checkpoint costs the job
that saves it, against a bare write of as many bytes; and whether lost work is counted right.

From the moment in which the job is bound to its node until its process begins: the start of a job is in it.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from ares.edge.client.sync import Client
from ares.model.checkpoint import CheckpointPolicy
from ares.model.job import DataInput, InputMode, JobSpec, Resources, RetryPolicy
from bench.remote import remote_row
from bench.report import Row, judged
from bench.scale import Scale
from tests.platform import Platform, eventually
from tests.ports import free_ports

RATIO_TARGET = 0.8
STALL_TARGET, STALL_SPARE_MS = 1.05, 5.0
_TRIES = 5
_MIB = 1 << 20
_WAIT_S = 300.0

# By turns, so that both meet the same disk; each checkpoint is kept before the next.
_SAVES = """
import json, os, sys, time
from ares import job
from ares.job_checkpoints import _wait_until_kept
folder, found = os.environ["ARES_CHECKPOINT_DIR"], {"raw": [], "saved": []}
data = os.urandom(int(sys.argv[1]))
for number in range(1, int(sys.argv[2]) + 1):
    began = time.perf_counter()
    with open("raw", "wb") as file:
        file.write(data)
    found["raw"].append(time.perf_counter() - began)
    os.unlink("raw")
    began = time.perf_counter()
    seq = job.checkpoint(data, step=number)
    found["saved"].append(time.perf_counter() - began)
    _wait_until_kept(folder, seq)
print(json.dumps(found))
"""

# Saves once, goes on for a while, and dies. It says when it had saved and when it died.
_DIES = """
import os, sys, time
from ares import job
if job.restore() is None:
    job.checkpoint(b"half of it", step=1, wait=True)
    saved = time.time()
    time.sleep(float(sys.argv[1]))
    print(saved, time.time(), flush=True)
    os.kill(os.getpid(), 9)
"""
LOST_TARGET = 0.05


async def rows(scale: Scale, folder: Path) -> list[Row]:
    size = (512 if scale.jobs > 1000 else 64) * _MIB
    return await asyncio.to_thread(_rows, folder, size)


def _rows(folder: Path, size: int) -> list[Row]:
    with Platform(folder / "platform", warm=True) as platform:
        platform.server()
        platform.agent("node-a")
        client = platform.client(timeout_s=_WAIT_S)
        found = [
            *_staged(client, folder, size),
            _stall(client, min(size, 64 * _MIB)),
            _lost(client, 20.0 if size > 64 * _MIB else 10.0),
        ]
    return [*found, remote_row(folder, min(size, 256 * _MIB), _remote_s, _took)]


def _remote_s(platform: Platform, ref: str) -> float:
    return _started_s(platform.client(timeout_s=_WAIT_S), ref, "cache")


def _staged(client: Client, folder: Path, size: int) -> list[Row]:
    films, fetched, copied = folder / "films", folder / "fetched", folder / "copied"
    films.mkdir()
    found: dict[str, list[float]] = {"fetch": [], "curl": [], "shown": [], "copy": [], "cp": []}
    with _served(films) as url:
        for _ in range(_TRIES):
            # Other bytes each time: a node fetches a version once.
            with (films / "data").open("wb") as file:
                for _ in range(size // _MIB):
                    file.write(os.urandom(_MIB))
            ref = client.put_dataset(films, "films").ref
            found["fetch"].append(_started_s(client, ref, "cache"))
            found["curl"].append(_took(lambda: _curl(f"{url}/data", fetched)))
            found["shown"].append(_started_s(client, ref, "cache"))
            found["copy"].append(_started_s(client, ref, "copy"))
            found["cp"].append(_took(lambda: subprocess.run(["cp", films / "data", copied], check=True)))
            fetched.unlink()
            copied.unlink()
    mib = size / _MIB
    rate = {way: mib / min(took) for way, took in found.items()}
    about = f"{mib:,.0f} MiB, best of {_TRIES} by turns; medians " + ", ".join(
        f"{way} {median(took) * 1000:,.0f} ms" for way, took in found.items()
    )
    return [
        Row(
            "data", what, f"{rate[way]:,.0f} MiB/s", rate[way], f"{against}: {rate[peer]:,.0f} MiB/s",
            rate[way] / rate[peer], f"≥ {RATIO_TARGET:g}", judged(rate[way] / rate[peer] >= RATIO_TARGET), about,
        )
        for what, way, peer, against in (
            ("a dataset fetched and checked, until the job begins", "fetch", "curl", "curl and sha256sum"),
            ("a dataset that is there, shown to the job read-only", "shown", "cp", "cp"),
            ("a dataset that is there, copied for the job", "copy", "cp", "cp"),
        )
    ]  # fmt: skip


def _started_s(client: Client, ref: str, mode: InputMode) -> float:
    spec = JobSpec(
        command=("true",), retry=RetryPolicy(limit=0), resources=Resources(cpu_milli=100, memory_mib=64),
        inputs=(DataInput(name="films", from_=ref, mode=mode),),
    )  # fmt: skip
    job = client.submit(spec).id
    detail = client.wait(job, timeout=_WAIT_S)
    assert detail.state.phase == "SUCCEEDED", detail.state.reason
    at = {event.kind: event.at for event in client.job_events(job)}
    return at["started"] - at["bound"]


def _stall(client: Client, size: int) -> Row:
    spec = JobSpec(
        command=(sys.executable, "-c", _SAVES, str(size), str(_TRIES + 2)), retry=RetryPolicy(limit=0),
        resources=Resources(cpu_milli=1000, memory_mib=1024), checkpoint=CheckpointPolicy(),
    )  # fmt: skip
    job = client.submit(spec)
    detail = client.wait(job, timeout=_WAIT_S)
    said = b"".join(client.logs(job)).decode()
    assert detail.state.phase == "SUCCEEDED", (detail.state.reason, said)
    # The first ones find nothing in memory.
    raw, saved = (median(took[2:]) * 1000 for took in json.loads(said.splitlines()[-1]).values())
    most = STALL_TARGET * raw + STALL_SPARE_MS
    return Row(
        "data", "a job stands still for a checkpoint", f"{saved:,.1f} ms", saved, f"a bare write: {raw:,.1f} ms",
        saved / raw, f"≤ {STALL_TARGET:g} times and {STALL_SPARE_MS:g} ms: {most:,.1f} ms", judged(saved <= most),
        f"{size >> 20} MiB, medians of {_TRIES} by turns",
    )  # fmt: skip


def _lost(client: Client, works_s: float) -> Row:
    """What an attempt did after its checkpoint, by its own clock and as the platform counts it."""
    spec = JobSpec(
        command=(sys.executable, "-c", _DIES, str(works_s)), retry=RetryPolicy(limit=1, base_s=0.1),
        resources=Resources(cpu_milli=1000, memory_mib=256), checkpoint=CheckpointPolicy(),
    )  # fmt: skip
    job = client.submit(spec)
    detail = client.wait(job, timeout=_WAIT_S)
    said = b"".join(client.logs(job, attempt=1)).decode()
    assert (detail.state.phase, detail.state.attempt) == ("SUCCEEDED", 2), (detail.state.reason, said)
    saved, died = map(float, said.split())
    told, true = sum(part.cpu_s for part in detail.state.spent if part.fate == "lost"), died - saved
    return Row(
        "data", "work lost with an attempt, as it is counted", f"{told:,.2f} CPU-s", told, f"by the job: {true:,.2f} s",
        told / true, f"within {LOST_TARGET:.0%}", judged(abs(told / true - 1) <= LOST_TARGET),
        f"killed {works_s:g} s after its checkpoint was kept; from the checkpoint's own time to the report of the end",
    )  # fmt: skip


def _curl(url: str, target: Path) -> None:
    subprocess.run(["curl", "-sS", "--noproxy", "*", "-o", target, url], check=True)
    subprocess.run(["sha256sum", target], check=True, stdout=subprocess.DEVNULL)


def _took(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


@contextmanager
def _served(folder: Path) -> Generator[str]:
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(port), "--directory", str(folder)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    probe = ["curl", "-sS", "--noproxy", "*", "-o", os.devnull, url]
    try:
        eventually(lambda: not subprocess.run(probe, check=False, stderr=subprocess.DEVNULL).returncode, "its server")
        yield url
    finally:
        server.kill()
        server.wait()
