"""What every Ares process does around its event loop: logging without credentials, signals, a clean end."""

import asyncio
import contextlib
import ctypes
import gc
import os
import re
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final, TextIO, cast

import structlog

from ares.model.secret import SHOWN, Secret

Main = Callable[[asyncio.Event], Awaitable[int]]

# Set by a supervisor for its children: its process id.
SUPERVISOR = "ARES_SUPERVISOR_PID"
_PR_SET_PDEATHSIG = 1


# Records are in no cycles: looking for such among hundreds of thousands as often as Python would costs a tenth. What is
# new is looked at a little at a time: everything waits for a look, and one at 100,000 objects takes 10 ms or more. What
# outlived its first look has its second after three more, not when two million have gathered: that took 150 ms.
_GC_THRESHOLDS = (10_000, 3, 5_000)
# By the numbers of malloc.h: free memory at the end of the heap that is kept, and asked for beyond need; and the size
# from which on a block is not of the heap. The columns of 10,000 nodes have 80 KB each.
_MALLOC = {-1: 16 << 20, -2: 4 << 20, -3: 4 << 20}
# The store's thread needs the interpreter's lock a dozen times for a commit, and waits so long for each while the event
# loop is busy.
_SWITCH_S = 0.001


def look_for_garbage_less_often() -> None:
    """What is loaded by now stays: it is not looked at again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


def keep_freed_memory() -> None:
    """For a process that computes with large arrays: memory of an array that is done serves the next one, instead of
    going back to the system and being asked for again, page by page. Where the C library knows how."""
    tune = getattr(ctypes.CDLL(None), "mallopt", None)
    if tune is not None:
        for setting, size in _MALLOC.items():
            tune(setting, size)


def change_threads_often() -> None:
    """For a process whose event loop waits for what its other threads do."""
    sys.setswitchinterval(_SWITCH_S)


class _Unfailing:
    """Standard error may be a file on a full disk, or closed: what cannot be said is dropped, and work goes on."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError):
            return self._file.write(text)
        return 0

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._file.flush()


def configure_logging() -> None:
    """Logs go to standard error: readable on a terminal, JSON lines otherwise."""
    people = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    renderer = people if sys.stderr.isatty() else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            redact,
            renderer,
        ],
        logger_factory=structlog.PrintLoggerFactory(cast("TextIO", _Unfailing(sys.stderr))),
        cache_logger_on_first_use=True,
    )


def run(main: Main) -> int:
    """Runs `main` on uvloop until it returns; SIGINT and SIGTERM set the event it is given."""
    import uvloop

    configure_logging()
    # No other user may read state, logs and tokens.
    os.umask(0o077)
    _end_with_supervisor()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_with_signals(main))


def _end_with_supervisor() -> None:
    """Ends this process with its supervisor: without one, `ares down` could not stop it."""
    supervisor = os.environ.get(SUPERVISOR)
    if supervisor is None:
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if str(os.getppid()) != supervisor:
        raise SystemExit("the supervisor is gone")


async def _with_signals(main: Main) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    return await main(stop)


# ---- credentials are kept out of logs: by type, by the name they go under, and by what they look like


_NAMES: Final = frozenset({"authorization", "proxy-authorization", "cookie", "set-cookie", "password", "passwd"})
_LOOKS: Final = (
    # Our own tokens: the id may stay, it is what people look for.
    (re.compile(r"\b(ares_[0-9a-z]+_)[A-Za-z0-9_-]{16,}"), rf"\1{SHOWN}"),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*"), SHOWN),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"), rf"\1 {SHOWN}"),
    (re.compile(r"(://)[^/\s:@]*:[^/\s@]+@"), rf"\1{SHOWN}@"),
    # Query strings hold signatures and tokens of others; none of ours means anything to a reader of logs.
    (re.compile(r"(\bhttps?://[^\s?\"']+\?)[^\s\"']+"), rf"\1{SHOWN}"),
)


def redact(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A structlog processor, the last before rendering."""
    for name in event:
        event[name] = SHOWN if name.lower() in _NAMES else _redacted(event[name])
    return event


def _redacted(value: Any) -> Any:
    match value:
        case Secret():
            return SHOWN
        case str():
            return _text(value)
        case bytes():
            return _text(value.decode(errors="replace"))
        case Mapping():
            pairs = cast("Mapping[Any, Any]", value).items()
            return {name: SHOWN if str(name).lower() in _NAMES else _redacted(inner) for name, inner in pairs}
        case list() | tuple():
            return [_redacted(inner) for inner in cast("tuple[Any, ...]", value)]
        case _:
            return value


def _text(text: str) -> str:
    for look, instead in _LOOKS:
        text = look.sub(instead, text)
    return text
