"""(mpi) The launch of an MPI program over three nodes of this machine, against a local mpirun of as many processes.

From the moment in which the job is bound to its nodes until the last of its processes begins; of mpirun, from its
start.
A second peer does the same work: mpirun with three daemons that a shell begins on the same machine, as ssh would."""

import asyncio
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from ares.model.job import Gang, JobSpec, Resources, RetryPolicy, RuntimeWish
from bench.report import Row, judged
from bench.scale import Scale
from tests.platform import Platform
from tests.runtimes import open_mpi

TARGET = 2.0
_NODES = ("node-a", "node-b", "node-c")
_TRIES, _QUICK_TRIES = 20, 4
_WAIT_S = 120.0
_STAMP = 'date +%s.%N > "$STAMPS/$OMPI_COMM_WORLD_RANK"'
_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
# In the place of ssh, on one machine.
_SHELL = '#!/bin/sh\nshift\nexec sh -c "$*"\n'


async def rows(scale: Scale, folder: Path) -> list[Row]:
    tries = _TRIES if scale.jobs > 1000 else _QUICK_TRIES
    return await asyncio.to_thread(_rows, tries, folder)


def _rows(tries: int, folder: Path) -> list[Row]:
    open_mpi()
    stamps = folder / "stamps"
    stamps.mkdir(parents=True)
    stamps.chmod(0o777)
    shell = folder / "shell"
    shell.write_text(_SHELL)
    shell.chmod(0o755)
    ways: dict[str, list[float]] = {"ares": [], "local": [], "daemons": []}
    hosts = ",".join(("localhost:1", *(f"node-{number}:1" for number in range(1, len(_NODES)))))
    local = ("--oversubscribe", "-np", str(len(_NODES)))
    loopback = ("-mca", "oob_tcp_if_include", "lo", "-mca", "btl_tcp_if_include", "lo")
    daemons = ("-mca", "plm_rsh_agent", str(shell), "-mca", "plm_rsh_no_tree_spawn", "1", "--host", hosts, *local[1:])
    with Platform(folder / "platform", warm=True) as platform:
        platform.server()
        for name in _NODES:
            platform.agent(name)
        # By turns, so that all meet the same machine.
        for _ in range(tries + 2):
            ways["ares"].append(_last(stamps, lambda: _job(platform, stamps)))
            ways["local"].append(_last(stamps, lambda: _mpirun(stamps, local)))
            ways["daemons"].append(_last(stamps, lambda: _mpirun(stamps, (*daemons, *loopback))))
    # The first ones find nothing in memory.
    ours, local_s, daemons_s = (median(found[2:]) for found in ways.values())
    about = f"medians of {tries} by turns; slowest of ours {max(ways['ares'][2:]) * 1000:,.0f} ms"
    return [
        Row(
            "mpi", "launch of 3 MPI processes on 3 nodes", f"{ours * 1000:,.0f} ms", ours * 1000,
            f"{name}: {against * 1000:,.0f} ms", ours / against, target, judged(ours / against <= TARGET), about,
        )
        for name, against, target in (
            ("local mpirun", local_s, f"≤ {TARGET:g}"), ("mpirun with 3 daemons by a shell", daemons_s, f"≤ {TARGET:g}")
        )
    ]  # fmt: skip


def _last(stamps: Path, launched: Callable[[], float]) -> float:
    """Seconds until the last process began."""
    for stamp in stamps.iterdir():
        stamp.unlink()
    began = launched()
    return max(float(stamp.read_text()) for stamp in stamps.iterdir()) - began


def _job(platform: Platform, stamps: Path) -> float:
    client = platform.client()
    spec = JobSpec(
        command=("sh", "-c", _STAMP),
        env={"STAMPS": str(stamps)},
        resources=Resources(cpu_milli=1000, memory_mib=256),
        retry=RetryPolicy(limit=0),
        gang=Gang(ranks=len(_NODES), per_node=1),
        runtime=RuntimeWish(kind="mpi"),
    )
    job = client.submit(spec).id
    detail = client.wait(job, timeout=_WAIT_S)
    assert detail.state.phase == "SUCCEEDED", detail.state.reason
    return next(event.at for event in client.job_events(job) if event.kind == "bound")


def _mpirun(stamps: Path, flags: tuple[str, ...]) -> float:
    began = time.time()
    command = ["mpirun", *flags, "sh", "-c", _STAMP]
    env = {**os.environ, **_ROOT, "STAMPS": str(stamps)}
    subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL, env=env)
    return began
