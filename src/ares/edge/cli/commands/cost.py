"""`ares cost`: what days cost, what stood idle, and where a budget is going."""

from typing import TYPE_CHECKING, Any

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.render.output import answer, note, output_option, show

if TYPE_CHECKING:
    from ares.api.books.costs import BudgetProjection, CostBy, CostReport, CostRow, FocusExport
    from ares.edge.cli.render.table import Columns

GROUPS = ("day", "tenant", "team", "pool", "gpu-model", "cluster", "job")

HELD: "Columns[CostRow]" = {
    "JOBS": lambda row: f"{row.jobs:,}",
    "USEFUL GPU-H": lambda row: f"{row.useful_gpu_hours:,.2f}",
    "LOST GPU-H": lambda row: f"{row.lost_gpu_hours:,.2f}",
    "RUNNING GPU-H": lambda row: f"{row.running_gpu_hours:,.2f}",
}
IDLE: "Columns[CostRow]" = {
    "IDLE GPU-H": lambda row: f"{row.idle_gpu_hours:,.2f}",
    "CAPACITY GPU-H": lambda row: f"{row.capacity_gpu_hours:,.2f}",
}
MONEY: "Columns[CostRow]" = {
    "KWH": lambda row: f"{row.energy_kwh + row.idle_energy_kwh:,.2f}",
    "COST": lambda row: f"{row.cost:,.2f}",
    "LOST COST": lambda row: f"{row.lost_cost:,.2f}",
}
IDLE_MONEY: "Columns[CostRow]" = {
    "IDLE COST": lambda row: f"{row.idle_cost:,.2f}",
    "CAPACITY COST": lambda row: f"{row.capacity_cost:,.2f}",
}


def _amount(value: float | None) -> str:
    return "" if value is None else f"{value:,.2f}"


def _range(budget: "BudgetProjection") -> str:
    if budget.projected is None:
        return budget.why
    return f"{budget.projected_low or 0.0:,.2f} to {budget.projected_high or 0.0:,.2f}"


BUDGETS: "Columns[BudgetProjection]" = {
    "TENANT": lambda budget: budget.tenant,
    "MONTH": lambda budget: budget.month,
    "SPENT": lambda budget: _amount(budget.spent),
    "COMMITTED": lambda budget: _amount(budget.committed),
    "BUDGET": lambda budget: _amount(budget.budget),
    "PER DAY": lambda budget: _amount(budget.per_day),
    "MONTH'S END": lambda budget: _amount(budget.projected),
    "LIKELY": _range,
    "USED UP": lambda budget: budget.used_up_on or "",
}


def _days(command: Any) -> Any:
    command = click.option("--last", metavar="DAY", help="The last day.  [default: today]")(command)
    return click.option("--first", metavar="DAY", help="The first day, as 2026-11-01.  [default: six before the last]")(
        command
    )


@click.command()
@click.option("--by", type=click.Choice(GROUPS), default="day", show_default=True, help="What each line sums up.")
@_days
@click.option("--pool", metavar="POOL", help="Of this pool alone.")
@click.option("--budget", is_flag=True, help="What was spent this month, where that leads, and the budget.")
@click.option("--focus", is_flag=True, help="Charges as FOCUS has them: json or csv.")
@output_option("table", "json", "yaml", "csv")
@click.pass_context
def cost(
    ctx: click.Context,
    by: "CostBy",
    first: str | None,
    last: str | None,
    pool: str | None,
    budget: bool,
    focus: bool,
    output: str,
) -> None:
    """Says what the platform cost, day by day.

    USEFUL is what jobs held whose work counts, LOST what attempts held that failed or were taken away,
    RUNNING what attempts hold that have not ended; it may be below zero on a day on which work of the
    day before ended. IDLE is what no job held. Together they are the CAPACITY: what all machines have,
    times their price. Days are by UTC. They are closed after midnight and never change again, also when
    their jobs are forgotten. Energy is by a model: what was held, at full load. Members of a tenant see
    their own, without IDLE.
    """
    from ares.edge.client.calls import costs

    client = connect(ctx)
    if budget:
        show(client, costs.budgets(), BUDGETS, "json" if output == "csv" else output, of="tenants that spent anything")
        return
    if focus:
        _charges(client.send(costs.charges(first, last)), output)
        return
    call = costs.cost(by, first, last, pool)
    if output == "csv":
        click.echo(csv_of(client.send(call)), nl=False)
        return
    report = answer(client, call, output)
    if report is None:
        return
    from ares.edge.cli.render.table import print_records

    group: Columns[CostRow] = {by.upper(): lambda row: f"{row.key} {row.name}".strip()}
    columns = {**group, **HELD, **(IDLE if report.whole else {}), **MONEY, **(IDLE_MONEY if report.whole else {})}
    print_records(columns, (*report.rows, report.total) if report.rows else (), of="days with a book")
    for line in remarks(report):
        note(line)


def remarks(report: "CostReport") -> list[str]:
    """What a reader should know beside the figures."""
    lines = [] if not report.currency else [f"amounts are in {report.currency}"]
    if report.last_day > report.closed_day:
        lines.append(f"days after {report.closed_day or 'the first'} are not closed: their figures still change")
    if report.groups > len(report.rows):
        lines.append(f"{report.groups - len(report.rows):,} more lines: name a pool or fewer days")
    return [*lines, *report.remarks]


def _charges(export: "FocusExport", output: str) -> None:
    import msgspec

    if output == "csv":
        click.echo(_csv([msgspec.to_builtins(row) for row in export.rows], _focus_columns()), nl=False)
        return
    click.echo(msgspec.json.format(msgspec.json.encode(export), indent=2).decode())


def _focus_columns() -> list[str]:
    import msgspec

    from ares.api.books.costs import FocusRow

    return [field.encode_name for field in msgspec.structs.fields(FocusRow)]


def csv_of(report: "CostReport") -> str:
    """One line for each group, without the total: programs sum up themselves."""
    import msgspec

    columns = [field.name for field in msgspec.structs.fields(type(report.total))]
    rows = [{name: getattr(row, name) for name in columns} for row in report.rows]
    return _csv(rows, columns)


def _csv(rows: "list[dict[str, Any]]", columns: list[str]) -> str:
    import csv
    import io
    import json

    from ares.core.audit.search import as_text

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        values = [row.get(name) for name in columns]
        texts = [json.dumps(value, sort_keys=True) if isinstance(value, dict) else value for value in values]
        writer.writerow([as_text(value) if isinstance(value, str) else value for value in texts])
    return out.getvalue()
