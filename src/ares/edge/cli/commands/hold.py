"""`ares hold` and `ares release`."""

from typing import Any

import click

from ares.edge.cli.connect import change_each, connect, find_job, jobs_argument
from ares.edge.cli.job_filter import chosen, filter_options, steer
from ares.edge.cli.render.output import output_option


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

    by_filter, client = chosen(ctx, jobs, flags), connect(ctx)
    if by_filter:
        return steer(ctx, client, "hold", flags, output, reason)
    ids = [find_job(client, job) for job in jobs]
    return change_each(client, ids, lambda job: calls.hold(job, reason), output)


@click.command()
@jobs_argument(required=False)
@click.option("--reason", default="", help="Kept in the job's ledger.")
@filter_options
@output_option("table", "json", "yaml", "name")
@click.pass_context
def release(ctx: click.Context, jobs: tuple[str, ...], reason: str, output: str, **flags: Any) -> int:
    """Lets held jobs go on. Each is queued with the age it had, unless it waits for something else too."""
    from ares.edge.client.calls import calls

    by_filter, client = chosen(ctx, jobs, flags), connect(ctx)
    if by_filter:
        return steer(ctx, client, "release", flags, output, reason)
    ids = [find_job(client, job) for job in jobs]
    return change_each(client, ids, lambda job: calls.release(job, reason), output)
