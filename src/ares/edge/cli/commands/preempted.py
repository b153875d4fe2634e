"""`ares why-preempted`: the jobs that displaced a job, or were displaced by it, and why."""

import time
from typing import TYPE_CHECKING, Any

import click

from ares.edge.cli.connect import connect, find_job, job_argument, of_one_job
from ares.edge.cli.render.output import answer, output_option

if TYPE_CHECKING:
    from ares.model.state import LedgerEvent


@click.command()
@job_argument()
@output_option("table", "json", "yaml")
@click.pass_context
def why_preempted(ctx: click.Context, job: str, output: str) -> None:
    """Says why a job was preempted, each time it was.

    By which rule and for whom, what it had to repeat, and who else left; and for whom it made others
    leave. Of other tenants' jobs no names are told.
    """
    from ares.edge.client.calls import predictions

    client = connect(ctx)
    job_id = find_job(client, job)
    with of_one_job(client, job_id, "preemptions"):
        events = answer(client, predictions.preemptions(job_id), output)
    if events is None:
        return
    if not events:
        click.echo(f"{job_id} was never preempted, and nobody was for it", err=True)
    for line in (line for event in events for line in told(event, job_id, time.time())):
        click.echo(line)


def told(event: "LedgerEvent", job_id: str, now: float) -> list[str]:
    """One preemption."""
    from ares.edge.cli.commands.plan import displaced
    from ares.edge.cli.render.text import duration, printable

    data = event.data
    ago = f"{duration(now - event.at)} ago{f', attempt {event.attempt}' if event.attempt else ''}"
    what = "preempted" if event.kind == "preempted" else "made others leave"
    lines = [f"{ago}: {what}: {printable(event.reason)}"]
    asker: dict[str, Any] = data.get("for", {})
    if event.kind == "preempted" and asker:
        # A gap ends by itself.
        if asker.get("operator") != "":
            lines.append(f"  {'For':<12}{printable(_asker(asker))}")
        lines.append(f"  {'Rule':<12}{data.get('rule')}: {data.get('why')}")
        mine = next((victim for victim in data.get("victims", ()) if victim.get("job") == job_id), None)
        if mine is not None:
            lines.append(
                f"  {'Lost':<12}{mine['lostGpuS']:,.0f} GPU-seconds since it started {duration(mine['ranS'])} before"
            )
    return [*lines, *(displaced(data, "Who left") if "victims" in data else []), ""]


def _asker(asker: dict[str, Any]) -> str:
    if "reservation" in asker:
        return f"reservation {asker['reservation']}" if asker["reservation"] else "a reservation of another tenant"
    if "operator" in asker:
        return f"operator {asker['operator']}"
    return f"{asker.get('job') or 'a job of another tenant'}, {asker.get('priority')}, {asker.get('gpus', 0):g} GPUs"
