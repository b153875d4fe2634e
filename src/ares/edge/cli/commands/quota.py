"""`ares quota`: what tenants, teams and users may have, and how much of it is in use."""

from typing import TYPE_CHECKING, Any

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.render.output import output_option, print_objects

if TYPE_CHECKING:
    from ares.edge.client.calls.calls import Call
    from ares.edge.client.calls.quotas import LevelUse, QuotaView

HEADER = ("WHOSE", "WHAT", "USED", "LIMIT", "FREE", "SOFT", "")
LIST_HEADER = ("TENANT", "LIMITS", "FULLEST", "PRIORITY", "THRESHOLD", "NOTE")
_BAR = 20
_UNITS = {"cpu": "cores", "memory": "GiB", "storage": "GiB", "egress": "GiB"}
_team = click.option("--team", default="", metavar="NAME", help="Of a team; * is every one without limits of its own.")
_user = click.option(
    "--user", default="", metavar="NAME", help="Of a user; * is every one without limits of their own."
)


@click.group()
def quota() -> None:
    """Shows and sets what tenants, teams and users may have."""


@quota.command()
@click.argument("tenant", required=False)
@output_option("table", "json", "yaml", "name")
@click.pass_context
def show(ctx: click.Context, tenant: str | None, output: str) -> None:
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
    from ares.edge.cli.render.table import print_table
    from ares.edge.client.calls import quotas

    call = quotas.quotas()
    raw: Any = connect(ctx).send(call.raw())
    if not print_objects(output, raw, lambda answer: [one["tenant"] for one in answer["quotas"]]):
        print_table(LIST_HEADER, (list_row(one) for one in call.read(raw)), of="quotas")


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
    budget are per month), soft.NAME for a warning only, priority for the highest allowed, threshold for the part of
    a limit at which jobs are refused, over-budget=stop to end jobs beyond the budget (or warn).

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
    from ares.edge.cli.render.table import print_table

    raw: Any = connect(ctx).send(call.raw())
    if print_objects(output, raw, lambda answer: [answer["tenant"]]):
        return
    found = call.read(raw)
    print_table(HEADER, (row(one, found.tenant) for one in found.uses), of="limits or uses")
    for line in remarks(found):
        click.echo(line)


def row(one: "LevelUse", tenant: str) -> tuple[str, ...]:
    whose = tenant if one.level == "tenant" else f"{one.level} {one.name}"
    what = f"{one.measure} ({_UNITS[one.measure]})" if one.measure in _UNITS else one.measure
    limit, free, soft = (_shown(amount) for amount in (one.limit, one.free, one.soft))
    return (whose, what, _shown(one.used), limit, free, soft, bar(one))


def bar(one: "LevelUse") -> str:
    """How full it is, in twentieths; `!` where it is beyond its limit."""
    if one.limit is None:
        return ""
    part = one.used / one.limit if one.limit else float(one.used > 0)
    full = min(_BAR, round(part * _BAR))
    return f"[{'#' * full}{'.' * (_BAR - full)}] {part:.0%}{'!' if part > 1 else ''}"


def _shown(amount: float | None) -> str:
    return "" if amount is None else f"{amount:,.2f}".rstrip("0").rstrip(".")


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


def list_row(one: "QuotaView") -> tuple[str, ...]:
    quota_ = one.quota
    fullest = max((use for use in one.uses if use.limit), key=lambda use: use.used / (use.limit or 1.0), default=None)
    full = "" if fullest is None else f"{fullest.measure} {fullest.used / (fullest.limit or 1.0):.0%}"
    limits = 0 if quota_ is None else len(quota_.own.amounts)
    priority = "" if quota_ is None else quota_.own.priority or ""
    threshold = "" if quota_ is None else f"{quota_.threshold:.0%}"
    return (one.tenant, str(limits), full, priority, threshold, one.note)
