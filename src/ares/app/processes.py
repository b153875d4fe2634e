"""What every Ares process does around its event loop: logging, signals, a clean end."""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable

import structlog

Main = Callable[[asyncio.Event], Awaitable[int]]


def configure_logging() -> None:
    """Logs go to standard error: readable on a terminal, JSON lines otherwise."""
    terminal = sys.stderr.isatty()
    renderer = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback) if terminal else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def run(main: Main) -> int:
    """Runs `main` on uvloop until it returns; SIGINT and SIGTERM set the event it is given."""
    import uvloop

    configure_logging()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_with_signals(main))


async def _with_signals(main: Main) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    return await main(stop)

