"""The exit of an attempt: its failure class and the message that users read."""

import signal
from typing import Final

import msgspec

from ares.agent.attempts.attempt import Attempt
from ares.model.job import FailureClass, JobSpec, Qos
from ares.model.link import Exited, Fenced, Started
from ares.model.state import ExitInfo, OutputFile
from ares.ports.executor import Finished

# The reason depends on the class: a burstable or best-effort job may use more memory than it asked for.
_OOM: Final[dict[Qos, str]] = {
    "guaranteed": "killed for using more memory than it asked for",
    "burstable": "killed for using more than twice the memory it asked for, or because the node had none left",
    "best-effort": "killed because the node had no memory left: a best-effort job is the first to go",
}


def exit_info(finished: Finished, attempt: Attempt, processes_max: int) -> ExitInfo:
    failure, message = _judge(finished, attempt.timed_out, attempt.start.spec)
    crowded = f"it wanted more than the {processes_max:,} processes that it may have" if finished.crowded else ""
    return ExitInfo(
        code=finished.code,
        signal=None if finished.signal is None else signal_name(finished.signal),
        failure=failure,
        message="; ".join(text for text in (message, crowded, attempt.note) if text),
        max_rss_mib=finished.max_rss_mib,
        cpu_s=round(finished.cpu_s, 6),
    )


def unkept(ended: ExitInfo, trouble: str) -> ExitInfo:
    """The exit of an attempt whose result or files cannot be stored: a failure, or they would be lost silently."""
    message = "; ".join(text for text in (ended.message, trouble) if text)
    return msgspec.structs.replace(ended, failure=ended.failure or "exit", message=message)


def not_started(message: str, *, lasting: bool = False) -> ExitInfo:
    return ExitInfo(failure="staging", message=message, lasting=lasting)


def not_prepared(error: Exception) -> ExitInfo:
    """The directory of the attempt, its user or its secrets could not be had."""
    if isinstance(error, OSError):
        return not_started(f"cannot create the attempt's directory: {error.strerror}")
    return not_started(str(error))


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


def _judge(finished: Finished, timed_out: bool, spec: JobSpec) -> tuple[FailureClass | None, str]:
    if timed_out:
        return "time-limit", f"stopped at its time limit of {spec.time_limit_s:g} s"
    if finished.code == 0:
        return None, "a process of it was killed for memory" if finished.oom else ""
    if finished.oom:
        return "oom", _OOM[spec.qos]
    if finished.signal is not None:
        return "signal", ""
    return "exit", ""


def starts_once(spec: JobSpec) -> bool:
    """Whether only proof that no process ran lets the job be placed again. Others are retried as after a lost node."""
    return spec.effects == "unsafe" or spec.restart == "never"


def begun(attempt: Attempt, pid: int, number: int, at: float) -> Started:
    (ref, rank), given = attempt.key, {} if attempt.cover is None else attempt.cover.versions
    return Started(number=number, ref=ref, rank=rank, pid=pid, at=at, secrets=given, note=attempt.remark)


def final_report(
    attempt: Attempt, ended: ExitInfo, at: float, value: bytes, files: tuple[OutputFile, ...]
) -> Exited | Fenced:
    """How it ended by itself, or that it was ended."""
    (ref, rank), number, lost = attempt.key, attempt.final, attempt.tail.lost
    assert number is not None, "it has its number by now"
    if attempt.fenced:
        return Fenced(number=number, ref=ref, rank=rank, reason=attempt.fenced, log_lost=lost)
    return Exited(
        number=number, ref=ref, rank=rank, exit=ended, at=at, value=value, outputs=files, log_lost=lost,
        blames=attempt.blames,
    )  # fmt: skip
