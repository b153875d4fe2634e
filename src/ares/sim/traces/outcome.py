"""The outcome of one replay, as columns: jobs, their placements, the use of the cluster over time, and facts."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ares.model.base import Record

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Words = NDArray[np.str_]


class ReplayFacts(Record, frozen=True):
    """About the replay as a whole. Times are those of the trace, in seconds."""

    policy: str
    trace: str
    seed: int
    # Names of nodes in the order of `Intervals.node`, and how many GPUs each has.
    nodes: tuple[str, ...]
    node_gpus: tuple[int, ...]
    cpu_milli: int
    gpu_milli: int
    # From the first submission to the last end.
    began: float
    ended: float
    cycles: int
    events: int
    # Time of the computer that ran the replay; not a result.
    wall_s: float
    estimates: str = "user"
    event_order: str = "instant"
    # Jobs that were ended at their time limit.
    cut: int = 0
    node_failures: int = 0
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class JobColumns:
    """One entry per job, in the order of the trace. NaN: that never happened, or the job has no such thing."""

    id: Words
    name: Words
    tenant: Words
    submit: Floats
    # Of the first attempt and of the last; they differ when an attempt was lost.
    first_start: Floats
    last_start: Floats
    end: Floats
    # How long it ran to its end: its last attempt, and what that went on with.
    run: Floats
    # Of all its ranks together; CPUs and GPUs, not thousandths.
    cpus: Floats
    gpus: Floats
    ranks: Ints
    deadline: Floats
    # Has a deadline and had not ended by then.
    late: Bools
    energy_j: Floats
    cost: Floats
    attempts: Ints
    preemptions: Ints
    phase: Words
    # Index into `ReplayFacts.nodes` of where its first attempt began; -1: nowhere.
    first_node: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """One entry per rank of every attempt, in the order in which they began: what ran where from when to when."""

    # Indices into `JobColumns` and `ReplayFacts.nodes`.
    job: Ints
    node: Ints
    begin: Floats
    end: Floats
    gpu_milli: Ints
    cpu_milli: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """The cluster at moments of the replay, thinned evenly by number of events. Each holds until the next."""

    time: Floats
    cpu_milli: Ints
    gpu_milli: Ints
    queued: Ints
    # Share of the idle GPU that the typical job cannot use; 0 when none is idle.
    fragmentation: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    jobs: JobColumns
    intervals: Intervals
    series: Series
    facts: ReplayFacts

    def columns(self) -> Iterator[tuple[str, NDArray[Any]]]:
        for name, table in (("jobs", self.jobs), ("intervals", self.intervals), ("series", self.series)):
            for field in fields(table):
                yield f"{name}.{field.name}", getattr(table, field.name)

    def digest(self) -> str:
        """Equal for equal outcomes, however long the computer took."""
        found = hashlib.sha256()
        for name, column in self.columns():
            found.update(f"{name} {column.dtype.str} {column.shape}".encode())
            found.update(np.ascontiguousarray(column).tobytes())
        facts = msgspec.structs.replace(self.facts, wall_s=0.0)
        # As a tuple: what counts as a default, and is left out, differs once it has been in another process.
        found.update(msgspec.json.encode(msgspec.structs.astuple(facts)))
        return found.hexdigest()
