"""`ares reserve`, `ares reservations` and `ares reservation`: room booked ahead."""

import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.render.output import answer, output_option, show, tell
from ares.edge.cli.render.text import cpus, duration, memory, printable

if TYPE_CHECKING:
    from ares.api.reservations import ReservationView
    from ares.edge.cli.render.table import Columns


def moment(at: float) -> str:
    """In local time, as people plan by it."""
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M")


def _jobs(booking: "ReservationView") -> str:
    return f"{booking.running} running, {booking.waiting} waiting"


RESERVATIONS: "Columns[ReservationView]" = {
    "NAME": lambda booking: booking.name or "(of another tenant)",
    "STATE": lambda booking: booking.state,
    "TENANT": lambda booking: booking.tenant,
    "GPUS": lambda booking: str(booking.gpus),
    "CPUS": lambda booking: cpus(booking.cpu_milli),
    "MEMORY": lambda booking: memory(booking.memory_mib),
    "NODES": lambda booking: str(len(booking.placements)),
    "FROM": lambda booking: moment(booking.start),
    "UNTIL": lambda booking: moment(booking.until),
    "JOBS": lambda booking: _jobs(booking) if booking.running or booking.waiting else "",
}


@click.command()
@click.option("--gpus", type=click.IntRange(0), metavar="N", help="GPUs in all.")
@click.option("--gpu-model", help="Only this model, such as H100.")
@click.option("--cpus", metavar="N", help="CPUs in all.  [default: the GPUs' part of their machines]")
@click.option("--memory", "--mem", metavar="SIZE", help="Memory in all: 256G.  [default: likewise]")
@click.option("--nodes", type=click.IntRange(1), metavar="N", help="On so many machines; whole ones without --gpus.")
@click.option("--node", "node_names", multiple=True, metavar="NAME", help="On this machine. May be repeated.")
@click.option("--pool", metavar="NAME", help="Only in this pool.")
@click.option("--from", "start", default="now", show_default=True, metavar="WHEN", help="+2h, or 2026-12-01T18:00.")
@click.option("--for", "length", required=True, metavar="TIME", help="How long: 4h, 1d12h.")
@click.option("--tenant", metavar="NAME", help="Whose jobs may use it.  [default: your own tenant]")
@click.option("--team", "teams", multiple=True, metavar="NAME", help="Only this team of it. May be repeated.")
@click.option(
    "--user", "users", multiple=True, metavar="TOKEN", help="Only this token, by name or id. May be repeated."
)
@click.option("--name", metavar="NAME", help="To use it by.  [default: drawn]")
@click.option("--note", metavar="TEXT", help="What it is for.")
@click.option(
    "--release-unused", "unused_release", metavar="TIME", help="Give it up when unused for so long.  [default: 10m]"
)
@output_option("table", "json", "yaml", "name")
@click.pass_context
def reserve(ctx: click.Context, output: str, **flags: Any) -> None:
    """Books room ahead.

    \b
      ares reserve --gpus 64 --gpu-model H100 --from 2026-12-01T18:00 --for 4h --tenant alpha --name demo
      ares reserve --nodes 2 --from +2h --for 1d

    Other jobs are planned around it: until it begins they may use the room as far as they end in time.
    Jobs use it with `ares submit --reservation NAME`.
    """
    from ares.edge.client.calls import reservations

    given = {key: value for key, value in flags.items() if value not in (None, ())}
    booked = answer(connect(ctx), reservations.reserve(**given), output)
    if booked is not None:
        click.echo(f"reserved {booked.name}: {room(booked)} on {where(booked)}, {window(booked)}")
        click.echo(f"use it with: ares submit --reservation {booked.name} ...", err=True)


@click.command()
@click.option("--all", "over", is_flag=True, help="Also those that are over.")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def reservations(ctx: click.Context, over: bool, output: str) -> None:
    """Lists room that is booked ahead. Other tenants' reservations have no name."""
    from ares.edge.client.calls import reservations

    show(connect(ctx), reservations.reservations(over=over), RESERVATIONS, output, of="reservations")


