"""`ares series`: how numbers of the platform went over time."""

from typing import TYPE_CHECKING

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.options import read_seconds
from ares.edge.cli.render.output import answer, output_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ares.api.telemetry.series import SeriesAnswer, SeriesPoints

_LINE = 60
_BARS = " ▁▂▃▄▅▆▇█"


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--since", metavar="TIME", default="1h", show_default=True, callback=read_seconds, help="How far back.")
@output_option("table", "json", "yaml")
@click.pass_context
def series(ctx: click.Context, names: tuple[str, ...], since: float, output: str) -> None:
    """Draws numbers of the platform over time.

    They are those that the server itself remembers. Without NAME, lists all of them with their newest
    values. A counter is NAME:rate, per second; a histogram NAME:p50, NAME:p95, NAME:p99 and NAME:rate.
    Two hours are kept by 10 s, two days by minutes, 90 days by quarters of an hour. For operators.
    """
    from ares.edge.client.calls import operator

    found = answer(connect(ctx), operator.series(names, since), output)
    if found is None:
        return
    if not found.series:
        click.echo("no series of that name is remembered; `ares series` lists those that are", err=True)
    for line in lines(found, drawn=bool(names)):
        click.echo(line)


def lines(found: "SeriesAnswer", *, drawn: bool) -> list[str]:
    """One for each series."""
    width = max((len(_named(each)) for each in found.series), default=0)
    return [
        f"{_named(each):<{width}}  {'-' if each.latest is None else f'{each.latest:.6g}':>12}"
        + (f"  |{_line(each.points)}|" if drawn else "")
        for each in found.series
    ]


def _named(series: "SeriesPoints") -> str:
    from ares.edge.cli.render.text import printable

    labels = ",".join(f"{label}={value}" for label, value in series.labels.items())
    return printable(f"{series.name}{{{labels}}}" if labels else series.name)


def _line(points: "Sequence[float | None]") -> str:
    """The whole time in so many signs, each the mean of its part; nothing where nothing was measured."""
    most = max((point for point in points if point is not None), default=0.0) or 1.0
    drawn = ""
    for at in range(_LINE):
        part = points[at * len(points) // _LINE : max(at * len(points) // _LINE + 1, (at + 1) * len(points) // _LINE)]
        known = [point for point in part if point is not None]
        drawn += " " if not known else _BARS[max(1, round(8 * max(0.0, sum(known) / len(known)) / most))]
    return drawn
