"""`ares profile shadow`: a profile that is tried on the jobs that come, without being in force."""

from typing import TYPE_CHECKING

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.options import read_pairs
from ares.edge.cli.profile_file import read_profile
from ares.edge.cli.render.output import answer, output_option, tell
from ares.edge.cli.render.text import age

if TYPE_CHECKING:
    from ares.edge.cli.render.table import Columns
    from ares.model.profile import ShadowRecord

_note = click.option("--note", default="", help="Why, for those who look at the history.")
# What the verdict goes by, and what is shown beside it.
_FIGURES: "tuple[tuple[str, str, float, str], ...]" = (
    ("bounded slowdown", "bounded_slowdown", 1.0, ""),
    ("mean wait", "mean_wait_s", 60.0, " min"),
    ("95 % wait", "p95_wait_s", 60.0, " min"),
    ("99.9 % wait", "p999_wait_s", 60.0, " min"),
    ("longest wait", "longest_wait_s", 60.0, " min"),
    ("mean JCT", "mean_jct_s", 60.0, " min"),
)
_FIGURE_COLUMNS: "Columns[tuple[str, str, str]]" = {
    "FIGURE": lambda row: row[0],
    "IN FORCE": lambda row: row[1],
    "SHADOW": lambda row: row[2],
}
_PHASES = {
    "held": "is tried",
    "promoted": "is in force as version {record.version}, and is judged on against version {record.former_version}",
    "reverted": "was worse and was taken back; version {record.version} is as it was before",
    "superseded": "was in force as version {record.version}, until another version was put in force",
}


@click.group()
def shadow() -> None:
    """Tries a profile on the jobs that come; it is not in force.

    The jobs that came since it was begun are replayed under the profile in force and under the shadow, in a process
    of its own. What is found is said with its interval. Then put it in force, or let it come into force when it is
    better; if it turns out to be worse, it is taken back by itself.
    """


@shadow.command(name="set")
@click.argument("settings", nargs=-1, metavar="[KEY=VALUE]...", callback=read_pairs)
@click.option("-f", "--file", "name", metavar="FILE", help="A whole profile, as `ares tune --write` writes it.")
@click.option(
    "--objective",
    type=click.Choice(("slowdown", "wait", "jct")),
    default="slowdown",
    show_default=True,
    help="What it is judged by; the longest wait is a limit in any case.",
)
@click.option(
    "--promote",
    "promotes",
    type=click.Choice(("by-hand", "when-better")),
    default="by-hand",
    show_default=True,
    help="Whether it comes into force by itself once it is surely better.",
)
@_note
@output_option("table", "json", "yaml")
@click.pass_context
def set_(
    ctx: click.Context, settings: dict[str, str], name: str | None, objective: str, promotes: str, note: str,
    output: str,
) -> None:  # fmt: skip
    """Begins to try a profile, in place of the one tried before.

    \b
      ares profile shadow set backfill.order=shortest
      ares profile shadow set -f tuned.json --promote when-better
    """
    from ares.edge.client.calls import operator

    if bool(settings) == (name is not None):
        raise click.UsageError("give either settings, as KEY=VALUE, or -f FILE with a whole profile")
    tried = {"settings": settings} if name is None else {"profile": read_profile(name)[0]}
    then = "comes into force once it is better" if promotes == "when-better" else "`ares profile shadow promote`"
    tell(
        connect(ctx),
        operator.put_shadow(tried, objective, promotes, note),
        lambda _: f"the jobs that come from now on are tried under it; `ares profile shadow show`; {then}",
        output,
    )


@shadow.command(name="show")
@output_option("table", "json", "yaml")
@click.pass_context
def show_(ctx: click.Context, output: str) -> None:
    """Prints what is tried and what was found."""
    from ares.core.shadow import sentence
    from ares.edge.cli.render.table import print_records
    from ares.edge.client.calls import operator

    record = answer(connect(ctx), operator.shadow(), output, lambda _: [])
    if record is None:
        return
    note = f": {record.note}" if record.note else ""
    click.echo(f"{_PHASES[record.phase].format(record=record)}; begun {age(record.at)} ago by {record.by}{note}")
    click.echo(f"judged by {record.objective}, put in force {record.promotes}; {record.told}")
    found = record.judgement
    if found is None:
        click.echo("not judged yet: that takes 100 jobs that came since and have ended, and a minute")
        return
    click.echo(f"\n{sentence(found)}\n")
    rows = [
        (title, f"{getattr(found.base, field) / unit:,.2f}{of}", f"{getattr(found.shadow, field) / unit:,.2f}{of}")
        for title, field, unit, of in _FIGURES
    ]
    print_records(_FIGURE_COLUMNS, rows, of="figures")


@shadow.command()
@_note
@output_option("table", "json", "yaml")
@click.pass_context
def promote(ctx: click.Context, note: str, output: str) -> None:
    """Puts the shadow in force, whatever was found.

    It is judged on, against what was in force before, and taken back by itself if it is worse.
    """
    from ares.edge.client.calls import operator

    tell(
        connect(ctx),
        operator.promote_shadow(note),
        lambda made: f"version {made.version} is in force; `ares profile revert {made.version - 1}` takes it back",
        output,
    )


@shadow.command()
@output_option("table", "json", "yaml")
@click.pass_context
def end(ctx: click.Context, output: str) -> None:
    """Tries it no longer, and judges it no longer. What is in force stays in force."""
    from ares.edge.client.calls import operator

    tell(connect(ctx), operator.delete_shadow(), _ended, output)


def _ended(record: "ShadowRecord") -> str:
    if record.phase == "promoted":
        return f"version {record.version} stays in force and is no longer taken back by itself"
    return "the shadow profile is gone; what is in force is as it was"
