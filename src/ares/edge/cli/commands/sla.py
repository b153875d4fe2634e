"""`ares sla`: how deadlines and classes of service fare."""

from typing import TYPE_CHECKING

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.render.output import output_option, show
from ares.edge.cli.render.text import duration

if TYPE_CHECKING:
    from ares.api.deadlines import SlaView
    from ares.edge.cli.render.table import Columns


def promises(service: "SlaView") -> str:
    starts = "" if service.start_within_s is None else f"starts within {duration(service.start_within_s)}"
    ends = "" if service.end_within_s is None else f"ends within {duration(service.end_within_s)}"
    return ", ".join(part for part in (starts, ends) if part)


CLASSES: "Columns[SlaView]" = {
    "CLASS": lambda service: service.name or "(own)",
    "PROMISES": promises,
    "JOBS": lambda service: str(service.jobs),
    "MET": lambda service: str(service.met),
    "MISSED": lambda service: str(service.missed),
    "OPEN": lambda service: str(service.open),
    "AT RISK": lambda service: str(service.at_risk),
    "MET %": lambda service: "" if service.met_percent is None else f"{service.met_percent:g}",
}


@click.command()
@output_option("table", "json", "yaml", "name")
@click.pass_context
def sla(ctx: click.Context, output: str) -> None:
    """Lists classes of service, and how many met their deadline.

    AT RISK are jobs that wait or run and will miss it by the estimates; their ids follow the table.
    Jobs with a deadline of their own are counted as (own). An administrator sees the jobs of all
    tenants. Classes are made with `ares profile set slas.NAME.end_within_s=SECONDS`.
    """
    from ares.edge.client.calls import predictions

    for service in show(connect(ctx), predictions.sla(), CLASSES, output, of="classes of service") or ():
        if service.at_risk_jobs:
            more = service.at_risk - len(service.at_risk_jobs)
            named = ", ".join(service.at_risk_jobs) + (f" and {more} more" if more > 0 else "")
            click.echo(f"at risk ({service.name or 'own'}): {named}")
