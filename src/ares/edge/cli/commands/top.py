"""`ares top`: what running jobs use now."""

import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from ares.edge.cli.options import read_seconds
from ares.edge.cli.render.output import output_option, print_objects
from ares.edge.cli.replicas import Replicas

if TYPE_CHECKING:
    from ares.api.job_sessions import LiveUse, RankUse

_CLEAR: Final = "\x1b[H\x1b[2J"
_BY: Final[dict[str, "Callable[[RankUse], str]"]] = {
    "job": lambda use: use.job,
    "node": lambda use: use.node,
    "tenant": lambda use: use.tenant,
    "user": lambda use: use.user,
}


@click.command()
@click.option("--by", type=click.Choice(tuple(_BY)), default="job", show_default=True, help="A line for each of these.")
@click.option("--once", is_flag=True, help="Print it once.")
@click.option(
    "--every", metavar="TIME", default="2s", show_default=True, callback=read_seconds, help="How often to look."
)
@output_option("table", "json", "yaml", "name")
@click.pass_context
def top(ctx: click.Context, by: str, once: bool, every: float, output: str) -> None:
    """Shows what running jobs use now: CPU, memory, processes, GPUs.

    Busiest first, beside what was asked for. On a terminal it goes on until Ctrl-C; otherwise, and with --once or
    another output, it is printed once.
    """
    while True:
        found = _looked(ctx)
        if output != "table":
            print_objects(output, _whole(found), lambda answer: [use["job"] for use in answer["ranks"]])
            return
        live = sys.stdout.isatty() and not once
        if live:
            click.echo(_CLEAR, nl=False)
        _print(found, by)
        if not live:
            return
        time.sleep(max(0.2, every))


def _looked(ctx: click.Context) -> "LiveUse":
    """Each replica is asked: nodes are connected to one of them."""
    from ares.api.job_sessions import LiveUse

    answers = list(Replicas(ctx).ask(lambda client: client.use()))
    ranks = {(use.job, use.rank): use for answer in answers for use in answer.ranks}
    unasked = [set(answer.unasked) for answer in answers]
    return LiveUse(ranks=tuple(ranks.values()), unasked=tuple(sorted(set[str].intersection(*unasked))))


def _whole(found: "LiveUse") -> Any:
    import msgspec

    return msgspec.to_builtins(found)


def _print(found: "LiveUse", by: str) -> None:
    from ares.edge.cli.render.table import print_table
    from ares.edge.cli.render.text import printable

    groups: dict[str, list[RankUse]] = {}
    for use in found.ranks:
        groups.setdefault(_BY[by](use), []).append(use)
    rows = sorted((_row(by, name, uses) for name, uses in groups.items()), key=lambda row: -float(row[-4].split()[0]))
    head = ("JOB", "NAME", "USER", "NODE") if by == "job" else (by.upper(), "JOBS")
    print_table((*head, "CPUS", "MEMORY", "PROCESSES", "GPUS"), rows, of="running jobs")
    if found.unasked:
        click.echo(f"not asked: {printable(', '.join(found.unasked))}, connected to no replica known here", err=True)


def _row(by: str, name: str, uses: "Sequence[RankUse]") -> tuple[str, ...]:
    from ares.edge.cli.render.text import memory

    first = uses[0]
    nodes = sorted({use.node for use in uses})
    place = nodes[0] if len(nodes) == 1 else f"{len(nodes)} nodes"
    head = (name, first.name, first.user, place) if by == "job" else (name, str(len({use.job for use in uses})))
    used, asked = sum(use.memory_bytes for use in uses), sum(use.memory_asked_bytes for use in uses)
    return (
        *head,
        f"{sum(use.cpus for use in uses):.2f} of {sum(use.cpus_asked for use in uses):g}",
        f"{memory(used >> 20)} of {memory(asked >> 20)}",
        str(sum(use.processes for use in uses)),
        gpus_now(uses),
    )


def gpus_now(uses: "Sequence[RankUse]") -> str:
    """1.70 of 2, 40Gi; 2 mock; or only how many where no more is known."""
    from ares.edge.cli.render.text import memory

    count = sum(len(use.gpus) for use in uses)
    if any(use.mock_gpus for use in uses):
        return f"{count} mock"
    known = [use for use in uses if use.gpus_busy is not None]
    if not known:
        return str(count)
    used = sum(use.gpu_memory_bytes or 0 for use in known)
    return f"{sum(use.gpus_busy or 0.0 for use in known):.2f} of {count}, {memory(used >> 20)}"
