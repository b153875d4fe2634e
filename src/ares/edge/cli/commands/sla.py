"""`ares sla`: how deadlines and classes of service fare."""

from typing import TYPE_CHECKING

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.options import read_seconds
from ares.edge.cli.render.output import answer, note, output_option
from ares.edge.cli.render.text import duration

if TYPE_CHECKING:
    from ares.api.deadlines import SlaBy, SlaView
    from ares.edge.cli.render.table import Columns


def promises(service: "SlaView") -> str:
    starts = "" if service.start_within_s is None else f"starts within {duration(service.start_within_s)}"
    ends = "" if service.end_within_s is None else f"ends within {duration(service.end_within_s)}"
    return ", ".join(part for part in (starts, ends) if part)


GROUPS = ("class", "tenant", "cluster")
CLASSES: "Columns[SlaView]" = {
    "CLASS": lambda service: service.name or "(own)",
    "PROMISES": promises,
    "JOBS": lambda service: str(service.jobs),
    "MET": lambda service: str(service.met),
    "MISSED": lambda service: str(service.missed),
    "OPEN": lambda service: str(service.open),
    "AT RISK": lambda service: str(service.at_risk),
    "MET %": lambda service: "" if service.met_percent is None else f"{service.met_percent:g}",
    "TARGET %": lambda service: f"{service.target_percent:g}",
    "BUDGET LEFT %": lambda service: "" if service.budget_left_percent is None else f"{service.budget_left_percent:g}",
}
BY_TENANT: "Columns[SlaView]" = {"TENANT": lambda service: service.tenant or "", **CLASSES}
BY_CLUSTER: "Columns[SlaView]" = {"CLUSTER": lambda service: service.cluster or "", **CLASSES}


@click.command()
@click.option("--by", type=click.Choice(GROUPS), default="class", show_default=True, help="What each line sums up.")
@click.option("--since", metavar="TIME", callback=read_seconds, help="Decided within it, or open: 24h, 30d.")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def sla(ctx: click.Context, by: "SlaBy", since: float | None, output: str) -> None:
    """Lists classes of service, and how many met their deadline.

    AT RISK are jobs that wait or run and will miss it by the estimates; their ids follow the table.
    Jobs with a deadline of their own are counted as (own). An administrator sees the jobs of all
    tenants. Classes are made with `ares profile set slas.NAME.end_within_s=SECONDS`; TARGET % is their
    target_percent, and BUDGET LEFT % how much of what may miss it is left, below 0 when too many did.
    A global plane says which of its clusters are silent, and since when: how their jobs fare is known
    up to then, and told when they are back.
    """
    from ares.edge.client.calls import predictions

    call = predictions.sla_list(by, since)
    found = answer(connect(ctx), call, output, lambda raw: [row["name"] for row in raw["classes"] if row["name"]])
    if found is None:
        return
    from ares.core.books.ages import silences
    from ares.edge.cli.render.table import print_records

    print_records({"tenant": BY_TENANT, "cluster": BY_CLUSTER}.get(by, CLASSES), found.classes, of="classes of service")
    for line in silences(found.clusters, found.at):
        note(line)
    for service in found.classes:
        if service.at_risk_jobs:
            more = service.at_risk - len(service.at_risk_jobs)
            named = ", ".join(service.at_risk_jobs) + (f" and {more} more" if more > 0 else "")
            click.echo(f"at risk ({service.name or 'own'}): {named}")
