"""`ares logs`."""

import sys
from collections.abc import Iterable

import click

from ares.edge.cli.connect import connect, find_job, job_argument


@click.command()
@job_argument()
@click.option("--follow", "-f", is_flag=True, help="Go on until the job has ended, through all its attempts.")
@click.option("--tail", "-n", type=click.IntRange(min=0), metavar="LINES", help="Only the last lines.")
@click.option("--attempt", type=click.IntRange(min=1), help="Of this attempt instead of the latest.")
@click.option(
    "--rank", type=click.IntRange(min=0), default=0, show_default=True, help="Of this process of a parallel job."
)
@click.pass_context
def logs(ctx: click.Context, job: str, follow: bool, tail: int | None, attempt: int | None, rank: int) -> None:
    """Prints what a job wrote to its stdout and stderr.

    Bytes are passed on as they are when piped. On a terminal, colours are kept and all other
    control sequences are dropped.
    """
    client = connect(ctx)
    copy_log(client.logs(find_job(client, job), follow=follow, tail=tail, attempt=attempt, rank=rank))


def copy_log(chunks: Iterable[bytes]) -> None:
    """Writes output as it comes."""
    out = sys.stdout
    if not out.isatty():
        for chunk in chunks:
            out.buffer.write(chunk)
            out.buffer.flush()
        return
    from ares.edge.cli.terminal import TerminalFilter

    clean = TerminalFilter()
    try:
        for chunk in chunks:
            out.write(clean.feed(chunk))
            out.flush()
    finally:
        out.write(clean.end())
        out.flush()
