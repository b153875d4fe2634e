"""The planning process: answers what its parent asks on standard input, and ends with it.

`python -m ares.app.planning`; started by `ares server`, never by hand.
"""

import ctypes
import os
import signal
import sys
import time
from typing import BinaryIO

from ares.adapters.planning.process import HEAD, PARENT
from ares.app import plugins
from ares.app.processes import configure_logging, look_for_garbage_less_often
from ares.services.planning.mirror import Mirror

_PR_SET_PDEATHSIG = 1
# Whoever serves comes first where processors are short.
_NICE = 5


def main() -> int:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if str(os.getppid()) != os.environ.get(PARENT):
        raise SystemExit("the server that this process plans for is gone")
    # The server is told to stop, and tells us: a terminal's interrupt goes to all of its processes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICE)
    # What a plugin prints must not be taken for an answer.
    answers = os.fdopen(os.dup(1), "wb", buffering=1 << 20)
    os.dup2(2, 1)
    configure_logging()
    plugins.load()
    mirror = Mirror(time.monotonic)
    look_for_garbage_less_often()
    _say(answers, 0, b"")
    return _serve(sys.stdin.buffer, answers, mirror)


def _serve(questions: BinaryIO, answers: BinaryIO, mirror: Mirror) -> int:
    while len(head := questions.read(HEAD.size)) == HEAD.size:
        length, number = HEAD.unpack(head)
        _say(answers, number, mirror.handle(questions.read(length)))
    return 0


def _say(answers: BinaryIO, number: int, frame: bytes) -> None:
    answers.write(HEAD.pack(len(frame), number))
    answers.write(frame)
    answers.flush()


if __name__ == "__main__":
    raise SystemExit(main())
