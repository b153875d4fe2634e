"""`ares node drain`, `undrain`, `taint`, `untaint`, `rm`, and `ares consolidate`."""

import time
from typing import TYPE_CHECKING, Any

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.render.output import output_option, print_objects, tell

if TYPE_CHECKING:
    from ares.api.nodes import ConsolidationView, DrainStatus, MoveView
    from ares.edge.cli.render.table import Columns

MOVES: "Columns[MoveView]" = {
    "JOB": lambda move: move.job,
    "NAME": lambda move: move.name,
    "TENANT": lambda move: move.tenant,
    "GPUS": lambda move: f"{move.gpus:g}",
    "FROM": lambda move: ",".join(move.origin),
    "TO": lambda move: ",".join(move.to),
    "LOST GPU-S": lambda move: f"{move.lost_gpu_s:,.0f}",
}
_POLL_S = 1.0
_TAINT_EFFECTS = ("no-schedule", "prefer-not")
# The exit code that says "no moves would do it". Documented in docs/guides/drain.md.
NO_PLAN = 3


@click.command()
@click.argument("name", metavar="NODE")
@click.option("--reason", default="", help="Why, for those whose jobs are moved.")
@click.option("--wait", is_flag=True, help="Returns when nothing is left on it.")
@output_option("table", "json", "yaml")
@click.pass_context
def drain(ctx: click.Context, name: str, reason: str, wait: bool, output: str) -> None:
    """Moves everything off a machine and keeps new jobs away.

    Jobs get their checkpoint signal and time to save, and go on elsewhere. Those that do not allow
    preemption are left to end by themselves, and named. `ares node undrain` lets jobs back.
    """
    from ares.edge.client.calls import operator

    client = connect(ctx)
    call = operator.drain(name, reason)
    raw: Any = client.send(call.raw())
    status, said = call.read(raw), ""
    while wait and not status.done:
        said = _say(status, said, output)
        time.sleep(_POLL_S)
        raw = client.send(operator.drain_status(name).raw())
        status = call.read(raw)
    if not print_objects(output, raw, lambda _: []):
        _say(status, said, output)


def _say(status: "DrainStatus", said: str, output: str) -> str:
    """Only what is new."""
    if output == "table" and status.message != said:
        click.echo(f"{status.node}: {status.message}")
    return status.message


@click.command()
@click.argument("name", metavar="NODE")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def undrain(ctx: click.Context, name: str, output: str) -> None:
    """Lets jobs on a drained machine again. What was moved away stays where it is."""
    from ares.edge.client.calls import operator

    tell(
        connect(ctx),
        operator.undrain(name),
        lambda node: f"{node.name} takes jobs again; {node.running} running",
        output,
    )


@click.command()
@click.argument("name", metavar="NODE")
@click.argument("taint", metavar="KEY[=VALUE][:EFFECT]")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def taint(ctx: click.Context, name: str, taint: str, output: str) -> None:
    """Keeps jobs away that do not tolerate it.

    EFFECT is no-schedule, which they cannot pass, or prefer-not, which they avoid.
    """
    from ares.edge.client.calls import operator

    pair, _, effect = taint.partition(":")
    key, _, value = pair.partition("=")
    if effect and effect not in _TAINT_EFFECTS:
        raise click.UsageError(f"there is no effect {effect!r}; it is {' or '.join(_TAINT_EFFECTS)}", ctx)
    effect = effect or "no-schedule"
    tell(
        connect(ctx),
        operator.taint(name, key, value, effect),
        lambda node: f"{node.name} tainted {pair}:{effect}; {node.running} running",
        output,
    )


@click.command()
@click.argument("name", metavar="NODE")
@click.argument("key")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def untaint(ctx: click.Context, name: str, key: str, output: str) -> None:
    """Takes away the taints of a KEY that were set by `ares node taint`."""
    from ares.edge.client.calls import operator

    tell(connect(ctx), operator.untaint(name, key), lambda node: f"{node.name} has no taint {key} of ours", output)


@click.command()
@click.argument("name", metavar="NODE")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def rm(ctx: click.Context, name: str, output: str) -> None:
    """Forgets a machine that is gone for good.

    Refused while its agent is alive or a job holds something there. One of that name that joins
    later is a new one: not drained, not tainted.
    """
    from ares.edge.client.calls import operator

    tell(connect(ctx), operator.remove_node(name), lambda node: f"{node.name} removed", output)


@click.command()
@click.option("--gpus", type=click.IntRange(1, 64), required=True, metavar="N", help="So many free GPUs...")
@click.option(
    "--nodes", type=click.IntRange(1, 1000), default=1, show_default=True, metavar="N", help="...on each of so many."
)
@click.option("--apply", "revision", metavar="REVISION", help="Carries out the plan that was shown under this name.")
@output_option("table", "json", "yaml")
@click.pass_context
def consolidate(ctx: click.Context, gpus: int, nodes: int, revision: str | None, output: str) -> None:
    """Plans moves of running jobs that bring free GPUs together.

    Shows what it costs and changes nothing. With --apply it does exactly what was shown, or, if that
    is no longer possible, nothing, and shows what would be possible now. Exit code 0 if there is a plan
    or it was carried out, or the room is there already; 1 if --apply moved nothing; 3 if there is no plan.
    """
    from ares.edge.client.calls import operator

    call = operator.consolidate(gpus, nodes, revision or "")
    raw: Any = connect(ctx).send(call.raw())
    found = call.read(raw)
    if not print_objects(output, raw, lambda _: []):
        _print_plan(found)
    if revision and not found.applied:
        ctx.exit(1)
    if not found.moves and found.before < found.nodes:
        ctx.exit(NO_PLAN)


def _print_plan(found: "ConsolidationView") -> None:
    from ares.edge.cli.render.table import print_records

    if found.moves:
        print_records(MOVES, found.moves, of="moves")
        moves = f"{len(found.moves)} move{'' if len(found.moves) == 1 else 's'}"
        click.echo(
            f"nodes with {found.gpus} free GPUs: {found.before} now, {found.after} after {moves}; "
            f"{found.lost_gpu_s:,.0f} GPU-seconds of work are repeated"
        )
    if found.message:
        click.echo(found.message)
    if found.moves and not found.applied:
        click.echo(f"carry it out: ares consolidate --gpus {found.gpus} --nodes {found.nodes} --apply {found.revision}")
