"""`ares user`: people and programs of a tenant."""

from typing import TYPE_CHECKING, Any

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.render.output import answer, output_option, show, tell
from ares.edge.cli.render.text import age

if TYPE_CHECKING:
    from ares.edge.cli.render.table import Columns
    from ares.edge.client.calls.calls import Call
    from ares.model.access import UserRecord

ROLES = ("viewer", "submitter", "tenant-admin", "auditor", "operator", "admin")
USERS: "Columns[UserRecord]" = {
    "NAME": lambda user: user.name,
    "ROLE": lambda user: user.role,
    "TEAM": lambda user: user.team or "",
    "KIND": lambda user: "program" if user.service else "person",
    "STATE": lambda user: "disabled" if user.disabled else "active",
    "AGE": lambda user: age(user.created_at),
    "IDENTITY": lambda user: user.identity,
}
_identity = click.option("--identity", metavar="'ISSUER SUBJECT'", help="Who they are to an identity provider.")


@click.group()
def user() -> None:
    """Makes, lists and changes users of the tenant.

    `ares --tenant NAME user ...` does so in another tenant, for administrators of the platform.
    """


@user.command()
@click.argument("name")
@click.option("--role", type=click.Choice(ROLES), default="submitter", show_default=True, help="What they may do.")
@click.option("--team", help="Whom their jobs are counted for.")
@_identity
@click.option("--service", is_flag=True, help="A program: tokens only, no login.")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def create(ctx: click.Context, name: str, output: str, **asked: Any) -> None:
    """Lets somebody in.

    They come in with a login of the identity given, or with a token that `ares token create --user NAME` makes.
    """
    from ares.edge.client.calls import identity

    body = {**asked, "name": name, "identity": asked["identity"] or None, "service": asked["service"] or None}
    _print(ctx, identity.create_user(body), output, "made")


@user.command("list")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def list_(ctx: click.Context, output: str) -> None:
    """Lists the users of the tenant."""
    from ares.edge.client.calls import identity

    show(connect(ctx), identity.users(), USERS, output, of="users")


@user.command("show")
@click.argument("name")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def show_user(ctx: click.Context, name: str, output: str) -> None:
    """Shows one user."""
    from ares.edge.cli.render.table import print_record
    from ares.edge.client.calls import identity

    found = answer(connect(ctx), identity.user(name), output)
    if found is not None:
        print_record(USERS, found)


@user.command("set")
@click.argument("name")
@click.option("--role", type=click.Choice(ROLES), help="What they may do.")
@click.option("--team", help="Whom their jobs are counted for; '' for no team.")
@_identity
@output_option("table", "json", "yaml", "name")
@click.pass_context
def set_(ctx: click.Context, name: str, role: str | None, team: str | None, identity: str | None, output: str) -> None:
    """Changes what somebody may do, their team or identity.

    What they have open is judged anew within 5 seconds.
    """
    from ares.edge.client.calls import identity as calls

    changes: dict[str, Any] = {"role": role, "team": team, "identity": identity}
    given = {key: value for key, value in changes.items() if value is not None}
    if not given:
        raise click.UsageError("say what to change: --role, --team or --identity", ctx)
    if team == "":
        given["team"] = None
    _print(ctx, calls.set_user(name, given), output, "changed")


@user.command()
@click.argument("name")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def disable(ctx: click.Context, name: str, output: str) -> None:
    """Lets somebody in no more, within 5 seconds everywhere.

    What they run goes on.
    """
    from ares.edge.client.calls import identity

    _print(ctx, identity.set_user(name, {"disabled": True}), output, "disabled")


@user.command()
@click.argument("name")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def enable(ctx: click.Context, name: str, output: str) -> None:
    """Lets somebody in again."""
    from ares.edge.client.calls import identity

    _print(ctx, identity.set_user(name, {"disabled": False}), output, "enabled")


@user.command()
@click.argument("name")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def delete(ctx: click.Context, name: str, output: str) -> None:
    """Forgets somebody; their tokens end for good.

    What they run goes on. Somebody who gets the same name later does not get their tokens.
    """
    from ares.edge.client.calls import identity

    _print(ctx, identity.delete_user(name), output, "deleted")


def _print(ctx: click.Context, call: "Call[UserRecord]", output: str, done: str) -> None:
    tell(connect(ctx), call, lambda user: f"{user.name} of {user.tenant} {done} ({user.role})", output)
