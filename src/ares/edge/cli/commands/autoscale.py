"""`ares autoscale`: pools that grow and shrink by themselves."""

import time
from typing import TYPE_CHECKING

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.render.output import output_option, show, tell
from ares.edge.cli.render.text import cpus, duration, memory, printable

if TYPE_CHECKING:
    from ares.api.pools import ScalingPlan, ScalingView
    from ares.edge.cli.render.table import Columns
    from ares.model.scaling import NodeShape


def _shape(shape: "NodeShape") -> str:
    gpus = f", {shape.gpus} {shape.gpu_model or 'GPUs'}" if shape.gpus else ""
    return f"{cpus(shape.cpu_milli)} CPUs, {memory(shape.memory_mib)}{gpus}"


def _state(view: "ScalingView") -> str:
    if view.paused_until is not None:
        return f"pauses {duration(max(0.0, view.paused_until - time.time()))}"
    return "on" if view.enabled else "off"


POOLS: "Columns[ScalingView]" = {
    "POOL": lambda view: view.pool.name,
    "STATE": _state,
    "MACHINES": lambda view: f"{len(view.instances)}/{view.pool.nodes_max}",
    "LEAST": lambda view: str(view.pool.nodes_min),
    "SHAPE": lambda view: _shape(view.pool.shape),
    "PROVIDER": lambda view: view.pool.provider,
    "COST/H": lambda view: f"{view.cost_hour:g}" if view.pool.node_hour else "",
}


@click.group()
def autoscale() -> None:
    """Shows and switches pools that grow and shrink by themselves."""


@autoscale.command("list")
@output_option("table", "json", "yaml")
@click.pass_context
def list_pools(ctx: click.Context, output: str) -> None:
    """Lists the pools.

    MACHINES are those that were bought, of how many there may be. A pool that is off buys none; `ares autoscale plan`
    says what it would buy.
    """
    from ares.edge.client.calls import autoscale

    show(connect(ctx), autoscale.pools(), POOLS, output, of="pools that scale")


@autoscale.command("show")
@click.argument("pool")
@output_option("table", "json", "yaml")
@click.pass_context
def show_pool(ctx: click.Context, pool: str, output: str) -> None:
    """Shows a pool, its machines, and why each was bought."""
    from ares.edge.client.calls import autoscale

    tell(connect(ctx), autoscale.pool(pool), lambda view: "\n".join(page(view, time.time())), output)


@autoscale.command()
@output_option("table", "json", "yaml")
@click.pass_context
def plan(ctx: click.Context, output: str) -> None:
    """Says what would be bought now, and for which jobs. Changes nothing."""
    from ares.edge.client.calls import autoscale

    tell(connect(ctx), autoscale.plan(), lambda found: "\n".join(purchases(found)), output)


@autoscale.command()
@click.argument("pool")
@output_option("table", "json", "yaml")
@click.pass_context
def enable(ctx: click.Context, pool: str, output: str) -> None:
    """Lets machines be bought for a pool."""
    from ares.edge.client.calls import autoscale

    call = autoscale.switch(pool, enabled=True)
    tell(connect(ctx), call, lambda view: f"{view.pool.name} buys up to {view.pool.nodes_max} machines", output)


@autoscale.command()
@click.argument("pool")
@output_option("table", "json", "yaml")
@click.pass_context
def disable(ctx: click.Context, pool: str, output: str) -> None:
    """Buys no machines for a pool any more. Those it has are given back when they are idle."""
    from ares.edge.client.calls import autoscale

    call = autoscale.switch(pool, enabled=False)
    tell(connect(ctx), call, lambda view: f"{view.pool.name} buys no machines; it has {len(view.instances)}", output)


# ---- for people


def page(view: "ScalingView", now: float) -> list[str]:
    """The lines of `ares autoscale show`."""
    from ares.edge.cli.render.explanation import section

    pool = view.pool
    price = f"{pool.node_hour:g} an hour each, {view.cost_hour:g} now" if pool.node_hour else ""
    budget = f", of {pool.budget_hour:g} at most" if price and pool.budget_hour else ""
    facts = [
        ("State", f"{_state(view)}{f', by {view.enabled_by}' if view.enabled_by else ''}"),
        (
            "Machines",
            f"{len(view.instances)}, at least {pool.nodes_min}, at most {pool.nodes_max}; {view.room} may come",
        ),
        ("Each", f"{_shape(pool.shape)}, from {pool.provider}"),
        ("Cost", f"{price}{budget}"),
        ("Price", _price(view)),
        ("Bought", f"for jobs that have waited {duration(pool.after_s)} for room"),
        ("Given back", f"after {duration(pool.idle_s)} without a job"),
        ("Trouble", view.trouble),
    ]
    lines = [printable(pool.name), *(f"  {label:<12}{printable(text)}" for label, text in facts if text)]
    rows = (
        (instance.node, instance.state, duration(max(0.0, now - instance.since)), instance.ending or instance.reason)
        for instance in view.instances
    )
    return [*lines, *section("Machines", ("NODE", "STATE", "SINCE", "WHY"), rows)]


def _price(view: "ScalingView") -> str:
    """Where it comes from, and how old it is."""
    found = view.price
    if found is None:
        return ""
    late = f"; {found.trouble}" if found.trouble else ""
    return f"{found.name}, by version {found.version} of {found.catalogue}, {duration(found.age_s)} old{late}"


def purchases(plan: "ScalingPlan") -> list[str]:
    """The lines of `ares autoscale plan`."""
    if not plan.purchases:
        return [f"nothing would be bought: {printable(plan.message)}"]
    lines: list[str] = []
    for purchase in plan.purchases:
        cost = f", {purchase.cost_hour:g} an hour" if purchase.cost_hour else ""
        off = "" if purchase.enabled else f"; the pool is off: `ares autoscale enable {purchase.pool}`"
        lines.append(f"{purchase.message}{cost}{off}")
        lines += [f"  {job}" for job in purchase.jobs[:10]]
    return lines
