"""Ending an attempt: the checkpoint signal, then SIGTERM, then SIGKILL, with time between them."""

import signal
from functools import partial

import msgspec

from ares.agent.attempts.attempt import Attempt
from ares.core.lifecycle.ranks import why_not_preemptible
from ares.model.job import JobSpec, WarnSignal
from ares.ports.executor import Running


class Farewell(msgspec.Struct, frozen=True):
    """The time an attempt has: `wait_s` after the checkpoint signal, then `grace_s` between SIGTERM and SIGKILL."""

    grace_s: float = 0.0
    checkpoint_signal: WarnSignal | None = None
    wait_s: float = 0.0
    # It may save a checkpoint in that time, with or without a signal.
    saves: bool = False

    @property
    def at_once(self) -> bool:
        return self.grace_s <= 0 and (not self.waits or self.wait_s <= 0)

    @property
    def waits(self) -> bool:
        return self.saves or self.checkpoint_signal is not None


def farewell_of(spec: JobSpec, grace_s: float, save_s: float) -> Farewell:
    """For an attempt whose agent is told to stop. Only a job that can be preempted has work to save."""
    saves = save_s > 0 and not why_not_preemptible(spec)
    signal_ = spec.preemption.checkpoint_signal if saves else None
    waits_s = min(save_s, spec.preemption.wait_s)
    return Farewell(min(grace_s, spec.grace_s), signal_, waits_s, saves and spec.checkpoint is not None)


def end(attempt: Attempt, farewell: Farewell, *, anew: bool = False) -> None:
    """Begins to end an attempt. A later call neither restarts nor shortens that, unless it kills at once.

    With `anew` a second farewell runs beside the first: the earlier SIGKILL counts, and the attempt's time to save
    its work is over."""
    if attempt.running is None:
        return
    if farewell.at_once:
        attempt.running.kill()
        return
    if attempt.ending and not anew:
        return
    attempt.ending = True
    if not farewell.waits:
        _terminate(attempt, farewell.grace_s)
        return
    attempt.saving, attempt.grace_s = True, farewell.grace_s
    if farewell.checkpoint_signal is not None:
        # A process without a handler would die of it with its work: torchrun does, and its workers then.
        attempt.running.tell(signal.Signals[farewell.checkpoint_signal])
    _wake(attempt.running)
    attempt.later(farewell.wait_s, partial(_saved, attempt, farewell.grace_s))


def saved(attempt: Attempt) -> None:
    """The attempt has saved its work before its time for that was over."""
    _saved(attempt, attempt.grace_s)


def _saved(attempt: Attempt, grace_s: float) -> None:
    """The time to save is over. Nothing to do when a second farewell ended it before."""
    if attempt.saving:
        _terminate(attempt, grace_s)


def _terminate(attempt: Attempt, grace_s: float) -> None:
    attempt.saving = False
    if attempt.running is None:
        return
    if grace_s <= 0:
        attempt.running.kill()
        return
    attempt.running.signal(signal.SIGTERM)
    _wake(attempt.running)
    attempt.later(grace_s, attempt.running.kill)


def _wake(running: Running) -> None:
    # A process that is stopped (SIGSTOP) handles no signal before it continues.
    running.signal(signal.SIGCONT)
