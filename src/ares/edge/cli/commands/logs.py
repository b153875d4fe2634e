"""`ares logs`."""

import sys
from typing import TYPE_CHECKING, Any

import click

from ares.edge.cli.connect import connect, find_job, job_argument, of_one_job

if TYPE_CHECKING:
    from ares.edge.client.sync import Client


@click.command()
@job_argument()
@click.option("--follow", "-f", is_flag=True, help="Go on until the job has ended, through all its attempts.")
@click.option("--tail", "-n", type=click.IntRange(min=0), metavar="LINES", help="Only the last lines.")
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="Of this attempt instead of the latest.")
@click.option(
    "--rank",
    type=click.IntRange(min=0),
    metavar="N",
    default=0,
    show_default=True,
    help="Of this process of a parallel job.",
)
@click.pass_context
def logs(ctx: click.Context, job: str, follow: bool, tail: int | None, attempt: int | None, rank: int) -> None:
    """Prints what a job wrote to its stdout and stderr.

    Bytes are passed on as they are when piped. On a terminal, colours are kept and all other
    control sequences are dropped. Between attempts -f writes a line to stderr.
    """
    client = connect(ctx)
    job_id = find_job(client, job)
    with of_one_job(client, job_id, "output"):
        copy_log(client, job_id, follow=follow, tail=tail, attempt=attempt, rank=rank)


def copy_log(client: "Client", job_id: str, **what: Any) -> None:
    """Writes output as it comes, with a line on stderr ahead of each further attempt."""
    out = _Terminal() if sys.stdout.isatty() else _Pipe()

    def separate(attempt: int) -> None:
        # Where the other end is a person, the line must not hang on to half a line of output.
        start = "\n" if out.mid_line and sys.stdout.isatty() else ""
        click.echo(f"{start}-- attempt {attempt}{_node_of(client, job_id, attempt)} --", err=True)

    try:
        for chunk in client.logs(job_id, on_attempt=separate, **what):
            out.write(chunk)
    finally:
        out.end()


def _node_of(client: "Client", job_id: str, attempt: int) -> str:
    """From the ledger: the job itself may be further by now."""
    from ares.edge.cli.render.text import printable

    events = client.job_events(job_id)
    node = next((e.data.get("node") for e in events if e.kind == "bound" and e.attempt == attempt), None)
    return f" on {printable(str(node))}" if node else ""


class _Pipe:
    """Bytes as they are."""

    mid_line = False

    def write(self, chunk: bytes) -> None:
        sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()

    def end(self) -> None:
        return


class _Terminal:
    """Text that cannot drive the terminal."""

    def __init__(self) -> None:
        from ares.edge.cli.render.terminal import TerminalFilter

        self._clean = TerminalFilter()
        self.mid_line = False

    def write(self, chunk: bytes) -> None:
        self._put(self._clean.feed(chunk))

    def end(self) -> None:
        self._put(self._clean.end())

    def _put(self, text: str) -> None:
        self.mid_line = not text.endswith("\n") if text else self.mid_line
        sys.stdout.write(text)
        sys.stdout.flush()
