"""Parts of a trace."""

from dataclasses import replace

from ares.check.replay.trace import Trace


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
