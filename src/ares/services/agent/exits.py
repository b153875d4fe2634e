"""How an attempt's end is told."""

import signal

from ares.model.job import FailureClass
from ares.model.state import ExitInfo
from ares.ports.executor import Finished


def exit_info(finished: Finished, *, timed_out: bool, time_limit_s: float | None, notes: tuple[str, ...]) -> ExitInfo:
    failure, message = _judge(finished, timed_out, time_limit_s)
    return ExitInfo(
        code=finished.code,
        signal=None if finished.signal is None else signal_name(finished.signal),
        failure=failure,
        message="; ".join(text for text in (message, *notes) if text),
        max_rss_mib=finished.max_rss_mib,
        cpu_s=round(finished.cpu_s, 6),
    )


def not_started(message: str) -> ExitInfo:
    return ExitInfo(failure="staging", message=message)


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


def _judge(finished: Finished, timed_out: bool, time_limit_s: float | None) -> tuple[FailureClass | None, str]:
    if timed_out:
        return "time-limit", f"stopped at its time limit of {time_limit_s:g} s"
    if finished.code == 0:
        return None, "a process of it was killed for memory" if finished.oom else ""
    if finished.oom:
        return "oom", "killed for using more memory than it asked for"
    if finished.signal is not None:
        return "signal", ""
    return "exit", ""
