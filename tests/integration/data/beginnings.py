"""Logs, their first jobs, and which of their starts a whole schedule fixes."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ares.check.replay.trace import Trace
from ares.sim.traces.formats import read


@cache
def read_once(path: Path) -> Trace:
    """Read once for all tests of a process: a trace is frozen."""
    return read(path)


def first(trace: Trace, jobs: int | None) -> Trace:
    return trace if jobs is None else replace(trace, jobs=trace.jobs[:jobs])


def differing(whole: Trace, waits: npt.NDArray[np.float64], expected: npt.NDArray[np.float64]) -> list[int]:
    """Jobs that waited otherwise than in the schedule of the whole log. Who started after the first job that was left
    out came may have been passed by it: nothing is said of those."""
    count = len(waits)
    submit = np.array([job.submit for job in whole.jobs[:count]])
    until = whole.jobs[count].submit if count < len(whole.jobs) else np.inf
    fixed = submit + expected[:count] < until
    assert fixed.mean() > 0.9, "hardly anything is compared"
    return np.flatnonzero((waits != expected[:count]) & fixed).tolist()
