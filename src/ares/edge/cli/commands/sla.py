"""`ares sla`: how deadlines and classes of service fare."""

from typing import TYPE_CHECKING, Any

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.render.output import output_option, print_objects

if TYPE_CHECKING:
    from ares.api.deadlines import SlaView

HEADER = ("CLASS", "PROMISES", "JOBS", "MET", "MISSED", "OPEN", "AT RISK", "MET %")


@click.command()
@output_option("table", "json", "yaml", "name")
@click.pass_context
def sla(ctx: click.Context, output: str) -> None:
    """Lists classes of service, and how many met their deadline.

    AT RISK are jobs that wait or run and will miss it by the estimates; their ids follow the table.
    Jobs with a deadline of their own are counted as (own). An administrator sees the jobs of all
    tenants. Classes are made with `ares profile set slas.NAME.end_within_s=SECONDS`.
    """
    from ares.edge.cli.render.table import print_table
    from ares.edge.client.calls import calls

    call = calls.sla()
    raw: Any = connect(ctx).send(call.raw())
    if print_objects(output, raw, lambda answer: [one["name"] for one in answer["classes"] if one["name"]]):
        return
    rows = call.read(raw)
    print_table(HEADER, (cells(row) for row in rows), of="classes of service")
    for row in rows:
        if row.at_risk_jobs:
            more = row.at_risk - len(row.at_risk_jobs)
            named = ", ".join(row.at_risk_jobs) + (f" and {more} more" if more > 0 else "")
            click.echo(f"at risk ({row.name or 'own'}): {named}")


def cells(row: "SlaView") -> tuple[str, ...]:
    percent = "" if row.met_percent is None else f"{row.met_percent:g}"
    counts = (row.jobs, row.met, row.missed, row.open, row.at_risk)
    return (row.name or "(own)", promises(row), *map(str, counts), percent)


def promises(row: "SlaView") -> str:
    from ares.edge.cli.render.text import duration

    starts = "" if row.start_within_s is None else f"starts within {duration(row.start_within_s)}"
    ends = "" if row.end_within_s is None else f"ends within {duration(row.end_within_s)}"
    return ", ".join(part for part in (starts, ends) if part)
