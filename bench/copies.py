"""Copies of a log in which nothing is as it was tuned on: users relabelled, times shifted, other loads, other weeks."""

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from msgspec.structs import replace as put

from ares.check.replay.trace import Trace, TraceJob, in_order, scaled

_WEEK_S = 7 * 86_400.0
_SHIFT_S = 1800.0
_PARTS = 3
# What people ask for, and the least part of it that a job is taken to need.
_LIMITS_S = tuple(60.0 * minutes for minutes in (5, 10, 15, 30, 60, 120, 240, 360, 480, 720, 1080, 1440, 2880, 4320))
_USERS, _LEAST = 60, 0.02


class Copy(NamedTuple):
    """A trace under the name of what was done to it."""

    name: str
    trace: Trace


def copies(trace: Trace, seed: int = 1) -> Iterator[Copy]:
    """The trace as it is first."""
    yield Copy("as it is", trace)
    yield Copy("users relabelled", _relabelled(trace, random.Random(seed)))
    yield Copy("time shifted", _shifted(trace, random.Random(seed)))
    for load in (0.8, 0.9, 1.1, 1.2):
        yield Copy(f"load {load:g}", scaled(trace, load=load))
    for number in (1, 2):
        yield Copy(f"weeks resampled {number}", _resampled(trace, random.Random(seed + number)))


def second_half(trace: Trace, most: int | None = None) -> Trace:
    """Jobs that came in the second half of the log, at most so many."""
    half = len(trace.jobs) // 2
    return replace(trace, jobs=trace.jobs[half:][:most])


def asked_for(trace: Trace, seed: int = 1) -> Trace:
    """For a log without users and limits: each job needs any part of what its user asks for, in round numbers."""
    chance, jobs = random.Random(seed), list[TraceJob]()
    for job in trace.jobs:
        wanted = job.run_s / chance.uniform(_LEAST, 1.0)
        limit_s = next((limit_s for limit_s in _LIMITS_S if limit_s >= wanted), max(_LIMITS_S[-1], job.run_s))
        user = f"u{chance.randrange(_USERS)}"
        jobs.append(put(job, spec=put(job.spec, time_limit_s=limit_s, grace_s=0.0), tenant=user, user=user))
    return replace(trace, jobs=tuple(jobs))


def _relabelled(trace: Trace, chance: random.Random) -> Trace:
    """Each job belongs to one of three users in place of its own: less is known of each."""
    names = ((job, f"{job.user}-{chance.randrange(_PARTS)}") for job in trace.jobs)
    return replace(trace, jobs=tuple(put(job, tenant=name, user=name) for job, name in names))


def _shifted(trace: Trace, chance: random.Random) -> Trace:
    first = trace.jobs[0].submit
    moved = (max(first, job.submit + chance.uniform(-_SHIFT_S, _SHIFT_S)) for job in trace.jobs)
    jobs, _ = in_order(put(job, submit=at) for job, at in zip(trace.jobs, moved, strict=True))
    return replace(trace, jobs=jobs)


def _resampled(trace: Trace, chance: random.Random) -> Trace:
    """As many weeks as there are, each any of them."""
    first, weeks = trace.jobs[0].submit, dict[int, list[TraceJob]]()
    for job in trace.jobs:
        weeks.setdefault(int((job.submit - first) // _WEEK_S), []).append(job)
    count, jobs = max(weeks) + 1, list[TraceJob]()
    for week in range(count):
        drawn = chance.randrange(count)
        later = _WEEK_S * (week - drawn)
        jobs += [put(job, id=f"{week}-{job.id}", submit=job.submit + later) for job in weeks.get(drawn, ())]
    return replace(trace, jobs=tuple(jobs))
