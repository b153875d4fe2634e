"""Weeks to learn from, and later weeks to be judged by."""

from dataclasses import replace
from typing import NamedTuple

from ares.check.replay.trace import Trace, TraceJob

WEEK_S = 7 * 86_400.0
# From this many weeks on the cut lies between two of them: weeks have a rhythm.
_WEEKS_MIN = 4


class TooShort(ValueError):
    """One of the two sides would be without jobs."""

    fix = "take a longer part of the trace, or another --holdout"


class Split(NamedTuple):
    train: Trace
    held: Trace
    # When the jobs of the held-out part begin to come, in the time of the trace.
    at: float


def split(trace: Trace, holdout: float) -> Split:
    """By time of submission: no job that comes after the cut is seen in training."""
    jobs = trace.jobs
    if len(jobs) < 2:
        raise TooShort(f"{trace.name} has {len(jobs)} jobs: tuning needs some to learn from and others to be judged by")
    first, last = jobs[0].submit, jobs[-1].submit
    weeks = (last - first) / WEEK_S
    at = first + (1.0 - holdout) * (last - first)
    if weeks >= _WEEKS_MIN:
        at = first + min(max(round(weeks * (1.0 - holdout)), 1), int(weeks)) * WEEK_S
    before = tuple(job for job in jobs if job.submit < at)
    after = tuple(job for job in jobs if job.submit >= at)
    if not before or not after:
        raise TooShort(f"of {len(jobs)} jobs {len(before)} come before the cut and {len(after)} after it")
    return Split(_of(trace, before), _of(trace, after), at)


def _of(trace: Trace, jobs: tuple[TraceJob, ...]) -> Trace:
    return replace(trace, jobs=jobs)
