"""`ares cancel`, `retry`, `hold`, `release`, `update` and `requeue`: what jobs that wait or run are told."""

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ares.edge.cli.commands.jobs import ACTIVE
from ares.edge.cli.connect import change_each, connect, find_job, job_argument, jobs_argument
from ares.edge.cli.job_flags import PriorityType
from ares.edge.cli.options import pairs_option, read_seconds
from ares.edge.cli.render.output import answer, output_option, print_objects, report
from ares.edge.cli.render.text import printable

if TYPE_CHECKING:
    from ares.api.updates import BulkAction, JobFilter, JobUpdate
    from ares.edge.client.calls.calls import Call
    from ares.edge.client.sync import Client


# ---- jobs by what they are


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


# ---- the commands


# Options that "none" empties.
_EMPTIED = ("time", "gpu_model", "deadline", "sla", "reservation", "throttle")
_CHANGES = ("priority", "cpus", "memory", "gpus", "gpu_share", "gpu_memory", *_EMPTIED)


@click.command()
@jobs_argument(required=False)
@click.option("--reason", default="", help="Kept in the job's ledger.")
@filter_options
@output_option("table", "json", "yaml", "name")
@click.pass_context
def cancel(ctx: click.Context, jobs: tuple[str, ...], reason: str, output: str, **flags: Any) -> int:
    """Ends jobs for good. A running one gets SIGTERM, then SIGKILL after its grace time.

    \b
      ares cancel 7k2m 9xw0                              these two
      ares cancel --phase PENDING --name sweep           all that fit; asks first
      ares cancel --user anna --label exp=7 --older 1h   the same filters as in `ares jobs`
      ares cancel --all --yes                            everything, without asking
    """
    from ares.edge.client.calls import calls

    return steer(ctx, "cancel", jobs, flags, output, reason, lambda job: calls.cancel(job, reason))


@click.command()
@job_argument()
@click.option("--reason", default="", help="Kept in the job's ledger.")
@click.option("--request-id", metavar="ID", help="Retrying again under the same id gives the same job.")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def retry(ctx: click.Context, job: str, reason: str, request_id: str | None, output: str) -> None:
    """Runs a job again now.

    A job that waits for its next try does not wait any longer. A finished job never changes: a new
    job is made from it, and its id is printed.
    """
    from ares.edge.client.calls import calls

    client = connect(ctx)
    old = find_job(client, job)
    state = answer(client, calls.retry(old, reason, request_id or calls.new_request_id()), output, "id")
    if state is None:
        return
    kind = "submitted" if state.id != old else "retrying"
    click.echo(f"{kind} {state.id} ({printable(state.name)}){f', again after {old}' if state.id != old else ''}")


@click.command()
@jobs_argument(required=False)
@click.option("--reason", default="", help="Kept in the job's ledger, and shown while it is held.")
@filter_options
@output_option("table", "json", "yaml", "name")
@click.pass_context
def hold(ctx: click.Context, jobs: tuple[str, ...], reason: str, output: str, **flags: Any) -> int:
    """Keeps jobs from being started until they are released.

    Only jobs that have not begun are held; of an array, such tasks. Cancel a running job instead.
    """
    from ares.edge.client.calls import calls

    return steer(ctx, "hold", jobs, flags, output, reason, lambda job: calls.hold(job, reason))


@click.command()
@jobs_argument(required=False)
@click.option("--reason", default="", help="Kept in the job's ledger.")
@filter_options
@output_option("table", "json", "yaml", "name")
@click.pass_context
def release(ctx: click.Context, jobs: tuple[str, ...], reason: str, output: str, **flags: Any) -> int:
    """Lets held jobs go on. Each is queued with the age it had, unless it waits for something else too."""
    from ares.edge.client.calls import calls

    return steer(ctx, "release", jobs, flags, output, reason, lambda job: calls.release(job, reason))


@click.command()
@jobs_argument(required=False)
@click.option("--priority", "priority", type=PriorityType(), help="By name or number, 0 to 4.")
@click.option("--time", metavar="TIME", help="Wall-time limit: 4h; none takes it away. Of a running job: less of it.")
@click.option("--cpus", metavar="N", help="CPUs: 2, 1.5 or 500m.")
@click.option("--memory", "--mem", metavar="SIZE", help="Memory: 512M, 4G.")
@click.option("--gpus", type=int, help="GPUs.")
@click.option("--gpu-model", metavar="NAME", help="Only this model; none for any.")
@click.option("--gpu-share", metavar="PART", help="A part of each GPU: 0.5 or 50%.")
@click.option("--gpu-memory", metavar="SIZE", help="GPUs with at least this much memory.")
@click.option("--deadline", metavar="TIME", help="Should have ended by then: 2h from now, 18:00; none takes it away.")
@click.option("--sla", metavar="CLASS", help="Class of service, see `ares sla`; none for none.")
@click.option("--reservation", metavar="NAME", help="In the room of this reservation; none for none.")
@click.option("--throttle", metavar="N", help="Of an array: so many tasks at once; none for any number.")
@click.option("--reason", default="", help="Kept in the job's ledger.")
@filter_options
@output_option("table", "json", "yaml", "name")
@click.pass_context
def update(ctx: click.Context, jobs: tuple[str, ...], reason: str, output: str, **flags: Any) -> int:
    """Changes what jobs ask for. Policies and quotas are asked again, as for a new job.

    Everything may be changed while a job waits. Of a running job only its priority, and its time limit: it may be
    lowered; operators may also raise it. Of an array, the tasks that still wait are changed.

    \b
      ares update 7k2m --memory 16G --time 8h
      ares update --name sweep --state PENDING --priority LOW
      ares update 7k2m --deadline none
    """
    from ares.edge.client.calls.steering import update as update_call
    from ares.edge.client.calls.steering import update_of

    given = {name: flags[name] for name in _CHANGES if flags[name] is not None}
    given |= {name: None for name in _EMPTIED if str(given.get(name, "")).lower() == "none"}
    chosen(ctx, jobs, flags)
    change = update_of(given, reason)
    return steer(ctx, "update", jobs, flags, output, reason, lambda job: update_call(job, change), change)


@click.command()
@jobs_argument(required=False)
@click.option("--reason", default="", help="Kept in the job's ledger.")
@filter_options
@output_option("table", "json", "yaml", "name")
@click.pass_context
def requeue(ctx: click.Context, jobs: tuple[str, ...], reason: str, output: str, **flags: Any) -> int:
    """Sends running jobs back to the queue.

    A job with a checkpoint signal gets it first, with its time to save; then SIGTERM, and SIGKILL after its
    grace time. It waits with its old place by time of submission, and no retry is used up.

    \b
      ares requeue 7k2m --reason "the node is slow"
      ares requeue --node gpu-07 --yes
    """
    from ares.edge.client.calls.steering import requeue as requeue_call

    return steer(ctx, "requeue", jobs, flags, output, reason, lambda job: requeue_call(job, reason))
