"""Looks of a replica at its own state, again and again: what goes wrong in one of them ends nothing else."""

from collections.abc import Awaitable, Callable

import structlog

from ares.ports.telemetry import Telemetry

log = structlog.get_logger()


async def guarded(name: str, look: Callable[[], Awaitable[None]], telemetry: Telemetry) -> None:
    """One look. Numbers for graphs are not worth a server: a look that fails is logged and counted, and the next is
    taken as if nothing had been."""
    try:
        await look()
    except Exception as error:
        telemetry.count("ares_look_failures_total", 1, name)
        log.warning("look.failed", look=name, error=f"{type(error).__name__}: {error}", exc_info=True)
