"""`ares usage`: what jobs used, what it cost, and how much of it came to nothing."""

from typing import TYPE_CHECKING

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.options import read_seconds
from ares.edge.cli.render.output import answer, note, output_option
from ares.edge.cli.render.text import duration

if TYPE_CHECKING:
    from ares.api.usage import By, UsageReport, UsageRow
    from ares.edge.cli.render.table import Columns

GROUPS = ("tenant", "team", "user", "pool", "gpu-model", "job", "cluster")


def _wasted(row: "UsageRow") -> str:
    part = f" ({row.wasted_gpu_hours / row.gpu_hours:.0%})" if row.gpu_hours else ""
    return f"{row.wasted_gpu_hours:,.2f}{part}"


USED: "Columns[UsageRow]" = {
    "JOBS": lambda row: f"{row.jobs:,}",
    "GPU-HOURS": lambda row: f"{row.gpu_hours:,.2f}",
    "CPU-HOURS": lambda row: f"{row.cpu_hours:,.2f}",
    "KWH": lambda row: f"{row.energy_kwh:,.3f}",
    "COST": lambda row: f"{row.cost:,.2f}",
    "WASTED GPU-HOURS": _wasted,
    "WASTED COST": lambda row: f"{row.wasted_cost:,.2f}",
}


@click.command()
@click.option("--by", type=click.Choice(GROUPS), default="tenant", show_default=True, help="What each line sums up.")
@click.option(
    "--since",
    metavar="DURATION",
    callback=read_seconds,
    help="Jobs that ended within it, or have not ended: 7d, 12h.  [default: all known]",
)
@click.option(
    "--limit",
    "-l",
    type=click.IntRange(1, 10_000),
    metavar="N",
    default=1000,
    show_default=True,
    help="At most so many.",
)
@output_option("table", "json", "yaml", "csv", "name")
@click.pass_context
def usage(ctx: click.Context, by: "By", since: float | None, limit: int, output: str) -> None:
    """Sums up what jobs used, the dearest first.

    Energy is an estimate from above: what was held, at full load. WASTED is what attempts used that
    failed or were taken away. Only jobs count that the server still keeps. Members of a tenant see
    their own, administrators all.
    """
    from ares.edge.client.calls import costs

    client, call = connect(ctx), costs.usage(by, since, limit)
    if output == "csv":
        click.echo(csv_of(client.send(call)), nl=False)
        return
    report = answer(client, call, output, lambda found: [row["key"] for row in found["rows"]])
    if report is None:
        return
    from ares.edge.cli.render.table import print_records

    group: Columns[UsageRow] = {by.upper(): lambda row: f"{row.key} {row.name}".strip()}
    rows = (*report.rows, report.total) if report.rows else ()
    print_records({**group, **USED}, rows, of="jobs that used anything")
    for line in remarks(report):
        note(line)


def remarks(report: "UsageReport") -> list[str]:
    """What is not in it."""
    from ares.core.books.ages import silences

    lines = list(silences(report.clusters, report.until))
    if report.known_since is not None:
        oldest = duration(report.until - report.known_since)
        lines.append(f"the oldest job that is still kept was submitted {oldest} ago; older ones are not counted")
    if report.groups > len(report.rows):
        lines.append(f"{report.groups - len(report.rows):,} more lines: --limit {report.groups}")
    return lines


def csv_of(report: "UsageReport") -> str:
    """One line for each group, without the total: programs sum up themselves."""
    import csv
    import io

    import msgspec

    out = io.StringIO()
    columns = [field.name for field in msgspec.structs.fields(type(report.total))]
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([report.by if name == "key" else name for name in columns])
    writer.writerows([getattr(row, name) for name in columns] for row in report.rows)
    return out.getvalue()
