"""`ares tenant` and `ares role`: tenants of the platform, and the permissions of roles."""

from typing import TYPE_CHECKING, Any

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.render.output import answer, output_option, print_objects, show, tell
from ares.edge.cli.render.text import age

if TYPE_CHECKING:
    from ares.edge.cli.render.table import Columns
    from ares.edge.client.calls.calls import Call
    from ares.model.access import TenantRecord

TENANTS: "Columns[TenantRecord]" = {
    "NAME": lambda tenant: tenant.name,
    "STATE": lambda tenant: "disabled" if tenant.disabled else "active",
    "ISOLATION": lambda tenant: tenant.isolation,
    "AGE": lambda tenant: age(tenant.created_at),
    "BY": lambda tenant: tenant.created_by,
    "NOTE": lambda tenant: tenant.note,
}
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
    from ares.edge.client.calls import identity

    show(connect(ctx), identity.tenants(), TENANTS, output, of="tenants")


@tenant.command("show")
@click.argument("name")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def show_tenant(ctx: click.Context, name: str, output: str) -> None:
    """Shows one tenant."""
    from ares.edge.cli.render.table import print_record
    from ares.edge.client.calls import identity

    found = answer(connect(ctx), identity.tenant(name), output)
    if found is not None:
        print_record(TENANTS, found)


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


def _print(ctx: click.Context, call: "Call[TenantRecord]", output: str, done: str) -> None:
    tell(connect(ctx), call, lambda tenant: f"{tenant.name} {done}", output)


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
    from ares.edge.client.calls import identity

    roles = answer(connect(ctx), identity.roles(), output, "role")
    if roles is not None:
        permissions = sorted({permission for role in roles for permission in role.permissions})
        header = ("PERMISSION", *(role.role.upper() for role in roles))
        rows = ((name, *(role.permissions.get(name, "") for role in roles)) for name in permissions)
        print_table(header, rows, of="roles")


@role.command("show")
@click.argument("name")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def show_role(ctx: click.Context, name: str, output: str) -> None:
    """Prints what one role may do, and which it may give."""
    from ares.edge.cli.commands.login import PERMISSIONS
    from ares.edge.cli.render.table import print_records
    from ares.edge.client.calls import identity

    call = identity.roles()
    raw = connect(ctx).send(call.raw())
    roles = {role.role: (role, its_raw) for role, its_raw in zip(call.read(raw), raw["roles"], strict=True)}
    if name not in roles:
        raise click.UsageError(f"there is no role {name!r}; there are {', '.join(roles)}", ctx)
    found, its_raw = roles[name]
    if not print_objects(output, its_raw, lambda answer: [answer["role"]]):
        click.echo(f"may give: {', '.join(found.grants) or 'no role'}\n")
        print_records(PERMISSIONS, found.permissions.items(), of="permissions")
