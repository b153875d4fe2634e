"""When a job that holds GPUs is taken not to use them, and what follows from it."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from ares.model.profile import IdlePolicy


class GpuUse(NamedTuple):
    """Of one GPU: how busy it is and how much of its memory is in use, both from 0 to 1."""

    busy: float
    memory: float


def unused(policy: IdlePolicy, looks: Sequence[GpuUse]) -> bool:
    """Whether none of a job's GPUs computes. One that is full counts as used: data may be loaded for what comes."""
    return bool(looks) and all(look.busy < policy.busy_below and look.memory < policy.memory_below for look in looks)


def due(policy: IdlePolicy, ran_s: float, idle_s: float, told_s: float | None) -> Literal["", "tell", "stop"]:
    """What to do about a job whose GPUs were unused for so long. It is told first, and stopped only if that is asked
    for, so long after it was told that; `told_s` is how long that is ago, None before."""
    if ran_s < policy.grace_s or idle_s < policy.after_s:
        return ""
    if told_s is None:
        return "tell"
    return "stop" if policy.stop_after_s and told_s >= policy.stop_after_s else ""
