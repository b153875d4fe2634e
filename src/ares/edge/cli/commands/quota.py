"""`ares quota`: what tenants, teams and users may have, and how much of it is in use."""

import time
from typing import TYPE_CHECKING

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.render.output import answer, output_option, show
from ares.edge.cli.render.text import duration

if TYPE_CHECKING:
    from ares.api.quotas import LentView, LevelUse, QuotaView
    from ares.edge.cli.render.table import Columns
    from ares.edge.client.calls.calls import Call

_BAR = 20
_UNITS = {"cpu": "cores", "memory": "GiB", "storage": "GiB", "egress": "GiB", "transfer": "MB/s"}


def _amount(number: float | None) -> str:
    return "" if number is None else f"{number:,.2f}".rstrip("0").rstrip(".")


def bar(use: "LevelUse") -> str:
    """How full it is, in twentieths; `!` where it is beyond its limit."""
    if use.limit is None:
        return ""
    part = use.used / use.limit if use.limit else float(use.used > 0)
    full = min(_BAR, round(part * _BAR))
    return f"[{'#' * full}{'.' * (_BAR - full)}] {part:.0%}{'!' if part > 1 else ''}"


def fullest(view: "QuotaView") -> str:
    """The measure of which the largest part is used."""
    parts = [(use.used / use.limit, use.measure) for use in view.uses if use.limit]
    part, measure = max(parts, key=lambda found: found[0], default=(0.0, ""))
    return f"{measure} {part:.0%}" if measure else ""


USES: "Columns[LevelUse]" = {
    "WHAT": lambda use: f"{use.measure} ({_UNITS[use.measure]})" if use.measure in _UNITS else use.measure,
    "USED": lambda use: _amount(use.used),
    "LIMIT": lambda use: _amount(use.limit),
    "FREE": lambda use: _amount(use.free),
    "SOFT": lambda use: _amount(use.soft),
    "": bar,
}
QUOTAS: "Columns[QuotaView]" = {
    "TENANT": lambda view: view.tenant,
    "LIMITS": lambda view: str(0 if view.quota is None else len(view.quota.own.amounts)),
    "FULLEST": fullest,
    "PRIORITY": lambda view: "" if view.quota is None else view.quota.own.priority or "",
    "THRESHOLD": lambda view: "" if view.quota is None else f"{view.quota.threshold:.0%}",
    "NOTE": lambda view: view.note,
}
# What clusters of a federation were lent.
LENT: "Columns[LentView]" = {
    "CLUSTER": lambda row: row.cluster,
    "TENANT": lambda row: row.tenant,
    "LENT OF": lambda row: f"{row.measure} ({_UNITS[row.measure]})" if row.measure in _UNITS else row.measure,
    "LENT": lambda row: _amount(row.lent) or "0",
    "USED THERE": lambda row: _amount(row.used) or "0",
    "GOOD FOR": lambda row: duration(max(0.0, row.until - time.time())),
}
_team = click.option("--team", default="", metavar="NAME", help="Of a team; * is every one without limits of its own.")
_user = click.option(
    "--user", default="", metavar="NAME", help="Of a user; * is every one without limits of their own."
)


@click.group()
def quota() -> None:
    """Shows and sets what tenants, teams and users may have."""


@quota.command("show")
@click.argument("tenant", required=False)
@output_option("table", "json", "yaml", "name")
@click.pass_context
def show_quota(ctx: click.Context, tenant: str | None, output: str) -> None:
    """Shows limits and what is used of them.

    Without a name, of your own tenant. A job counts from its submission to its end, with all it asked for.
    """
    from ares.edge.client.calls import quotas

    _print(ctx, quotas.quota_of(tenant), output)


@quota.command("list")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def list_(ctx: click.Context, output: str) -> None:
    """Lists the tenants that have limits, and how full they are."""
    from ares.edge.client.calls import quotas

    show(connect(ctx), quotas.quotas(), QUOTAS, output, of="quotas", names="tenant")


@quota.command("set")
@click.argument("tenant")
@click.argument("settings", nargs=-1, required=True, metavar="NAME=VALUE...")
@_team
@_user
@click.option("--note", default="", help="Why, for people who look at it.")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def set_(
    ctx: click.Context, tenant: str, settings: tuple[str, ...], team: str, user: str, note: str, output: str
) -> None:
    """Sets single limits of a tenant, a team or a user.

    Names: cpu, memory, gpus, gpus.MODEL, gpu-hours, jobs, jobs-queued, storage, egress, budget (hours, egress and
    budget are per month), transfer (MB/s of files, images and outputs on all nodes together), soft.NAME for a warning
    only, priority for the highest allowed, threshold for the part of a limit at which jobs are refused,
    over-budget=stop to end jobs beyond the budget (or warn), lend for the part of each limit that every cluster of a
    federation is lent ahead for jobs that are submitted there (0.1; 0 for none).

    \b
      ares quota set research gpus=8 gpus.A100=4 memory=512G budget=1000 priority=HIGH
      ares quota set research gpus=2 --user ada
      ares quota set research jobs=100 --user '*'
    """
    from ares.edge.client.calls import quotas

    found: dict[str, str | float] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name or not value:
            raise click.UsageError(f"{setting!r} is not a setting; write it like gpus=8", ctx)
        found[name] = value
    level, name = quotas.level_of(team, user)
    _print(ctx, quotas.set_quota(tenant, found, level, name, note), output)


@quota.command()
@click.argument("tenant")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@_team
@_user
@output_option("table", "json", "yaml", "name")
@click.pass_context
def unset(ctx: click.Context, tenant: str, names: tuple[str, ...], team: str, user: str, output: str) -> None:
    """Takes single limits away, or all limits of a tenant."""
    from ares.edge.client.calls import quotas

    if not names and (team or user):
        raise click.UsageError("say which limits of the team or user to take away, such as gpus", ctx)
    level, name = quotas.level_of(team, user)
    _print(ctx, quotas.unset_quota(tenant, names, level, name), output)


def _print(ctx: click.Context, call: "Call[QuotaView]", output: str) -> None:
    from ares.edge.cli.render.table import print_records

    found = answer(connect(ctx), call, output, "tenant")
    if found is None:
        return
    whose: Columns[LevelUse] = {
        "WHOSE": lambda use: found.tenant if use.level == "tenant" else f"{use.level} {use.name}"
    }
    print_records({**whose, **USES}, found.uses, of="limits or uses")
    if found.lent:
        click.echo("")
        print_records(LENT, found.lent, of="lent quota")
    for line in remarks(found):
        click.echo(line)


def remarks(found: "QuotaView") -> list[str]:
    if found.quota is None:
        return [f"{found.tenant} has no limits; set some with `ares quota set {found.tenant} gpus=8`"]
    said: list[str] = []
    if found.quota.own.priority is not None:
        said.append(f"highest priority: {found.quota.own.priority}")
    if found.quota.threshold < 1:
        said.append(f"jobs are refused from {found.quota.threshold:.0%} of a limit on; of GPUs and jobs all may be had")
    if found.quota.over_budget == "stop":
        said.append("beyond its budget, jobs that cost something are stopped")
    if found.in_doubt:
        said.append("its use was counted wrong a moment ago: jobs are admitted with more care until a recount agrees")
    return said
