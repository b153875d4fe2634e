"""The wall-time limit of an attempt: the warning ahead of it, its end, and another limit while it runs."""

import signal
from functools import partial
from typing import Final, Protocol

from msgspec.structs import replace

from ares.agent.attempts.attempt import Attempt
from ares.agent.attempts.ending import Farewell, end
from ares.model.job import Warn
from ares.model.link import Start
from ares.ports.clock import Clock

# A checkpoint that is due so soon is due now.
_ASK_WITHIN_S: Final = 2.0


class Asks(Protocol):
    """By which a job is asked for a checkpoint."""

    def ask(self, attempt: Attempt) -> None: ...

    def lead_s(self, attempt: Attempt) -> float: ...


def arm(attempt: Attempt, clock: Clock, checkpoints: Asks) -> None:
    """The time counts from the start of the process, also by a limit that came later."""
    spec, attempt.began = attempt.start.spec, attempt.began or clock.monotonic()
    if spec.time_limit_s is None:
        return
    left_s = max(0.0, attempt.began + spec.time_limit_s - clock.monotonic())
    if attempt.checkpoints is not None:
        # What one takes is known better when the time comes: it is looked at again then.
        attempt.limits.append(attempt.later(left_s / 2, partial(_ask_in_time, attempt, clock, checkpoints)))
    if spec.warn is None:
        attempt.limits.append(attempt.later(left_s, partial(_time_is_up, attempt)))
    else:
        warning = partial(_warn, attempt, spec.warn)
        attempt.limits.append(attempt.later(max(0.0, left_s - spec.warn.before_s), warning))


def _ask_in_time(attempt: Attempt, clock: Clock, checkpoints: Asks) -> None:
    """Asks for a checkpoint early enough to be kept before the warning, or looks again nearer to it."""
    spec = attempt.start.spec
    if spec.time_limit_s is None or attempt.running is None:
        return
    warning_s = 0.0 if spec.warn is None else spec.warn.before_s
    left_s = attempt.began + spec.time_limit_s - warning_s - checkpoints.lead_s(attempt) - clock.monotonic()
    if left_s <= _ASK_WITHIN_S:
        checkpoints.ask(attempt)
    else:
        attempt.limits.append(attempt.later(left_s / 2, partial(_ask_in_time, attempt, clock, checkpoints)))


def take_limit(attempt: Attempt, start: Start, clock: Clock, checkpoints: Asks) -> None:
    """The job was updated while the attempt runs. Of what it asks for now, only its limit is for this attempt."""
    before, limit_s = attempt.start.spec, start.spec.time_limit_s
    attempt.start = replace(attempt.start, spec=replace(before, time_limit_s=limit_s), updates=start.updates)
    if limit_s == before.time_limit_s or attempt.running is None or attempt.ending:
        return
    for timer in attempt.limits:
        timer.cancel()
    attempt.limits.clear()
    arm(attempt, clock, checkpoints)


def _warn(attempt: Attempt, warn: Warn) -> None:
    """The end is timed from the warning: a job that is warned late by a slow agent still has all of its time."""
    if attempt.running is not None:
        attempt.running.tell(signal.Signals[warn.signal])
    attempt.limits.append(attempt.later(warn.before_s, partial(_time_is_up, attempt)))


def _time_is_up(attempt: Attempt) -> None:
    attempt.timed_out = True
    end(attempt, Farewell(attempt.start.spec.grace_s))
