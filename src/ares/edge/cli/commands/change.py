"""`ares cancel` and `ares retry`."""

from typing import Any

import click

from ares.edge.cli.connect import change_each, connect, find_job, job_argument, jobs_argument
from ares.edge.cli.job_filter import chosen, filter_options, steer
from ares.edge.cli.render.output import answer, output_option
from ares.edge.cli.render.text import printable


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

    by_filter, client = chosen(ctx, jobs, flags), connect(ctx)
    if by_filter:
        return steer(ctx, client, "cancel", flags, output, reason)
    ids = [find_job(client, job) for job in jobs]
    return change_each(client, ids, lambda job: calls.cancel(job, reason), output)


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
