"""`ares token`: credentials for the server."""

import time
from typing import TYPE_CHECKING

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.options import read_seconds
from ares.edge.cli.render.output import answer, note, output_option, show
from ares.edge.cli.render.text import age, duration

if TYPE_CHECKING:
    from ares.api.identity import NewToken, TokenView
    from ares.edge.cli.render.table import Columns
    from ares.edge.client.calls.calls import Call

ROLES = ("viewer", "submitter", "tenant-admin", "auditor", "operator", "admin")


def _expired(token: "TokenView") -> bool:
    return token.expires_at is not None and token.expires_at <= time.time()


def _expires(token: "TokenView") -> str:
    if token.expires_at is None:
        return "never"
    return "-" if _expired(token) else f"in {duration(token.expires_at - time.time())}"


TOKENS: "Columns[TokenView]" = {
    "ID": lambda token: token.id,
    "NAME": lambda token: token.name,
    "TENANT": lambda token: token.tenant,
    "USER": lambda token: token.user,
    "ROLE": lambda token: f"{token.role} {token.node}" if token.node else token.role,
    "STATE": lambda token: "revoked" if token.revoked else "expired" if _expired(token) else "valid",
    "AGE": lambda token: age(token.created_at),
    "EXPIRES": _expires,
}
_me = click.option("--me", is_flag=True, help="Only yours: every user may.")


@click.group()
def token() -> None:
    """Makes, lists and revokes tokens."""


@token.command()
@click.option("--role", type=click.Choice(ROLES), help="What it may do.  [default: submitter, with --me yours]")
@click.option("--name", default="", help="What it is for.")
@click.option("--tenant", help="Whose jobs it acts on.  [default: yours]")
@click.option("--user", help="Whose it is: it has at most their role, and ends with them.")
@click.option("--me", is_flag=True, help="For yourself: every user may.")
@click.option("--ttl", metavar="TIME", callback=read_seconds, help="Ends after this: 12h, 90d.  [default: never]")
@click.option("--permission", "permissions", multiple=True, metavar="NAME", help="Only this of its role; repeatable.")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def create(
    ctx: click.Context, role: str | None, name: str, ttl: float | None, permissions: tuple[str, ...], output: str,
    tenant: str | None, user: str | None, me: bool,
) -> None:  # fmt: skip
    """Makes an API token and prints it, this once.

    \b
      ares token create --user ci-bot --ttl 90d
      ares token create --me --permission jobs:read --permission logs:read
    """
    from ares.edge.client.calls import identity

    wish = {"name": name, "ttlS": ttl, "permissions": list(permissions) or None}
    if me and (tenant or user):
        raise click.UsageError("--me is for yourself: leave --tenant and --user out", ctx)
    if me:
        call = identity.create_own_token({**wish, "role": role})
    else:
        call = identity.create_token({**wish, "role": role or "submitter", "tenant": tenant, "user": user})
    _print_new(ctx, call, output)


@token.command()
@click.option("--node", metavar="NAME", help="For the machine of this name.")
@click.option("--cluster", metavar="NAME", help="For the cluster of this name.")
@click.option("--any-name", is_flag=True, help="For a machine of any name that is free.")
@click.option("--ttl", metavar="TIME", callback=read_seconds, help="Expires after this long.  [default: 15m]")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def join(
    ctx: click.Context, node: str | None, cluster: str | None, any_name: bool, ttl: float | None, output: str
) -> None:
    """Makes a token that admits one machine.

    Once, within its time: put it in a file and run `ares agent --join FILE` there.
    """
    if (node is not None) + (cluster is not None) + any_name != 1:
        raise click.UsageError("say whom it admits: --node NAME, --cluster NAME or --any-name", ctx)
    from ares.edge.client.calls import identity

    body = {"node": node, "cluster": cluster, "anyName": True if any_name else None}
    _print_new(ctx, identity.create_join_token({**body, "ttlS": ttl}), output)


@token.command("list")
@_me
@output_option("table", "json", "yaml", "name")
@click.pass_context
def list_(ctx: click.Context, me: bool, output: str) -> None:
    """Lists the tokens, without their secrets."""
    from ares.edge.client.calls import identity

    call = identity.own_tokens() if me else identity.tokens()
    show(connect(ctx), call, TOKENS, output, of="tokens", names="id")


@token.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@_me
@click.pass_context
def revoke(ctx: click.Context, ids: tuple[str, ...], me: bool) -> None:
    """Makes tokens useless, within 5 seconds everywhere."""
    from ares.edge.client.calls import identity

    client, call = connect(ctx), identity.revoke_own_token if me else identity.revoke_token
    for token_id in ids:
        client.send(call(token_id))
        click.echo(f"revoked {token_id}")


def _print_new(ctx: click.Context, call: "Call[NewToken]", output: str) -> None:
    made = answer(connect(ctx), call, output, "token")
    if made is not None:
        click.echo(made.token)
        note("shown this once; give it to a client as ARES_TOKEN or in a file named by ARES_TOKEN_FILE")
