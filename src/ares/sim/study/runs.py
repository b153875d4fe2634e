"""Replays one after the other, or on several cores at once; the outcomes are the same."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from types import FrameType, TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from ares.check.replay.checker import Checker
from ares.check.replay.trace import Trace
from ares.sim.report.figures import ReplayJudgement
from ares.sim.traces.engine import ReplayOptions, replay
from ares.sim.traces.outcome import Outcome
from ares.sim.traces.policies import ReplayPolicy
from ares.sim.traces.starts import StartsWatch
from ares.sim.traces.summary import Summary, summary

T = TypeVar("T")
# Which task, how many of its jobs are over, of how many.
Progress = Callable[[int, int, int], None]

_LOOK_EVERY_S = 0.2
# What Ctrl-C ends a program with.
_INTERRUPTED = 130


class WorkerLost(Exception):
    """A process that replayed is gone."""

    fix = "there may be too little memory for several at once: try --jobs 1"


@dataclass(frozen=True, slots=True)
class Task:
    """One replay: of a trace by its place in the runner's list, or of its beginning."""

    trace: int
    policy: ReplayPolicy
    options: ReplayOptions
    part: float = 1.0
    # Whether the independent checker checks every decision.
    check: bool = False
    # Whether jobs are told when they will start, and that is judged.
    starts: bool = False


class Ran(NamedTuple):
    outcome: Outcome
    judged: ReplayJudgement


def cores() -> int:
    """Those this process may use."""
    return len(os.sched_getaffinity(0))


class StudyRunner:
    """Other processes get the traces once, when they start. They are ended with the runner."""

    def __init__(self, traces: Sequence[Trace], workers: int = 1, tasks_max: int = 1024) -> None:
        self._traces = tuple(traces)
        self._workers = workers
        self._pool: ProcessPoolExecutor | None = None
        # A new interpreter per process: a copy of this one could hold locks of threads it does not have.
        self._context = multiprocessing.get_context("spawn")
        self._counts: Any = [0] * tasks_max

    def __enter__(self) -> Self:
        if self._workers > 1:
            self._counts = self._context.Array("q", len(self._counts), lock=False)
            self._pool = ProcessPoolExecutor(
                self._workers, self._context, initializer=_begin, initargs=(self._traces, self._counts)
            )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._pool is None:
            return
        if error is not None:
            for process in multiprocessing.active_children():
                process.terminate()
        self._pool.shutdown(cancel_futures=True)

    def replays(self, tasks: Sequence[Task], progress: Progress | None = None) -> list[Ran]:
        return self._all(_ran, tasks, progress)

    def summaries(self, tasks: Sequence[Task], progress: Progress | None = None) -> list[Summary]:
        """Only the figures: less to carry from one process to the other."""
        return self._all(_summary, tasks, progress)

    def _all(self, work: Callable[[int, Task], T], tasks: Sequence[Task], progress: Progress | None) -> list[T]:
        if self._pool is None:
            _HERE.update(traces=self._traces, counts=self._counts, progress=progress)
            return [work(at, task) for at, task in enumerate(tasks)]
        for at in range(len(tasks)):
            self._counts[at] = 0
        futures = [self._pool.submit(work, at, task) for at, task in enumerate(tasks)]
        try:
            self._watch(futures, tasks, progress)
        except BrokenProcessPool:
            raise WorkerLost(f"one of {self._workers} processes ended before its replay did") from None
        return [future.result() for future in futures]

    def _watch(self, futures: Sequence[Future[Any]], tasks: Sequence[Task], progress: Progress | None) -> None:
        totals = [round(len(self._traces[task.trace].jobs) * task.part) for task in tasks]
        left: set[Future[Any]] = set(futures)
        while left:
            done, left = wait(left, _LOOK_EVERY_S)
            for future in done:
                # An error is heard at once, not when all others are over.
                future.result()
            for at, total in enumerate(totals):
                if progress is not None:
                    progress(at, total if futures[at].done() else int(self._counts[at]), total)


# ---- in the process that replays

_HERE: dict[str, Any] = {}


def _begin(traces: tuple[Trace, ...], counts: Any) -> None:
    signal.signal(signal.SIGINT, _interrupted)
    _HERE.update(traces=traces, counts=counts, progress=None)


def _interrupted(_number: int, _frame: FrameType | None) -> None:
    # The parent process reports the interrupt, once.
    os._exit(_INTERRUPTED)


def _ran(at: int, task: Task) -> Ran:
    trace = beginning(_HERE["traces"][task.trace], task.part)
    counts, progress = _HERE["counts"], _HERE["progress"]

    def count(over: int, total: int) -> None:
        counts[at] = over
        if progress is not None:
            progress(at, over, total)

    # An oracle makes no decisions to check, and promises no starts.
    checker = _checker(trace, task) if task.check and not task.policy.oracle else None
    starts = StartsWatch() if task.starts and not task.policy.oracle else None
    found = replay(trace, task.policy, replace(task.options, progress=count, log=checker, watch=starts))
    count(len(trace.jobs), len(trace.jobs))
    judged = ReplayJudgement(
        None if checker is None else checker.verdict(), None if starts is None else starts.judged()
    )
    return Ran(found, judged)


def _checker(trace: Trace, task: Task) -> Checker:
    policy, committed = task.policy, task.options.event_order == "committed"
    return Checker(trace, policy.name, policy.profile, committed=committed)


def _summary(at: int, task: Task) -> Summary:
    return summary(_ran(at, task).outcome)


class NoJobs(ValueError):
    """Nothing is left of the trace."""

    fix = "take another part of it, or another trace"


def beginning(trace: Trace, part: float) -> Trace:
    """The first of its jobs."""
    return trace if part >= 1.0 else replace(trace, jobs=trace.jobs[: max(round(len(trace.jobs) * part), 1)])


def cut(trace: Trace, *, since_s: float = 0.0, until_s: float | None = None, first: int | None = None) -> Trace:
    """Jobs submitted between two times, counted from the first submission; of these the first ones."""
    if not trace.jobs:
        raise NoJobs(f"{trace.name} has no jobs: {'; '.join(trace.warnings) or 'the file holds none'}")
    began = trace.jobs[0].submit
    end = float("inf") if until_s is None else until_s
    jobs = tuple(job for job in trace.jobs if since_s <= job.submit - began < end)[:first]
    if not jobs:
        lasts = trace.jobs[-1].submit - began
        raise NoJobs(f"no job of {trace.name} comes then: all {len(trace.jobs)} come within {lasts:g} s")
    return trace if len(jobs) == len(trace.jobs) else replace(trace, jobs=jobs)
