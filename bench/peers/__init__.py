"""Other systems that run jobs, measured on the same machine in the same run."""

import sys
from collections.abc import Callable
from dataclasses import dataclass

from bench.peers import cage
from bench.peers.cage import Measured
from bench.peers.install import apt, venv_python

LIMIT_S = 300.0


@dataclass(frozen=True, slots=True)
class Peer:
    """`measure(jobs)` installs it when missing, runs that many no-op jobs, and ends all it started."""

    name: str
    note: str
    measure: Callable[[int], Measured]
    # Of a chain: what is counted from one task to the next.
    between: str = ""


def _slurm(jobs: int) -> Measured:
    apt(["slurmctld", "slurmd", "sbatch", "munged"], ["slurm-wlm", "munge"])
    return cage.run("run_slurm", sys.executable, jobs, LIMIT_S)


def _hyperqueue(jobs: int) -> Measured:
    return cage.run("run_hyperqueue", venv_python("hyperqueue", "hyperqueue"), jobs, LIMIT_S)


def _ray(jobs: int) -> Measured:
    return cage.run("run_ray", venv_python("ray", "ray"), jobs, LIMIT_S)


def _dramatiq(jobs: int) -> Measured:
    apt(["redis-server"], ["redis-server"])
    return cage.run("run_dramatiq", venv_python("dramatiq", "dramatiq[redis]"), jobs, LIMIT_S)


def _hyperqueue_chain(jobs: int) -> Measured:
    return cage.run("run_hyperqueue_chain", venv_python("hyperqueue", "hyperqueue"), jobs, LIMIT_S)


def _dask_chain(jobs: int) -> Measured:
    return cage.run("run_dask_chain", venv_python("dask", "distributed"), jobs, LIMIT_S)


PEERS = (
    Peer("Slurm", "tuned, one array, 64 slots; keeps state on disk", _slurm),
    Peer("HyperQueue", "one job of many tasks, best of 64 slots and two per core; no state on disk", _hyperqueue),
    Peer("Ray", "tasks that run `true`; no state on disk", _ray),
    Peer("Dramatiq", "with Redis, actors that run `true`; no state on disk", _dramatiq),
)
# Systems whose tasks wait for each other: one task of a chain after the other.
CHAINS = (
    Peer(
        "HyperQueue",
        "one job, each task depends on the one before; no state on disk",
        _hyperqueue_chain,
        "what two tasks in a row wrote as the time, with one start of a process",
    ),
    Peer(
        "Dask",
        "futures of futures, a worker process with two threads; no state on disk",
        _dask_chain,
        "a task's end to the next one's begin, in the worker",
    ),
)
