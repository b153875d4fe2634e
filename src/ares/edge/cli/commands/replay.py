"""`ares replay`: a decision made again with other weights."""

import time
from typing import TYPE_CHECKING, Any

import click

from ares.edge.cli.connect import connect, find_job
from ares.edge.cli.render.output import output_option, print_objects

if TYPE_CHECKING:
    from ares.api.decisions import Ranked, ReplayAnswer
    from ares.edge.client.sync import Client

_PREFIX = "weight."


def read_weights(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, float]:
    """weight.cost=0.3 as {"cost": 0.3}."""
    found: dict[str, float] = {}
    for value in values:
        name, _, number = value.removeprefix(_PREFIX).partition("=")
        try:
            found[name] = float(number)
        except ValueError:
            raise click.BadParameter(f"{value!r} is not of the form weight.NAME=NUMBER", ctx, param) from None
    return found


@click.command()
@click.argument("decision")
@click.option(
    "--set", "weights", multiple=True, metavar="weight.NAME=NUMBER", callback=read_weights,
    help="A scorer's weight to change, such as weight.cost=30. May be repeated.",
)  # fmt: skip
@output_option("table", "json", "yaml")
@click.pass_context
def replay(ctx: click.Context, decision: str, weights: dict[str, float], output: str) -> None:
    """Makes a past decision again, with other weights. Changes nothing.

    DECISION is its name, or the job it placed. Each line is a machine that could have taken the job,
    with what every scorer gave it times its weight: THEN marks what was chosen, NOW what would be.
    A decision is kept for a while, by the server that made it.
    """
    from ares.edge.client.calls import predictions

    client = connect(ctx)
    raw: Any = _ask(client, decision, weights)
    if not print_objects(output, raw, lambda _: []):
        for line in page(predictions.replay(decision, weights).read(raw), set(weights), time.time()):
            click.echo(line)


def _ask(client: "Client", decision: str, weights: dict[str, float]) -> Any:
    """By the name as it is; else by the job whose id begins like that."""
    from ares.edge.client.calls import predictions
    from ares.edge.client.errors import NotFound

    try:
        return client.send(predictions.replay(decision, weights).raw())
    except NotFound:
        job_id = find_job(client, decision)
    try:
        return client.send(predictions.replay(job_id, weights).raw())
    except NotFound as error:
        fix = "it has not been placed, or long ago, or by another replica: ask the one that led then"
        raise NotFound(f"no decision about {job_id} is kept", code=error.code, fix=fix) from error


def page(found: "ReplayAnswer", changed: set[str], now: float) -> list[str]:
    """The lines for people."""
    from ares.edge.cli.render.explanation import section
    from ares.edge.cli.render.text import duration

    weights = ", ".join(
        f"{weight.name} {weight.weight:g}{'*' if weight.name in changed else ''}" for weight in found.weights
    )
    verdict = "the same machines" if found.same else "other machines"
    lines = [
        f"decision {found.decision} about {found.job}, {duration(now - found.at)} ago, profile {found.profile_version}",
        f"  {'Weights':<12}{weights}",
        f"  {'Then':<12}{', '.join(found.chosen)}",
        f"  {'Now':<12}{', '.join(found.chosen_again)}: {verdict}",
    ]
    names = [weight.name for weight in found.weights if any(weight.name in node.parts for node in found.nodes)]
    header = ("NODE", *(name.upper() for name in names), "SCORE", "THEN", "NOW")
    rows = (_row(node, names, set(found.chosen)) for node in found.nodes)
    left_out = found.passing - len(found.nodes)
    lines += section("Machines that could have taken it, the best first", header, rows)
    return [*lines, f"  ... and {left_out} more"] if left_out > 0 else lines


def _row(node: "Ranked", names: list[str], chosen: set[str]) -> tuple[str, ...]:
    parts = (f"{node.parts.get(name, 0.0):.2f}" for name in names)
    return (node.node, *parts, f"{node.score:.2f}", "x" if node.node in chosen else "", "x" if node.ranks else "")
