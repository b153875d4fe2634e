"""The wall-time limit of an attempt: the warning ahead of it, its end, and another limit while it runs."""

import signal
from functools import partial

from msgspec.structs import replace

from ares.agent.attempts.attempt import Attempt
from ares.agent.attempts.ending import Farewell, end
from ares.model.job import Warn
from ares.model.link import Start
from ares.ports.clock import Clock


def arm(attempt: Attempt, clock: Clock) -> None:
    """The time counts from the start of the process, also by a limit that came later."""
    spec, attempt.began = attempt.start.spec, attempt.began or clock.monotonic()
    if spec.time_limit_s is None:
        return
    left_s = max(0.0, attempt.began + spec.time_limit_s - clock.monotonic())
    if spec.warn is None:
        attempt.limits.append(attempt.later(left_s, partial(_time_is_up, attempt)))
    else:
        warning = partial(_warn, attempt, spec.warn)
        attempt.limits.append(attempt.later(max(0.0, left_s - spec.warn.before_s), warning))


def take_limit(attempt: Attempt, start: Start, clock: Clock) -> None:
    """The job was updated while the attempt runs. Of what it asks for now, only its limit is for this attempt."""
    before, limit_s = attempt.start.spec, start.spec.time_limit_s
    attempt.start = replace(attempt.start, spec=replace(before, time_limit_s=limit_s), updates=start.updates)
    if limit_s == before.time_limit_s or attempt.running is None or attempt.ending:
        return
    for timer in attempt.limits:
        timer.cancel()
    attempt.limits.clear()
    arm(attempt, clock)


def _warn(attempt: Attempt, warn: Warn) -> None:
    """The end is timed from the warning: a job that is warned late by a slow agent still has all of its time."""
    if attempt.running is not None:
        attempt.running.tell(signal.Signals[warn.signal])
    attempt.limits.append(attempt.later(warn.before_s, partial(_time_is_up, attempt)))


def _time_is_up(attempt: Attempt) -> None:
    attempt.timed_out = True
    end(attempt, Farewell(attempt.start.spec.grace_s))
