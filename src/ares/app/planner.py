"""The planning process: answers what its parent asks on standard input, and ends with it.

`python -m ares.app.planner`; started by `ares server`, never by hand.
"""

import ctypes
import mmap
import os
import signal
import sys
import time
from typing import BinaryIO

from ares.adapters.planning.process import BOARD, BOARD_BYTES, HEAD, PARENT
from ares.app import plugins
from ares.app.processes import configure_logging, keep_freed_memory, look_for_garbage_less_often
from ares.control.planner.messages import PluginFailure
from ares.control.planner.mirror import Mirror
from ares.ports.planning import Handler

_PR_SET_PDEATHSIG = 1
# The server process comes first where CPUs are short.
_NICE = 5
_ERROR_MAX = 500


class _Board(plugins.Watch):
    """A page that the server reads: which plugin this process is in. And what plugins did wrong since it was asked."""

    def __init__(self, fd: int) -> None:
        self._page = mmap.mmap(fd, BOARD_BYTES)
        self._failures: dict[str, str] = {}

    def enter(self, plugin: str) -> None:
        text = plugin.encode() + b"\0"
        self._page[: len(text)] = text

    def leave(self) -> None:
        self._page[0] = 0

    def failed(self, plugin: str, error: str) -> None:
        self._failures.setdefault(plugin, error[:_ERROR_MAX])

    def failures(self) -> tuple[PluginFailure, ...]:
        told = tuple(PluginFailure(plugin, error) for plugin, error in self._failures.items())
        self._failures.clear()
        return told


def main() -> int:
    answers = begin(_NICE)
    board = _Board(int(os.environ[BOARD]))
    loaded = plugins.load(board)
    foreign = frozenset(name for kind, name in loaded.origins if kind == "filter")
    mirror = Mirror(time.monotonic, board.failures, foreign)
    look_for_garbage_less_often()
    keep_freed_memory()
    return serve(answers, mirror.handle)


def begin(niceness: int) -> BinaryIO:
    """The beginning of a process that answers its parent: it ends with that, and comes after it where CPUs are short.
    Gives where answers go."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if str(os.getppid()) != os.environ.get(PARENT):
        raise SystemExit("the server that this process works for is gone")
    # The server is told to stop, and tells us: a terminal's interrupt goes to all of its processes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(niceness)
    # What a plugin prints must not be taken for an answer.
    answers = os.fdopen(os.dup(1), "wb", buffering=1 << 20)
    os.dup2(2, 1)
    configure_logging()
    return answers


def serve(answers: BinaryIO, handle: Handler) -> int:
    """Says that it is there, then answers until there are no more questions."""
    questions = sys.stdin.buffer
    _say(answers, 0, b"")
    while len(head := questions.read(HEAD.size)) == HEAD.size:
        length, number = HEAD.unpack(head)
        _say(answers, number, handle(questions.read(length)))
    return 0


def _say(answers: BinaryIO, number: int, frame: bytes) -> None:
    answers.write(HEAD.pack(len(frame), number))
    answers.write(frame)
    answers.flush()


if __name__ == "__main__":
    raise SystemExit(main())
