"""A view that is drawn anew when jobs change. The server tells of changes; it is not asked again and again."""

import sys
import threading
import time
from collections.abc import Callable

import click

from ares.edge.cli.connect import connect

# At most one drawing within this, however much happens.
EVERY_S = 1.0
# Ages grow also when nothing happens; so does it when events cannot be had.
_QUIET_S = 30.0
_BLIND_S = 5.0
_CLEAR = "\x1b[H\x1b[2J\x1b[3J"


def redraw(ctx: click.Context, draw: Callable[[], None]) -> None:
    """Draws, waits for an event of the tenant's jobs, and draws again until Ctrl-C."""
    from ares.edge.client.errors import Unavailable, Unreachable

    changes, drawn = _Changes(ctx), 0.0
    while True:
        if sys.stdout.isatty():
            click.echo(_CLEAR, nl=False)
        try:
            draw()
        except (Unreachable, Unavailable) as error:
            if not drawn:
                raise
            # It was there a moment ago: a restart takes seconds.
            click.echo(f"note: {error}; trying again", err=True)
            time.sleep(_BLIND_S)
        sys.stdout.flush()
        drawn = time.monotonic()
        changes.wait()
        time.sleep(max(0.0, EVERY_S - (time.monotonic() - drawn)))
        if not sys.stdout.isatty():
            click.echo(f"-- {time.strftime('%H:%M:%S')} --")


class _Changes:
    """Follows the tenant's events by a connection of its own, in a thread that ends with the command."""

    def __init__(self, ctx: click.Context) -> None:
        self._client = connect(ctx)
        self._seen = threading.Event()
        self._following = True
        threading.Thread(target=self._follow, name="events", daemon=True).start()

    def wait(self) -> None:
        self._seen.wait(_QUIET_S if self._following else _BLIND_S)
        self._seen.clear()

    def _follow(self) -> None:
        from ares.edge.client.errors import AresError

        try:
            for _ in self._client.events():
                self._seen.set()
        except (AresError, OSError, RuntimeError) as error:
            # A role without events, or too many streams: the view is still drawn now and then.
            self._following = False
            click.echo(f"note: events cannot be followed ({error}); looking every {_BLIND_S:g} s", err=True)
            self._seen.set()