@click.group()
def reservation() -> None:
    """Shows and changes one reservation."""


@reservation.command("show")
@click.argument("name")
@output_option("table", "json", "yaml")
@click.pass_context
def show_reservation(ctx: click.Context, name: str, output: str) -> None:
    """Prints all there is to know about a reservation."""
    from ares.edge.client.calls import reservations

    tell(connect(ctx), reservations.reservation(name), lambda view: "\n".join(page(view, time.time())), output)


@reservation.command()
@click.argument("name")
@click.option("--reason", default="", help="Why, for those who look at it.")
@output_option("table", "json", "yaml")
@click.pass_context
def cancel(ctx: click.Context, name: str, reason: str, output: str) -> None:
    """Gives its room back. What runs in it goes on."""
    from ares.edge.client.calls import reservations

    tell(
        connect(ctx),
        reservations.cancel(name, reason),
        lambda view: f"{view.name} cancelled; {view.running} running go on, {view.waiting} waiting wait for any room",
        output,
    )


@reservation.command()
@click.argument("name")
@click.option("--for", "more", required=True, metavar="TIME", help="How much longer: 2h.")
@output_option("table", "json", "yaml")
@click.pass_context
def extend(ctx: click.Context, name: str, more: str, output: str) -> None:
    """Lets it last longer, in the same room."""
    from ares.edge.client.calls import reservations

    call = reservations.extend(name, more)
    tell(connect(ctx), call, lambda view: f"{view.name} lasts until {moment(view.until)}", output)


# ---- for people


def page(view: "ReservationView", now: float) -> list[str]:
    """The lines of `ares reservation show`."""
    from ares.edge.cli.render.explanation import section

    who = ", ".join((*(f"team {team}" for team in view.teams), *view.users)) or "the whole tenant"
    used = "never" if view.used_at is None else f"{duration(now - view.used_at)} ago"
    gives_up = f"given up after {duration(view.unused_release_s)} unused" if view.unused_release_s else "kept if unused"
    facts = [
        ("Room", f"{room(view)} on {where(view)}"),
        ("Window", f"{window(view)} ({_away(view, now)})"),
        ("For", f"{view.tenant}: {who}"),
        ("Jobs", _jobs(view)),
        ("Last used", f"{used}; {gives_up}"),
        ("In the way", f"{view.strangers} jobs that do not belong there" if view.strangers else ""),
        ("Missing", f"{', '.join(view.missing[:8])}: gone, cordoned or silent" if view.missing else ""),
        ("Note", view.note),
    ]
    lines = [f"{printable(view.name)}  {view.state}"]
    lines += [f"  {label:<12}{printable(text)}" for label, text in facts if text]
    nodes = (
        (place.node, ",".join(map(str, place.gpus)), cpus(place.cpu_milli), memory(place.memory_mib))
        for place in view.placements
    )
    lines += section("Where", ("NODE", "GPUS", "CPUS", "MEMORY"), nodes)
    turns = ((moment(turn.at), turn.state, turn.by, turn.why) for turn in view.history)
    return [*lines, *section("What happened", ("AT", "STATE", "BY", "WHY"), turns)]


def _away(view: "ReservationView", now: float) -> str:
    if view.state not in ("planned", "active"):
        return view.state
    if now < view.start:
        return f"begins in {duration(view.start - now)}"
    return f"ends in {duration(view.until - now)}"


def room(view: "ReservationView") -> str:
    gpus = f"{view.gpus} GPU{'' if view.gpus == 1 else 's'}, " if view.gpus else ""
    return f"{gpus}{cpus(view.cpu_milli)} CPUs, {memory(view.memory_mib)}"


def where(view: "ReservationView") -> str:
    names = [place.node for place in view.placements]
    return ", ".join(names) if len(names) <= 4 else f"{len(names)} machines"


def window(view: "ReservationView") -> str:
    return f"from {moment(view.start)} until {moment(view.until)}"
