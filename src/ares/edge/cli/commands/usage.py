"""`ares usage`: what jobs used, what it cost, and how much of it came to nothing."""

from typing import TYPE_CHECKING, Any

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.options import read_seconds
from ares.edge.cli.render.output import note, output_option, print_objects
from ares.edge.cli.render.text import duration

if TYPE_CHECKING:
    from ares.api.usage import By, UsageReport, UsageRow

GROUPS = ("tenant", "team", "user", "pool", "gpu-model", "job")
HEADER = ("JOBS", "GPU-HOURS", "CPU-HOURS", "KWH", "COST", "WASTED GPU-HOURS", "WASTED COST")


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
    from ares.edge.client.calls import calls

    call = calls.usage(by, since, limit)
    raw: Any = connect(ctx).send(call.raw())
    if output == "csv":
        click.echo(csv_of(call.read(raw)), nl=False)
    elif not print_objects(output, raw, lambda answer: [row["key"] for row in answer["rows"]]):
        from ares.edge.cli.render.table import print_table

        report = call.read(raw)
        shown = (*report.rows, report.total) if report.rows else ()
        print_table((by.upper(), *HEADER), (cells(row) for row in shown), of="jobs that used anything")
        for line in remarks(report):
            note(line)


def cells(row: "UsageRow") -> tuple[str, ...]:
    wasted = f"{row.wasted_gpu_hours:,.2f}"
    if row.gpu_hours:
        wasted += f" ({row.wasted_gpu_hours / row.gpu_hours:.0%})"
    return (
        f"{row.key} {row.name}".strip(),
        f"{row.jobs:,}",
        f"{row.gpu_hours:,.2f}",
        f"{row.cpu_hours:,.2f}",
        f"{row.energy_kwh:,.3f}",
        f"{row.cost:,.2f}",
        wasted,
        f"{row.wasted_cost:,.2f}",
    )


def remarks(report: "UsageReport") -> list[str]:
    """What is not in it."""
    lines: list[str] = []
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
