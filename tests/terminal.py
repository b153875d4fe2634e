"""A command line in a terminal of its own, driven as a person would: keys go in, and what is shown is waited for."""

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from tests.platform import READY_S, environment


class Terminal:
    """Runs `ares` with the given arguments."""

    def __init__(
        self,
        arguments: Sequence[str],
        home: Path,
        *,
        rows: int = 30,
        cols: int = 100,
        url: str = "",
        env: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._master, slave = pty.openpty()
        self.resize(rows, cols)
        around = {**environment(home), "TERM": "xterm", **({"ARES_URL": url} if url else {}), **env}
        for name in ("LINES", "COLUMNS"):
            around.pop(name, None)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ares", *arguments], env=around, stdin=slave, stdout=slave, stderr=slave,
            start_new_session=True,
        )  # fmt: skip
        os.close(slave)
        self.shown = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()
        os.close(self._master)

    def resize(self, rows: int, cols: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def signal_size(self) -> None:
        """As a terminal program tells the program in its foreground."""
        self.process.send_signal(signal.SIGWINCH)

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def until(self, text: str, timeout_s: float = READY_S) -> str:
        """Waits until the text is shown, and returns everything up to it; the rest is left for the next look."""
        deadline = time.monotonic() + timeout_s
        while text not in self.shown:
            assert time.monotonic() < deadline, f"{text!r} was not shown within {timeout_s:g} s: {self.shown!r}"
            assert self._read(), f"the program ended before it showed {text!r}: {self.shown!r}"
        before, _, self.shown = self.shown.partition(text)
        return before

    def end(self, timeout_s: float = READY_S) -> int:
        """The exit code; what is shown meanwhile is kept."""
        deadline = time.monotonic() + timeout_s
        while self._read() and time.monotonic() < deadline:
            pass
        return self.process.wait(max(0.1, deadline - time.monotonic()))

    def _read(self) -> bool:
        ready, _, _ = select.select([self._master], [], [], 0.1)
        if not ready:
            return True
        try:
            data = os.read(self._master, 65536)
        except OSError:
            return False
        self.shown += data.decode(errors="replace")
        return bool(data)
