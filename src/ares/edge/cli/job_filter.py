"""Jobs by what they are instead of by name: the options, how many fit, and the question before they are steered."""

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ares.edge.cli.commands.jobs import ACTIVE
from ares.edge.cli.connect import change_each, connect, find_job
from ares.edge.cli.options import pairs_option, read_seconds
from ares.edge.cli.render.output import print_objects, report

if TYPE_CHECKING:
    from ares.api.updates import BulkAction, JobFilter, JobUpdate
    from ares.edge.client.calls.calls import Call
    from ares.edge.client.sync import Client

F = TypeVar("F", bound=Callable[..., Any])
_NAMES = ("phase", "name", "label", "user", "array", "node", "older", "newer")
_DONE = {
    "cancel": "cancelled", "requeue": "sent back to the queue", "update": "changed", "hold": "held",
    "release": "released",
}  # fmt: skip

_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option("--all", "all_", is_flag=True, help="Every job that has not ended."),
    click.option(
        "--phase",
        "-p",
        "--state",
        multiple=True,
        type=click.Choice(ACTIVE, case_sensitive=False),
        help="Those in this state. May be repeated.",
    ),
    click.option("--name", help="Those with this name."),
    pairs_option("--label", help="Those with this label, as key=value. May be repeated."),
    click.option("--user", "-u", metavar="NAME", help="Those of this user."),
    click.option("--array", metavar="JOB", help="Tasks of this array."),
    click.option("--node", help="Those on this machine."),
    click.option("--older", metavar="TIME", callback=read_seconds, help="Submitted longer ago than this: 1h."),
    click.option("--newer", metavar="TIME", callback=read_seconds, help="Submitted within this time: 30m."),
    click.option("--yes", "-y", is_flag=True, help="Do not ask first."),
)


def filter_options(command: F) -> F:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def chosen(ctx: click.Context, jobs: tuple[str, ...], flags: dict[str, Any]) -> bool:
    """Whether jobs are chosen by what they are; both ways, or none, is a mistake."""
    by_filter = flags["all_"] or any(flags[name] not in (None, (), {}) for name in _NAMES)
    if by_filter == bool(jobs):
        words = "name jobs, or choose them by --all, --phase, --name, --label, --user, --array, --node or --older"
        raise click.UsageError(words, ctx)
    return by_filter


def steer(
    ctx: click.Context, action: "BulkAction", jobs: tuple[str, ...], flags: dict[str, Any], output: str, reason: str,
    call_of: "Callable[[str], Call[Any]]", change: "JobUpdate | None" = None,
) -> int:  # fmt: skip
    """The named jobs one by one, by `call_of`; or all that fit, by `action` and what it changes."""
    by_filter, client = chosen(ctx, jobs, flags), connect(ctx)
    if by_filter:
        return _steer_all(ctx, client, action, flags, output, reason, change)
    return change_each(client, [find_job(client, job) for job in jobs], call_of, output)


def _steer_all(
    ctx: click.Context, client: "Client", action: "BulkAction", flags: dict[str, Any], output: str, reason: str,
    change: "JobUpdate | None",
) -> int:  # fmt: skip
    """Counts the jobs that fit, asks, and does it page by page. 0 when all were steered, 1 when some were not."""
    which = _filter(client, flags)
    counted = _pages(client, action, which, dry_run=True, reason=reason, change=change)
    if counted["matched"] and not flags["yes"] and not _confirmed(ctx, action, counted):
        return 1
    done = counted if not counted["matched"] else _pages(client, action, which, reason=reason, change=change)
    for no in done["refusals"]:
        report(f"{no['job']}: {no['message']}", no["fix"], 1)
    if not print_objects(output, done, lambda _: []):
        click.echo(_words(action, done), err=not done["changed"])
    return 1 if done["refused"] else 0


def _filter(client: "Client", flags: dict[str, Any]) -> "JobFilter":
    from ares.edge.client.calls.steering import filter_of

    now = time.time()
    return filter_of({
        "phase": tuple(phase.upper() for phase in flags["phase"]), "name": flags["name"], "label": flags["label"],
        "user": flags["user"], "array": find_job(client, flags["array"]) if flags["array"] else None,
        "node": flags["node"], "until": None if flags["older"] is None else now - flags["older"],
        "since": None if flags["newer"] is None else now - flags["newer"],
    })  # fmt: skip


def _pages(client: "Client", action: "BulkAction", which: "JobFilter", **how: Any) -> dict[str, Any]:
    """The answers of all pages as one of the same shape."""
    from ares.edge.client.calls.steering import bulk

    total: dict[str, Any] = {"action": action, "matched": 0, "changed": 0, "refused": 0, "phases": {}, "refusals": []}
    cursor = ""
    while True:
        page = client.send(bulk(action, which, cursor=cursor, **how).raw())
        for key in ("matched", "changed", "refused"):
            total[key] += page[key]
        for phase, count in page["phases"].items():
            total["phases"][phase] = total["phases"].get(phase, 0) + count
        total["refusals"] = [*total["refusals"], *page["refusals"]][:20]
        if not (cursor := page["cursor"]):
            return total


def _confirmed(ctx: click.Context, action: str, counted: dict[str, Any]) -> bool:
    from ares.edge.cli.render.job_cells import counts

    number = counted["matched"]
    question = f"{action} {number} job{'' if number == 1 else 's'} ({counts(counted['phases'])})?"
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} nobody is here to answer; add --yes", ctx)
    return click.confirm(question, err=True)


def _words(action: str, done: dict[str, Any]) -> str:
    if not done["matched"]:
        return "no jobs"
    number, refused = done["changed"], done["refused"]
    left = f", {refused} left as they were" if refused else ""
    return f"{number} job{'' if number == 1 else 's'} {_DONE[action]}{left}"
