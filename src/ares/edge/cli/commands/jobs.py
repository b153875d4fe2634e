"""`ares jobs`: the list, once or as it changes."""

import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import click

from ares.edge.cli.connect import connect, connect_briefly, find_job
from ares.edge.cli.options import pairs_option, read_moment
from ares.edge.cli.render.output import output_option, print_objects

if TYPE_CHECKING:
    from ares.edge.client.brief import Sender
    from ares.edge.client.calls.calls import Params


# ---- a view that is drawn anew


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


# ---- the list


ACTIVE = ("WAITING", "PENDING", "STAGING", "RUNNING", "RETRYING", "PREEMPTED")
PHASES = (*ACTIVE, "SUCCEEDED", "FAILED", "CANCELLED", "UNKNOWN", "SKIPPED")
PAGE_MAX = 1000


@click.command()
@click.option(
    "--phase",
    "-p",
    "--state",
    multiple=True,
    type=click.Choice(PHASES, case_sensitive=False),
    help="In this state. May be repeated.",
)
@click.option("--active", "-a", is_flag=True, help="Not finished yet.")
@click.option("--name", help="With this name.")
@pairs_option("--label", help="With this label, as key=value. May be repeated.")
@click.option("--user", "-u", metavar="NAME", help="Submitted by this user; BY of `-o wide`.")
@click.option("--me", is_flag=True, help="Submitted by you.")
@click.option(
    "--since", metavar="TIME", callback=read_moment, help="Submitted since: 2h (ago), today, 18:00, 2026-12-01."
)
@click.option("--until", metavar="TIME", callback=read_moment, help="Submitted before.")
@click.option("--array", metavar="JOB", help="Tasks of this array.")
@click.option("--tasks", is_flag=True, help="Every task of an array on a line of its own.")
@click.option("--node", help="On this machine.")
@click.option("--oldest", is_flag=True, help="Oldest first instead of newest.")
@click.option(
    "--limit",
    "-l",
    type=click.IntRange(min=0),
    metavar="N",
    default=50,
    show_default=True,
    help="At most so many; 0 for all.",
)
@click.option("--watch", "-w", is_flag=True, help="Show it anew whenever a job changes, until Ctrl-C.")
@output_option()
@click.pass_context
def jobs(
    ctx: click.Context, phase: tuple[str, ...], active: bool, name: str | None, label: dict[str, str],
    user: str | None, me: bool, since: float | None, until: float | None, array: str | None, tasks: bool,
    node: str | None, oldest: bool, limit: int, watch: bool, output: str,
) -> None:  # fmt: skip
    """Lists jobs, newest first. An array is one line; --tasks and --array list its tasks.

    REASON says what a pending job waits for, or how a job failed. STATE is one of WAITING, PENDING,
    STAGING, RUNNING, RETRYING, PREEMPTED, SUCCEEDED, FAILED, CANCELLED, UNKNOWN and SKIPPED. On a terminal the
    list fits its width: the reason stays, other columns give way, and long names are cut in the middle.
    """
    from ares.edge.client.calls import calls

    client = connect_briefly(ctx)
    filters = calls.job_filters(
        phase=(*phase, *(ACTIVE if active else ())), name=name, label=label,
        array=find_job(client, array) if array else None, node=node, user=_own_name(client) if me else user,
        since=since, until=until, sort="submitted" if oldest else "-submitted", limit=PAGE_MAX,
        arrays="tasks" if tasks or array else "whole",
    )  # fmt: skip

    def draw() -> None:
        found = fetch(client, filters, limit)
        if not print_objects(output, found, lambda page: [state["id"] for state in page["jobs"]]):
            show_table(found, wide=output == "wide")

    if watch:
        redraw(ctx, draw)
    else:
        draw()


def _own_name(client: "Sender") -> str:
    """As BY shows it."""
    from ares.edge.client.calls import identity

    who = client.send(identity.whoami())
    own = who.user or who.token_id
    return f"{who.home}:{own}" if who.home and who.home != who.tenant else own


def fetch(client: "Sender", filters: "Params", limit: int) -> dict[str, Any]:
    """Pages of the API joined into one of the same shape."""
    from ares.edge.client.calls import calls

    joined: dict[str, Any] = {"jobs": [], "cursor": ""}
    while True:
        size = min(PAGE_MAX, limit - len(joined["jobs"])) if limit else PAGE_MAX
        page = client.send(calls.jobs({**filters, "limit": size, "cursor": joined["cursor"]}).raw())
        for key, value in page.items():
            joined[key] = _join(joined.get(key), value)
        if not joined["cursor"] or (limit and len(joined["jobs"]) >= limit):
            return joined


def _join(known: Any, more: Any) -> Any:
    if isinstance(known, list):
        return [*cast("list[Any]", known), *more]
    return {**cast("dict[str, Any]", known), **more} if isinstance(known, dict) else more


def show_table(found: dict[str, Any], *, wide: bool) -> None:
    import msgspec

    from ares.api.jobs import JobPage
    from ares.edge.cli.render.job_cells import JOB_GIVE_WAY, JOB_HEADER, JOB_HEADER_WIDE, job_row
    from ares.edge.cli.render.table import print_table

    page = msgspec.convert(found, JobPage)
    now = time.time()
    rows = (
        job_row(
            s,
            now,
            wide=wide,
            waiting=page.waiting.get(s.id),
            tasks=page.array_counts.get(s.id),
            at_risk=s.id in page.at_risk,
            mock=s.id in page.mock_gpus,
        )
        for s in page.jobs
    )
    print_table(JOB_HEADER_WIDE if wide else JOB_HEADER, rows, of="jobs", give_way=JOB_GIVE_WAY)
    if page.cursor:
        click.echo(f"... more than these {len(page.jobs)} (use --limit, or a filter)", err=True)
