"""`ares insights`: what is odd in the platform's numbers, and what is to be expected of demand."""

from typing import TYPE_CHECKING

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.render.output import answer, note, output_option, tell
from ares.edge.cli.render.text import age, duration, printable

if TYPE_CHECKING:
    from ares.api.telemetry.insights import DemandView, InsightList
    from ares.edge.cli.render.table import Columns
    from ares.model.telemetry.insight import InsightRecord


def _state(record: "InsightRecord") -> str:
    if record.cause:
        return f"quiet: {record.cause}"
    return record.verdict or ("over" if record.ended_at is not None else "lasts")


INSIGHTS: "Columns[InsightRecord]" = {
    "ID": lambda record: record.id,
    "BEGAN": lambda record: age(record.began_at),
    "STATE": _state,
    "WHAT": lambda record: printable(record.text),
}


def said(demand: "DemandView") -> str:
    """A forecast in a person's words, with how good it has been; or why there is none."""
    ahead = duration(demand.ahead_s)
    if demand.probability is None:
        return f"demand in {ahead}: nothing is said: {demand.silent}"
    return (
        f"demand in {ahead}: {demand.low or 0:,.0f} to {demand.high or 0:,.0f} of {demand.capacity or 0:,.0f} GPUs, "
        f"{demand.probability:.0%} that it reaches them all (skill {demand.skill or 0:.2f}, "
        f"{demand.coverage or 0:.0%} lay in the range, {demand.tried:,} times tried)"
    )


@click.group(invoke_without_command=True)
@click.option("--all", "every", is_flag=True, help="Also those with a known cause, or called no anomaly.")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def insights(ctx: click.Context, every: bool, output: str) -> None:
    """Lists what is odd in the platform's numbers, the newest first.

    A series is odd when its newest minutes are as rare, among its own last two days, as one value in a
    million. Nothing is said while a known cause explains it: a drain, a new leader, a changed profile,
    agents that were started. Below are forecasts of the demand for GPUs, each with how good it has been;
    where it has been no better than a guess, nothing is said. For operators.
    """
    if ctx.invoked_subcommand is not None:
        return
    from ares.edge.client.calls import operator

    def ids(found: "dict[str, list[dict[str, str]]]") -> list[str]:
        return [record["id"] for record in found["insights"]]

    found: InsightList | None = answer(connect(ctx), operator.insights(every), output, ids)
    if found is None:
        return
    from ares.edge.cli.render.table import print_records

    print_records(INSIGHTS, found.insights, of="insights")
    for demand in found.forecasts:
        click.echo(said(demand))
    note(f"{found.judged} of {found.watched} watched series have enough history on {found.replica}")
    for cause in found.causes:
        note(f"quiet for now: {cause}")


@insights.command()
@click.argument("insight")
@click.option(
    "--no-anomaly", "verdict", flag_value="no-anomaly", help="This was no anomaly: it must be rarer next time."
)
@click.option("--useful", "verdict", flag_value="useful", help="It was worth telling.")
@click.option("--note", "text", default="", help="Why.")
@output_option("table", "json", "yaml")
@click.pass_context
def feedback(ctx: click.Context, insight: str, verdict: str | None, text: str, output: str) -> None:
    """Says what an insight was. It is kept, and heeded."""
    from ares.edge.client.calls import operator

    if verdict is None:
        raise click.UsageError("say what it was: --no-anomaly or --useful", ctx)
    call = operator.judge_insight(insight, verdict, text)
    tell(connect(ctx), call, lambda record: f"{record.id}: {record.verdict}, by {printable(record.by)}", output)
