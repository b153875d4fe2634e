"""Within a server under measurement: how long its event loop's ticks take, by the clock and by its own processor time.

Loaded at the start of the process through `sitecustomize`, as a profiler is; the product knows nothing of it. A tick
that lasts is written to a file as a line of JSON, with what the loop was at when a second thread looked. Where the
wall time of a tick is far above its processor time, the machine gave the processor to others.
"""

import asyncio
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from types import FrameType
from typing import Any

# Names the file.
FILE = "ARES_BENCH_TICKS"
_BEAT_S = 0.005
_LOOK_EVERY_S = 0.01
_LONG_S = 0.05
_FRAMES = 6
_TIMES_MAX = 3


class _Watchdog(threading.Thread):
    def __init__(self, loop: asyncio.AbstractEventLoop, file: Path) -> None:
        super().__init__(name="watchdog", daemon=True)
        self._loop = loop
        self._file = file.open("a", buffering=1)
        self._serving = threading.get_ident()
        self._seen: Counter[str] = Counter()
        self._at, self._cpu = time.monotonic(), time.thread_time()

    def beat(self) -> None:
        """On the loop, as often as it gets to it."""
        at, cpu = time.monotonic(), time.thread_time()
        wall_s = at - self._at - _BEAT_S
        if wall_s > _LONG_S:
            seen = [f"{count}x {where}" for where, count in self._seen.most_common(_TIMES_MAX)]
            line = {"at": at, "wall_s": wall_s, "cpu_s": cpu - self._cpu, "seen": seen}
            self._file.write(json.dumps(line) + "\n")
        self._seen.clear()
        self._at, self._cpu = at, cpu
        self._loop.call_later(_BEAT_S, self.beat)

    def run(self) -> None:
        while True:
            time.sleep(_LOOK_EVERY_S)
            if time.monotonic() - self._at > _LONG_S:
                frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage] - the interpreter has no other
                self._seen[_where(frames.get(self._serving))] += 1


def _where(frame: FrameType | None) -> str:
    """The innermost frames, the last called first."""
    found: list[str] = []
    while frame is not None and len(found) < _FRAMES:
        code = frame.f_code
        found.append(f"{Path(code.co_filename).stem}.{code.co_name}:{frame.f_lineno}")
        frame = frame.f_back
    return " < ".join(found)


def install() -> None:
    """In a server; other programs that share its environment are left alone."""
    file = os.environ.get(FILE)
    if file is None or "server" not in sys.orig_argv:
        return
    plain = asyncio.Runner.run

    def watched(self: asyncio.Runner, coro: Coroutine[Any, Any, Any], **more: Any) -> Any:
        watchdog = _Watchdog(self.get_loop(), Path(file))
        self.get_loop().call_soon(watchdog.beat)
        watchdog.start()
        return plain(self, coro, **more)

    asyncio.Runner.run = watched


def install_into(site: Path) -> None:
    """A folder that a server has in its path: it watches itself then."""
    site.mkdir(parents=True, exist_ok=True)
    (site / "sitecustomize.py").write_text("from bench import watchdog\n\nwatchdog.install()\n")


def environment(site: Path, file: Path) -> dict[str, str]:
    """For a server that watches itself and writes to the file."""
    return {"PYTHONPATH": f"{site}{os.pathsep}{Path(__file__).parent.parent}", FILE: str(file)}
