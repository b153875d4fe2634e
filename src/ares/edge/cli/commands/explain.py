"""`ares explain`: why a job waits, and what would start it."""

import time
from typing import TYPE_CHECKING, Any

import click

from ares.edge.cli.connect import connect, find_job, job_argument, of_one_job
from ares.edge.cli.render.output import output_option, print_objects

if TYPE_CHECKING:
    from ares.edge.client.sync import Client

WATCH_EVERY_S = 2.0


@click.command()
@job_argument()
@click.option("--watch", "-w", is_flag=True, help="Look again every two seconds for as long as it waits.")
@output_option("table", "json", "yaml")
@click.pass_context
def explain(ctx: click.Context, job: str, watch: bool, output: str) -> None:
    """Explains why a job waits.

    The reason and whose move it is; how many machines each question leaves and what the nearest lack;
    who holds them; its place in the queue and how its rank comes about; limits of its tenant; when it
    could start; and the smallest change to the job that would start it now. At a global plane also every
    cluster with its terms in seconds and money, which of them was chosen, and what would have changed that.
    """
    client = connect(ctx)
    job_id = find_job(client, job)
    while True:
        waits = _once(client, job_id, output, clear=watch)
        if not watch or not waits:
            return
        time.sleep(WATCH_EVERY_S)


def _once(client: "Client", job_id: str, output: str, *, clear: bool) -> bool:
    """Prints it; whether the job still waits."""
    from ares.edge.client.calls import predictions

    call, routing = predictions.explain(job_id), predictions.route(job_id)
    with of_one_job(client, job_id, "a place in the queue"):
        raw: Any = client.send(call.raw())
        # Decided here, wherever the job is by now.
        routed: Any = client.send(routing.raw())
    raw |= {"routing": routed} if routed.get("decision") else {}
    if clear:
        click.clear()
    if not print_objects(output, raw, lambda _: [job_id]):
        from ares.edge.cli.render.explanation import page
        from ares.edge.cli.render.routing import lines

        found, now = call.read(raw), time.time()
        for line in (*page(found, client.get(job_id), now), *lines(routing.read(routed), now)):
            click.echo(line)
    return raw["phase"] in ("WAITING", "PENDING")
