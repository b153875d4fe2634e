"""Asked against used: how much of its resources a job, or the tasks of an array, made use of. Pure.

What was used is what attempts reported at their end: CPU time and peak memory of the last attempt. What was not
measured is None, and is said to be unknown rather than guessed.
"""

import math
from collections.abc import Sequence
from statistics import median

from ares.model.base import Shown
from ares.model.job import JobSpec
from ares.model.state import TERMINAL, JobState

# Below these parts less would do; above, it is close to the limit.
_CPU_LOW = 0.5
_MEMORY_LOW, _MEMORY_HIGH = 0.5, 0.9
_TIME_LOW, _TIME_HIGH = 0.25, 0.9
# Attempts shorter than this say nothing about CPUs and time limits.
_SHORT_S = 10.0
# Room to leave above what was used.
_SPARE = 1.25
_SMALL_MIB = 256


class BusyUse(Shown, frozen=True):
    """CPUs or GPUs that were asked for, and busy on the average. Nothing counts that for GPUs over a job's life."""

    asked: float
    used: float | None = None


class MemoryUse(Shown, frozen=True):
    """The peak of the job; of an array, of its largest task, and what half of its tasks stayed below."""

    asked_mib: int
    used_mib: int | None = None
    median_mib: int | None = None


class TimeUse(Shown, frozen=True):
    """Of the longest attempt, and its limit if it has one."""

    used_s: float | None = None
    limit_s: float | None = None


class Efficiency(Shown, frozen=True):
    """A job, or an array as one. `measured` of its `tasks` have ended and said what they used."""

    job: str
    name: str
    phase: str
    tasks: int
    measured: int
    cpu: BusyUse
    memory: MemoryUse
    gpu: BusyUse
    time: TimeUse
    # Sentences: what to ask for next time.
    advice: tuple[str, ...] = ()
    # Sentences: what is not known, and why.
    unknown: tuple[str, ...] = ()


def efficiency(spec: JobSpec, whole: JobState, tasks: Sequence[JobState]) -> Efficiency:
    """Of one job, `tasks` is the job itself."""
    ask, ended = spec.resources, [task for task in tasks if task.exit is not None and _ran_s(task) is not None]
    runs = [(_ran_s(task) or 0.0, task.exit.cpu_s) for task in ended if task.exit and task.exit.cpu_s is not None]
    peaks = [task.exit.max_rss_mib for task in ended if task.exit and task.exit.max_rss_mib is not None]
    wall = sum(ran for ran, _ in runs)
    longest = max((_ran_s(task) or 0.0 for task in ended), default=None)
    cpu = BusyUse(asked=ask.cpu_milli / 1000, used=sum(used for _, used in runs) / wall if wall > 0 else None)
    memory = MemoryUse(
        asked_mib=ask.memory_mib, used_mib=max(peaks, default=None), median_mib=int(median(peaks)) if peaks else None
    )
    time = TimeUse(used_s=longest, limit_s=spec.time_limit_s)
    gpu = BusyUse(asked=ask.gpus * ask.gpu_milli / 1000)
    oom = any(task.exit is not None and task.exit.failure == "oom" for task in tasks)
    return Efficiency(
        job=whole.id, name=whole.name, phase=whole.phase, tasks=len(tasks), measured=len(ended), cpu=cpu, memory=memory,
        gpu=gpu, time=time,
        advice=tuple(
            text for text in (_of_memory(memory, oom), _of_cpu(cpu, longest or 0.0), _of_time(time)) if text
        ),
        unknown=_unknown(spec, cpu, memory, gpu, len(ended), over=whole.phase in TERMINAL),
    )  # fmt: skip


def _ran_s(state: JobState) -> float | None:
    if state.started_at is None or state.ended_at is None:
        return None
    return max(0.0, state.ended_at - state.started_at)


def _of_memory(memory: MemoryUse, oom: bool) -> str:
    asked, used = memory.asked_mib, memory.used_mib
    if oom:
        return f"It was killed for memory at {asked} MiB: ask for --memory {_mib(asked * 2)}."
    if used is None:
        return ""
    wanted = max(_SMALL_MIB, math.ceil(used * _SPARE))
    if used > asked * _MEMORY_HIGH:
        return f"It came within {max(0, asked - used)} MiB of its memory limit: ask for --memory {_mib(wanted)}."
    if used < asked * _MEMORY_LOW and wanted < asked:
        return f"It used {used} of {asked} MiB of memory at most: --memory {_mib(wanted)} is enough."
    return ""


def _of_cpu(cpu: BusyUse, longest_s: float) -> str:
    if cpu.used is None or longest_s < _SHORT_S:
        return ""
    wanted = max(1, math.ceil(cpu.used * _SPARE))
    if cpu.used < cpu.asked * _CPU_LOW and wanted < cpu.asked:
        return f"It kept {cpu.used:.1f} of {cpu.asked:g} CPUs busy: --cpus {wanted} is enough."
    if cpu.used > cpu.asked * 1.1:
        return f"It kept {cpu.used:.1f} CPUs busy and asked for {cpu.asked:g}: ask for --cpus {wanted}."
    return ""


def _of_time(time: TimeUse) -> str:
    used, limit = time.used_s, time.limit_s
    if used is None or used < _SHORT_S:
        return ""
    wanted = f"{math.ceil(used * 1.5 / 60)}m"
    if limit is None:
        return f"It has no time limit: with --time {wanted} it can start earlier, in gaps before other jobs."
    if used > limit * _TIME_HIGH:
        return f"It took {used / limit:.0%} of its time limit: ask for --time {wanted}."
    if used < limit * _TIME_LOW:
        return f"It took {used / limit:.0%} of its time limit: with --time {wanted} it can start earlier."
    return ""


def _unknown(
    spec: JobSpec, cpu: BusyUse, memory: MemoryUse, gpu: BusyUse, ended: int, *, over: bool
) -> tuple[str, ...]:
    found: list[str] = []
    if not ended:
        found.append(
            "What it used is not known: it never ran, or was ended before its node could tell."
            if over
            else "No attempt has ended yet: what is used is known at the end."
        )
    else:
        missing = [word for word, used in (("CPU", cpu.used), ("memory", memory.used_mib)) if used is None]
        if missing:
            found.append(f"The attempts did not say how much {' and '.join(missing)} they used.")
        if spec.gang is not None:
            found.append("Of a gang, CPU and memory are those of one rank, against what one rank asks for.")
    if gpu.asked:
        found.append("Nothing here measures GPUs: how busy they were is not known.")
    return tuple(found)


def _mib(mib: int) -> str:
    """Rounded up to what people write: 384M, 2G."""
    if mib <= 1024:
        return f"{math.ceil(mib / 64) * 64}M"
    return f"{math.ceil(mib / 512) / 2:g}G"
