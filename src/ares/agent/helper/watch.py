"""Starts one process of a job for a launcher, tells the helper how it ended, and ends likewise.

A launcher notices a death late, and ends with a code of its own. The helper hears of it at once. Little is imported:
each process of a job waits for that.
"""

import contextlib
import os
import signal
import sys

from ares.agent.helper.frameworks import by_mpi, found, variables

_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_ALL = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})


def main() -> None:
    ends, command = os.environ["ARES_HELPER_ENDS"], sys.argv[1:]
    nodes, address, port = os.environ["ARES_MEETING"].split(" ")
    place = found(dict(os.environ), int(nodes), address, int(port))
    env = {**os.environ, **variables(place)}
    started = 0

    def forward(number: int, _: object) -> None:
        if started:
            with contextlib.suppress(ProcessLookupError):
                os.kill(started, number)

    for number in _FORWARDED:
        signal.signal(number, forward)
    if by_mpi(env):
        _own_output(os.environ["ARES_HELPER_OUTPUT"])
    who = {"rank": place.rank, "local": place.local_rank, "start": int(os.environ["ARES_HELPER_START"])}
    try:
        started = os.posix_spawnp(command[0], command, env, setsigmask=(), setsigdef=_ALL)
    except OSError as error:
        _tell(ends, {**who, "code": 127, "message": f"cannot run {command[0]}: {error.strerror}"})
        sys.exit(127)
    _end_like(_watched(started, ends, who))


def _own_output(files: str) -> None:
    """Output goes to the log of the rank it comes from. Through daemons it would all be in the first rank's,
    and the last words of a process that failed would be lost with them."""
    for number in (1, 2):
        with contextlib.suppress(OSError):
            os.dup2(os.open(f"{files}/{number}", os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC), number)


def _watched(pid: int, ends: str, who: "dict[str, int]") -> int:
    """The wait status of its end."""
    while True:
        _, status = os.waitpid(pid, os.WUNTRACED | os.WCONTINUED)
        if os.WIFSTOPPED(status) or os.WIFCONTINUED(status):
            _tell(ends, {**who, "stopped": os.WIFSTOPPED(status)})
            continue
        code = os.waitstatus_to_exitcode(status)
        if code:
            _tell(ends, {**who, "code": code} if code > 0 else {**who, "signal": -code})
        return status


def _tell(ends: str, said: "dict[str, object]") -> None:
    """A line that is written whole. Where the helper is gone, the slot ends anyway."""
    # Most processes have nothing to tell.
    import json

    with contextlib.suppress(OSError):
        fd = os.open(ends, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.write(fd, json.dumps(said).encode()[:2000] + b"\n")
        os.close(fd)


def _end_like(status: int) -> None:
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)
