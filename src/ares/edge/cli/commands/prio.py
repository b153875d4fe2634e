"""`ares prio`: the queue in order, and why it is in that order."""

from typing import TYPE_CHECKING

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.render.output import answer, output_option

if TYPE_CHECKING:
    from ares.api.decisions import PrioRow


@click.command()
@click.option(
    "--limit", "-l", type=click.IntRange(1, 1000), metavar="N", default=50, show_default=True, help="At most so many."
)
@output_option("table", "json", "yaml", "name")
@click.pass_context
def prio(ctx: click.Context, limit: int, output: str) -> None:
    """Lists waiting jobs, the first to be placed first.

    Each column is a factor times its weight; together they are the RANK. Between jobs of equal rank
    those in brackets decide. An administrator sees the jobs of all tenants.
    """
    from ares.edge.cli.render.table import print_table
    from ares.edge.client.calls import predictions

    rows = answer(connect(ctx), predictions.prio(limit), output, "job")
    if rows is not None:
        print_table(header(rows), (cells(row) for row in rows), of="jobs that wait")


def header(rows: "tuple[PrioRow, ...]") -> tuple[str, ...]:
    factors = rows[0].factors if rows else ()
    names = (factor.name.upper() if factor.sum == "primary" else f"({factor.name.upper()})" for factor in factors)
    return ("JOB", "NAME", "TENANT", "PRIO", "RANK", *names)


def cells(row: "PrioRow") -> tuple[str, ...]:
    """RANK is the sum of the columns as they are shown."""
    parts = [round(factor.product, 2) for factor in row.factors]
    rank = sum(part for part, factor in zip(parts, row.factors, strict=True) if factor.sum == "primary")
    return (row.job, row.name, row.tenant, row.priority, f"{rank:.2f}", *(f"{part:.2f}" for part in parts))
