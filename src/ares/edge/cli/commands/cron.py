"""`ares cron`: jobs that are made again and again."""

import time
from typing import TYPE_CHECKING, Any

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.job_flags import asked, job_options, layers
from ares.edge.cli.render.output import answer, output_option, show, tell
from ares.edge.cli.render.text import printable
from ares.edge.cli.shipping import with_python

if TYPE_CHECKING:
    from ares.api.jobs import CronView
    from ares.edge.cli.render.table import Columns


def _at(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M %Z", time.localtime(seconds))


def _last(cron: "CronView") -> str:
    if not cron.history:
        return "-"
    newest = cron.history[0]
    return f"{_at(newest.at)} {newest.outcome}{f' {newest.job}' if newest.job else ''}"


CRONS: "Columns[CronView]" = {
    "NAME": lambda cron: cron.name,
    "SCHEDULE": lambda cron: cron.schedule,
    "ZONE": lambda cron: cron.zone,
    "STATE": lambda cron: "paused" if cron.paused else "active",
    "NEXT": lambda cron: _at(cron.next_at[0]) if cron.next_at else "-",
    "LAST": _last,
    "BY": lambda cron: cron.created_by,
}


@click.group()
def cron() -> None:
    """Makes jobs at set times."""


@cron.command("add")
@click.option("--zone", metavar="NAME", default="UTC", show_default=True, help="Time zone: Europe/Berlin.")
@click.option(
    "--missed",
    type=click.Choice(("skip", "once")),
    default="skip",
    show_default=True,
    help="What becomes of moments at which no server was there: nothing, or one job for all of them.",
)
@click.option(
    "--overlap",
    type=click.Choice(("allow", "forbid", "replace")),
    default="forbid",
    show_default=True,
    help="While an earlier job has not ended: another one, none, or another one in its place.",
)
@click.argument("cron_name", metavar="NAME")
@click.argument("schedule")
@job_options
@output_option("table", "json", "yaml", "name")
@click.pass_context
def add(
    ctx: click.Context, cron_name: str, schedule: str, command: tuple[str, ...], zone: str, missed: Any, overlap: Any,
    output: str, **flags: Any,
) -> None:  # fmt: skip
    """Makes a schedule, or changes the one of that name.

    SCHEDULE has five fields: minute, hour, day of month, month, day of week. @hourly, @daily, @weekly and
    @monthly are short for some. The options of `ares submit` say what each job is; they come after SCHEDULE.

    \b
      ares cron add nightly "30 3 * * *" --memory 4G -- python report.py
      ares cron add --zone Europe/Berlin --overlap replace poll "*/10 8-18 * * MON-FRI" -f poll.yaml
    """
    from ares.api.jobs import CronBody
    from ares.edge.client.calls import crons

    if flags.get("name") is None:
        flags["name"] = cron_name
    said, client = layers(command, flags), connect(ctx)
    # A schedule goes on when this shell is gone: only an environment that is named is meant.
    spec = with_python(client, asked(said), said, active=False)
    body = CronBody(schedule=schedule, spec=spec, zone=zone, missed=missed, overlap=overlap)

    def words(kept: "CronView") -> str:
        return f"{kept.name} makes its first job at {_at(kept.next_at[0])}"

    tell(client, crons.set_cron(cron_name, body), words, output)


@cron.command("ls")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def ls(ctx: click.Context, output: str) -> None:
    """Lists schedules, with their next moment and what came of the last."""
    from ares.edge.client.calls import crons

    show(connect(ctx), crons.crons(), CRONS, output, of="schedules")


@cron.command("show")
@click.argument("name")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def show_(ctx: click.Context, name: str, output: str) -> None:
    """Shows a schedule, its next moments and its history."""
    from ares.edge.client.calls import crons

    found = answer(connect(ctx), crons.cron(name), output)
    if found is None:
        return
    state = f"paused: {printable(found.paused)}" if found.paused else "active"
    click.echo(f"{found.name}  {found.schedule}  {found.zone}  {state}")
    click.echo(f"missed: {found.missed}  overlap: {found.overlap}  by: {printable(found.created_by)}")
    click.echo(f"command: {printable(' '.join(found.spec.command))}")
    for moment in found.next_at:
        click.echo(f"next: {_at(moment)}")
    for firing in found.history:
        said = f" {printable(firing.message)}" if firing.message else ""
        click.echo(f"{_at(firing.at)}  {firing.outcome}{f' {firing.job}' if firing.job else ''}{said}")


@cron.command("rm")
@click.argument("name")
@click.pass_context
def rm(ctx: click.Context, name: str) -> None:
    """Removes a schedule. Jobs that it made stay."""
    connect(ctx).remove_cron(name)
    click.echo(f"{name} is removed")


@cron.command("pause")
@click.argument("name")
@click.option("--reason", default="", help="Shown with the schedule.")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def pause(ctx: click.Context, name: str, reason: str, output: str) -> None:
    """Lets a schedule make no jobs until it is resumed."""
    from ares.edge.client.calls import crons

    tell(
        connect(ctx),
        crons.pause_cron(name, reason),
        lambda kept: f"{kept.name} is paused: {printable(kept.paused)}",
        output,
    )


@cron.command("resume")
@click.argument("name")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def resume(ctx: click.Context, name: str, output: str) -> None:
    """Lets a paused schedule go on.

    It goes on from now: what it missed is not made up for.
    """
    from ares.edge.client.calls import crons

    tell(connect(ctx), crons.resume_cron(name), lambda kept: f"{kept.name} goes on at {_at(kept.next_at[0])}", output)
