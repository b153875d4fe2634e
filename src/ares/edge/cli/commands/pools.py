"""`ares pools`: resources of pools, present and future holders, and when a job of some size would start there."""

import time
from typing import TYPE_CHECKING, Any

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.render.output import output_option, show, tell
from ares.edge.cli.render.text import amount, cpus, duration, memory, printable

if TYPE_CHECKING:
    from ares.api.pools import PoolView, ShapeEta
    from ares.edge.cli.render.table import Columns


def power(pool: "PoolView") -> str:
    """What it draws, and of how much."""
    cap = pool.terms.power_cap_watts
    return f"{pool.power_watts:,.0f}/{cap:,.0f}W" if cap else f"{pool.power_watts:,.0f}W"


def _mock(pool: "PoolView") -> str:
    """ " mock" when all are, " (2 mock)" when some are."""
    if not pool.mock_gpus:
        return ""
    return " mock" if pool.mock_gpus == pool.gpus else f" ({pool.mock_gpus} mock)"


def _starts(pool: "PoolView") -> str:
    return _when(pool.shapes[0], time.time()) if pool.shapes else ""


def _models(pool: "PoolView") -> str:
    mock = "mock " if pool.gpus and pool.mock_gpus == pool.gpus else ""
    return ", ".join(f"{count} x {mock}{model}" for model, count in pool.gpu_models.items())


def _when(eta: "ShapeEta", now: float) -> str:
    from ares.edge.cli.render.explanation import when

    return "never" if eta.starts is None else when(eta.starts, now)


POOLS: "Columns[PoolView]" = {
    "NAME": lambda pool: pool.name,
    "READY": lambda pool: f"{pool.ready_nodes}/{pool.nodes}",
    "CPUS": lambda pool: f"{cpus(pool.cpu_milli_free)}/{cpus(pool.cpu_milli)}",
    "MEMORY": lambda pool: f"{memory(pool.memory_mib_free)}/{memory(pool.memory_mib)}",
    "GPUS": lambda pool: f"{pool.gpus_free}/{pool.gpus}{_mock(pool)}",
    "RESERVED": lambda pool: str(pool.gpus_reserved),
    "PENDING": lambda pool: str(pool.pending_jobs),
    "POWER": power,
    "STARTS": _starts,
    "MODELS": _models,
}


@click.command()
@click.argument("name", required=False)
@click.option("--gpus", type=click.IntRange(0), metavar="N", help="When a job with so many GPUs would start.")
@click.option("--gpu-model", help="Of this model, such as H100.")
@click.option("--cpus", metavar="N", help="With so many CPUs.  [default: 1 for each GPU]")
@click.option("--memory", "--mem", metavar="SIZE", help="With so much memory.  [default: 1G for each GPU]")
@click.option("--ranks", type=click.IntRange(1), metavar="N", help="As a gang of so many ranks.")
@click.option("--runtime", metavar="TIME", help="That runs for so long.  [default: 1h]")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def pools(ctx: click.Context, name: str | None, output: str, **shape: Any) -> None:
    """Lists the pools of machines, or shows one.

    READY is nodes; CPUS, MEMORY and GPUS are free/total; RESERVED is GPUs booked now; POWER is what the pool
    draws by the model, of its cap where it has one. Sizes of jobs say when such a job would start if it were
    submitted now:

    \b
      ares pools --gpus 8 --ranks 4 --runtime 2h
      ares pools gold
    """
    from ares.edge.client.calls import operator

    given = {key: value for key, value in shape.items() if value is not None}
    client, asked = connect(ctx), operator.pool_shape(**given)
    if name is not None:
        tell(client, operator.pool(name, asked), lambda pool: "\n".join(page(pool, time.time())), output)
        return
    columns = {header: cell for header, cell in POOLS.items() if given or header != "STARTS"}
    show(client, operator.pools(asked), columns, output, of="pools")


def page(pool: "PoolView", now: float) -> list[str]:
    """The lines of `ares pools NAME`."""
    from ares.edge.cli.commands.reserve import moment
    from ares.edge.cli.render.explanation import section

    terms = pool.terms
    out = [f"{pool.cordoned_nodes} cordoned"] * bool(pool.cordoned_nodes)
    out += [f"{pool.drained_nodes} drained"] * bool(pool.drained_nodes)
    spot = f", spot: {terms.spot_factor:.0%} of it is due" if terms.spot else ""
    price = f"{terms.gpu_hour:g} a GPU-hour, {terms.cpu_hour:g} a CPU-hour{spot}"
    cap = f" of the {terms.power_cap_watts:,.0f} W it may" if terms.power_cap_watts else " W"
    held = f"{pool.gpus_free} free, {pool.gpus_held} held, {pool.gpus_kept} kept for jobs that others leave for"
    facts = [
        ("Nodes", ", ".join((f"{pool.ready_nodes} of {pool.nodes} ready", *out))),
        ("GPUs", f"{pool.gpus}{_mock(pool)}: {held}, {pool.gpus_reserved} reserved" if pool.gpus else ""),
        ("CPUs", f"{cpus(pool.cpu_milli_free)} of {cpus(pool.cpu_milli)} free"),
        ("Memory", f"{memory(pool.memory_mib_free)} of {memory(pool.memory_mib)} free"),
        ("Models", _models(pool)),
        ("Jobs", f"{pool.running_jobs} running, {pool.pending_jobs} waiting that could run here"),
        ("Power", f"draws {pool.power_watts:,.0f}{cap}"),
        ("Price", price if terms.gpu_hour or terms.cpu_hour or terms.spot else ""),
    ]
    lines = [printable(pool.name)]
    lines += [f"  {label:<10}{printable(text)}" for label, text in facts if text]
    shapes = (
        (eta.shape.words, _when(eta, now), eta.never if eta.starts is None else eta.starts.basis) for eta in pool.shapes
    )
    lines += section("A job submitted now would start", ("SIZE", "STARTS", "BECAUSE"), shapes)
    booked = (
        (
            reservation.name or "of another tenant",
            reservation.state,
            str(reservation.gpus),
            cpus(reservation.cpu_milli),
            moment(reservation.start),
            moment(reservation.until),
        )
        for reservation in pool.reservations
    )
    lines += section("Reserved", ("NAME", "STATE", "GPUS", "CPUS", "FROM", "UNTIL"), booked)
    promised = (
        (
            promise.job or "of another tenant",
            amount(promise.gpus),
            str(promise.nodes),
            f"in {duration(promise.start - now)}" if promise.start > now else "now",
            "unknown" if promise.until is None else f"in {duration(promise.until - now)}",
        )
        for promise in pool.promises
    )
    return [*lines, *section("Held for jobs that wait", ("JOB", "GPUS", "NODES", "FROM", "UNTIL"), promised)]
