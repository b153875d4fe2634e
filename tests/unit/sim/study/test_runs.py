"""Replays in other processes: errors come back, and a process that dies is missed."""

import os
from pathlib import Path

import pytest

from ares.check.replay.trace import Trace
from ares.sim.study.runs import StudyRunner, Task, WorkerLost
from ares.sim.study.study import Source
from ares.sim.traces.engine import ReplayOptions
from ares.sim.traces.failures import NodeFailure
from ares.sim.traces.policies import POLICIES
from tests.unit.sim.written import NODES, table


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    return Source(table(tmp_path / "jobs.csv", jobs=10), nodes=NODES).trace()


class Deadly(str):
    """Ends the process that reads it."""

    def __reduce__(self) -> tuple[object, ...]:
        return os._exit, (9,)


def test_an_error_of_a_replay_is_heard(trace: Trace) -> None:
    wrong = ReplayOptions(failures=(NodeFailure(at=1.0, node="elsewhere", lasts_s=1.0),))
    with StudyRunner([trace], workers=2) as runner, pytest.raises(ValueError, match="'elsewhere'"):
        runner.summaries([Task(0, POLICIES["easy"], wrong)])


def test_a_process_that_dies_is_missed(trace: Trace) -> None:
    deadly = ReplayOptions(failures=(NodeFailure(at=1.0, node=Deadly("n"), lasts_s=1.0),))
    with StudyRunner([trace], workers=2) as runner, pytest.raises(WorkerLost, match="one of 2 processes ended"):
        runner.summaries([Task(0, POLICIES["easy"], deadly)])


@pytest.mark.parametrize("workers", [1, 2])
def test_progress_ends_with_all_jobs(trace: Trace, workers: int) -> None:
    seen: list[tuple[int, int, int]] = []
    tasks = [Task(0, POLICIES["easy"], ReplayOptions()), Task(0, POLICIES["fcfs"], ReplayOptions(), 0.5)]
    with StudyRunner([trace], workers) as runner:
        runner.summaries(tasks, lambda at, done, total: seen.append((at, done, total)))
    assert (0, 10, 10) in seen
    assert (1, 5, 5) in seen
    assert all(done <= total for _, done, total in seen)
