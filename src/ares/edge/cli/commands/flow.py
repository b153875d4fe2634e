"""`ares flow`: workflows as a whole."""

from typing import TYPE_CHECKING, Any

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.render.output import answer, output_option
from ares.edge.cli.render.text import printable

if TYPE_CHECKING:
    from ares.api.flows import FlowCreated, FlowDetail


@click.group()
def flow() -> None:
    """Shows, cancels and repeats workflows."""


@flow.command("show")
@click.argument("flow_id", metavar="FLOW")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def show_flow(ctx: click.Context, flow_id: str, output: str) -> None:
    """Draws a workflow: each job below the one it waits for."""
    from ares.edge.client.calls import flows

    found = answer(connect(ctx), flows.flow(flow_id), output, _ids)
    if found is not None:
        _print(found)


@flow.command("cancel")
@click.argument("flow_id", metavar="FLOW")
@click.option("--reason", default="", help="Kept in the jobs' ledgers.")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def cancel_flow(ctx: click.Context, flow_id: str, reason: str, output: str) -> None:
    """Cancels all jobs of a workflow. Jobs with `finally` run all the same."""
    from ares.edge.client.calls import flows

    found = answer(connect(ctx), flows.cancel_flow(flow_id, reason), output, _ids)
    if found is not None:
        click.echo(f"{found.id} ({printable(found.name)}): {_counts(found)}")


@flow.command("retry")
@click.argument("flow_id", metavar="FLOW")
@click.option("--from", "first", multiple=True, metavar="NAME", help="This job and all after it. May be repeated.")
@click.option("--request-id", metavar="ID", help="Retrying again under the same id gives the same workflow.")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def retry_flow(ctx: click.Context, flow_id: str, first: tuple[str, ...], request_id: str | None, output: str) -> None:
    """Runs a part of a workflow again, as a new one.

    Without --from: all jobs that did not succeed, and those after them. What succeeded before counts as it did.
    """
    from ares.edge.client.calls import flows
    from ares.edge.client.calls.calls import new_request_id

    call = flows.retry_flow(flow_id, first, request_id or new_request_id())
    made = answer(connect(ctx), call, output, "id")
    if made is not None:
        click.echo(f"{sentence(made)}, again after {flow_id}")


def sentence(made: "FlowCreated") -> str:
    tasks = f" with {made.tasks} tasks" if made.tasks != made.jobs else ""
    if made.replayed:
        return f"already submitted as workflow {made.id} ({printable(made.name)}): this request id was used before"
    return f"submitted workflow {made.id} ({printable(made.name)}): {made.jobs} jobs{tasks}"


def _ids(found: Any) -> list[str]:
    return [job["id"] for job in found["jobs"]]


def _counts(found: "FlowDetail") -> str:
    from ares.edge.cli.render.job_cells import counts

    return counts(found.counts)


def _print(found: "FlowDetail") -> None:
    from ares.edge.cli.render.flow_graph import drawing

    click.echo(f"{printable(found.name)}  {found.id}  {_counts(found)}")
    if not found.whole:
        click.echo("it was not accepted whole: its submission broke off or goes on")
    for line in drawing(found):
        click.echo(line)
