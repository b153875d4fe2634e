"""`ares cancel` and `ares retry`."""

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from ares.edge.cli.commands.jobs import ACTIVE, fetch
from ares.edge.cli.connect import connect, find_job, job_argument, jobs_argument
from ares.edge.cli.options import pairs_option
from ares.edge.cli.render.output import answer, output_option, print_objects
from ares.edge.cli.render.text import printable

if TYPE_CHECKING:
    from ares.edge.client.sync import Client


@click.command()
@jobs_argument(required=False)
@click.option("--all", "all_", is_flag=True, help="Every job that has not ended.")
@click.option(
    "--phase",
    "-p",
    "--state",
    multiple=True,
    type=click.Choice(ACTIVE, case_sensitive=False),
    help="Those in this state. May be repeated.",
)
@click.option("--name", help="Those with this name.")
@pairs_option("--label", help="Those with this label, as key=value. May be repeated.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask first.")
@click.option("--reason", default="", help="Kept in the job's ledger.")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def cancel(
    ctx: click.Context, jobs: tuple[str, ...], all_: bool, phase: tuple[str, ...], name: str | None,
    label: dict[str, str], yes: bool, reason: str, output: str,
) -> int:  # fmt: skip
    """Ends jobs for good. A running one gets SIGTERM, then SIGKILL after its grace time.

    \b
      ares cancel 7k2m 9xw0                       these two
      ares cancel --phase PENDING --name sweep    all that fit; asks first
      ares cancel --all --yes                     everything, without asking
    """
    chosen = all_ or bool(phase or name or label)
    if chosen == bool(jobs):
        raise click.UsageError("name jobs, or choose them by --all, --phase, --name or --label", ctx)
    client = connect(ctx)
    if jobs:
        return _cancel(client, [find_job(client, job) for job in jobs], reason, output)
    found = _chosen(client, phase or ACTIVE, name, label)
    if not found:
        click.echo("no jobs", err=True)
    elif not yes and not _confirmed(found, ctx):
        return 1
    return _cancel(client, [job for job, _ in found], reason, output)


def _cancel(client: "Client", ids: Iterable[str], reason: str, output: str) -> int:
    """Each by itself: one that cannot be cancelled does not save the others."""
    from ares.edge.cli.render.output import report
    from ares.edge.client.calls import calls
    from ares.edge.client.errors import Conflict, NotFound

    code, states = 0, list[Any]()
    for job_id in ids:
        try:
            state: Any = client.send(calls.cancel(job_id, reason).raw())
        except (Conflict, NotFound) as error:
            code = report(f"{job_id}: {error}", error.fix, 1)
            continue
        states.append(state)
        if output == "table":
            click.echo(f"{state['id']} ({printable(state['name'])}) {state['phase']}")
    print_objects(output, {"jobs": states}, lambda answer: [one["id"] for one in answer["jobs"]])
    return code


def _chosen(
    client: "Client", phases: Sequence[str], name: str | None, label: dict[str, str]
) -> list[tuple[str, dict[str, int]]]:
    """Ids and how many jobs of which phase each stands for: whole arrays where all that is left of them is meant."""
    from ares.edge.client.calls import calls

    def listed(array: str | None = None) -> dict[str, Any]:
        arrays = "tasks" if array else "whole"
        filters = calls.job_filters(
            phase=phases, name=name, label=label, array=array, node=None, sort="submitted", limit=0, arrays=arrays
        )
        return fetch(client, filters, 0)

    found: list[tuple[str, dict[str, int]]] = []
    page = listed()
    for state in page["jobs"]:
        counts = page["arrayCounts"].get(state["id"], {state["phase"]: 1})
        live = {phase: count for phase, count in counts.items() if phase in ACTIVE and count}
        if live.keys() <= set(phases):
            found.append((state["id"], live))
        else:
            found += [(task["id"], {task["phase"]: 1}) for task in listed(state["id"])["jobs"]]
    return found


def _confirmed(found: list[tuple[str, dict[str, int]]], ctx: click.Context) -> bool:
    from ares.edge.cli.render.job_cells import counts

    total: Counter[Any] = Counter()
    for _, phases in found:
        total.update(phases)
    number = total.total()
    question = f"cancel {number} job{'' if number == 1 else 's'} ({counts(total)})?"
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} nobody is here to answer; add --yes", ctx)
    return click.confirm(question, err=True)


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
    from ares.edge.client.http import new_request_id

    client = connect(ctx)
    old = find_job(client, job)
    state = answer(client, calls.retry(old, reason, request_id or new_request_id()), output, "id")
    if state is None:
        return
    kind = "submitted" if state.id != old else "retrying"
    click.echo(f"{kind} {state.id} ({printable(state.name)}){f', again after {old}' if state.id != old else ''}")
