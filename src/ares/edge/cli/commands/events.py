"""`ares events`."""

from typing import TYPE_CHECKING

import click

from ares.edge.cli.connect import connect, find_job, job_argument, of_one_job
from ares.edge.cli.render.output import answer, output_option

if TYPE_CHECKING:
    from ares.api.jobs import StreamedEvent


@click.command()
@job_argument(required=False)
@click.option("--follow", "-f", is_flag=True, help="Print events as they happen, until Ctrl-C.")
@click.option(
    "--after",
    "cursor",
    metavar="CURSOR",
    default="",
    help="With -f: go on after this cursor; 0 starts at the oldest kept.",
)
@output_option("table", "json", "yaml")
@click.pass_context
def events(ctx: click.Context, job: str | None, follow: bool, cursor: str, output: str) -> None:
    """Prints what happened to a job.

    With -f, what happens to it, or to any job, from now on.

    With -f and `-o json` each line is one object {cursor, event}; `--after CURSOR` resumes behind it.
    """
    if job is None and not follow:
        raise click.UsageError("name a job, or use -f to follow the events of all", ctx)
    client = connect(ctx)
    job_id = find_job(client, job) if job else None
    if follow or job_id is None:
        for item in client.events(cursor, job_id):
            click.echo(_json_line(item) if output == "json" else _text_line(item))
        return
    from ares.edge.cli.render.job_cells import EVENT_HEADER, event_row
    from ares.edge.cli.render.table import print_table
    from ares.edge.client.calls import calls

    with of_one_job(client, job_id, "a ledger"):
        ledger = answer(client, calls.job_events(job_id), output)
    if ledger is not None:
        print_table(EVENT_HEADER, (event_row(event, _clock(event.at)) for event in ledger), of="events")


def _json_line(item: "StreamedEvent") -> str:
    import msgspec

    return msgspec.json.encode({"cursor": item.cursor, "event": item.event}).decode()


def _text_line(item: "StreamedEvent") -> str:
    from ares.edge.cli.render.text import printable

    event = item.event
    tail = event.reason or (f"attempt {event.attempt}" if event.attempt else "")
    return f"{_clock(event.at)}  {event.job}  {event.kind:<15} {event.phase:<10} {printable(tail)}".rstrip()


def _clock(at: float) -> str:
    from datetime import datetime

    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")
