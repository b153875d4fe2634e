"""`ares tenant` and `ares role`: who shares the platform, and what people may do."""

import time
from typing import TYPE_CHECKING, Any

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.render.output import output_option, print_objects
from ares.edge.cli.render.text import duration, printable

if TYPE_CHECKING:
    from ares.edge.client.calls.calls import Call
    from ares.edge.client.calls.identity import RoleView, TenantView

HEADER = ("NAME", "STATE", "ISOLATION", "AGE", "BY", "NOTE")
ISOLATIONS = ("any", "process", "sandbox")
_note = click.option("--note", help="For people who look at it.")
_isolation = click.option("--isolation", type=click.Choice(ISOLATIONS), help="How well its jobs must be kept apart.")


@click.group()
def tenant() -> None:
    """Makes, lists and changes tenants."""


@tenant.command()
@click.argument("name")
@_note
@_isolation
@output_option("table", "json", "yaml", "name")
@click.pass_context
def create(ctx: click.Context, name: str, note: str | None, isolation: str | None, output: str) -> None:
    """Makes a tenant.

    Then let its first administrator in: `ares --tenant NAME user create SOMEBODY --role tenant-admin`.
    """
    from ares.edge.client.calls import identity

    _print(ctx, identity.create_tenant(name, note or "", isolation or "any"), output, "made")


@tenant.command("list")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def list_(ctx: click.Context, output: str) -> None:
    """Lists the tenants you may know of."""
    from ares.edge.cli.render.table import print_table
    from ares.edge.client.calls import identity

    call = identity.tenants()
    raw = connect(ctx).send(call.raw())
    if not print_objects(output, raw, lambda answer: [one["name"] for one in answer["tenants"]]):
        now = time.time()
        print_table(HEADER, (tenant_row(one, now) for one in call.read(raw)), of="tenants")


@tenant.command()
@click.argument("name")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def show(ctx: click.Context, name: str, output: str) -> None:
    """Shows one tenant."""
    from ares.edge.client.calls import identity

    call = identity.tenant(name)
    raw = connect(ctx).send(call.raw())
    if not print_objects(output, raw, lambda answer: [answer["name"]]):
        for label, value in zip(HEADER, tenant_row(call.read(raw), time.time()), strict=True):
            click.echo(f"{label.lower() + ':':<10} {printable(value) or '-'}")


@tenant.command("set")
@click.argument("name")
@_note
@_isolation
@output_option("table", "json", "yaml", "name")
@click.pass_context
def set_(ctx: click.Context, name: str, output: str, **changes: Any) -> None:
    """Changes a tenant's note, or how its jobs are kept apart."""
    from ares.edge.client.calls import identity

    given = {key: value for key, value in changes.items() if value is not None}
    if not given:
        raise click.UsageError("say what to change: --note or --isolation", ctx)
    _print(ctx, identity.set_tenant(name, given), output, "changed")


@tenant.command()
@click.argument("name")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def disable(ctx: click.Context, name: str, output: str) -> None:
    """Lets nobody of a tenant in, within 5 seconds everywhere.

    What it runs goes on.
    """
    from ares.edge.client.calls import identity

    _print(ctx, identity.set_tenant(name, {"disabled": True}), output, "disabled")


@tenant.command()
@click.argument("name")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def enable(ctx: click.Context, name: str, output: str) -> None:
    """Lets a tenant's people in again."""
    from ares.edge.client.calls import identity

    _print(ctx, identity.set_tenant(name, {"disabled": False}), output, "enabled")


def tenant_row(one: "TenantView", now: float) -> tuple[str, ...]:
    state = "disabled" if one.disabled else "active"
    return (one.name, state, one.isolation, duration(now - one.created_at), one.created_by, one.note)


def _print(ctx: click.Context, call: "Call[TenantView]", output: str, done: str) -> None:
    raw = connect(ctx).send(call.raw())
    if not print_objects(output, raw, lambda answer: [answer["name"]]):
        click.echo(f"{call.read(raw).name} {done}")


# ---- roles


@click.group()
def role() -> None:
    """Shows what each role may do."""


@role.command("list")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def list_roles(ctx: click.Context, output: str) -> None:
    """Prints the whole table: permissions by role.

    The words: mine (what one made oneself), tenant (one's own tenant), facts (about every tenant's jobs, not their
    contents), glass (other tenants for a stated reason, see --break-glass), any (everything), self (a machine's own).
    """
    from ares.edge.cli.render.table import print_table

    raw, roles = _roles(ctx)
    if not print_objects(output, raw, lambda answer: [one["role"] for one in answer["roles"]]):
        permissions = sorted({permission for one in roles for permission in one.permissions})
        header = ("PERMISSION", *(one.role.upper() for one in roles))
        rows = ((name, *(one.permissions.get(name, "") for one in roles)) for name in permissions)
        print_table(header, rows, of="roles")


@role.command("show")
@click.argument("name")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def show_role(ctx: click.Context, name: str, output: str) -> None:
    """Prints what one role may do, and which it may give."""
    from ares.edge.cli.commands.login import HEADER as MAY
    from ares.edge.cli.commands.login import SCOPES
    from ares.edge.cli.render.table import print_table

    raw, roles = _roles(ctx)
    one = next((one for one in roles if one.role == name), None)
    if one is None:
        known = ", ".join(one.role for one in roles)
        raise click.UsageError(f"there is no role {name!r}; there are {known}", ctx)
    found = next(each for each in raw["roles"] if each["role"] == name)
    if not print_objects(output, found, lambda answer: [answer["role"]]):
        click.echo(f"may give: {', '.join(one.grants) or 'no role'}\n")
        print_table(
            MAY, ((each, SCOPES.get(scope, scope)) for each, scope in one.permissions.items()), of="permissions"
        )


def _roles(ctx: click.Context) -> "tuple[Any, tuple[RoleView, ...]]":
    from ares.edge.client.calls import identity

    call = identity.roles()
    raw = connect(ctx).send(call.raw())
    return raw, call.read(raw)
