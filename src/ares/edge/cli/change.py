"""`ares cancel` and `ares retry`."""

import click

from ares.edge.cli.connect import connect, find_job, job_argument, jobs_argument
from ares.edge.cli.text import printable


@click.command()
@jobs_argument()
@click.option("--reason", default="", help="Kept in the job's ledger.")
@click.pass_context
def cancel(ctx: click.Context, jobs: tuple[str, ...], reason: str) -> None:
    """Ends jobs for good. A running one gets SIGTERM, then SIGKILL after its grace time."""
    client = connect(ctx)
    for job_id in [find_job(client, job) for job in jobs]:
        state = client.cancel(job_id, reason)
        click.echo(f"{state.id} ({printable(state.name)}) {state.phase}")


@click.command()
@job_argument()
@click.option("--reason", default="", help="Kept in the job's ledger.")
@click.pass_context
def retry(ctx: click.Context, job: str, reason: str) -> None:
    """Runs a job again now.

    A job that waits for its next try does not wait any longer. A finished job never changes: a new
    job is made from it, and its id is printed.
    """
    client = connect(ctx)
    old = find_job(client, job)
    state = client.retry(old, reason)
    kind = "submitted" if state.id != old else "retrying"
    click.echo(f"{kind} {state.id} ({printable(state.name)}){f', again after {old}' if state.id != old else ''}")
