"""`ares login`, `ares logout` and `ares whoami`: the user that commands run as."""

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.render.output import answer, output_option
from ares.edge.cli.render.text import duration, printable

if TYPE_CHECKING:
    from ares.api.identity import ProviderView, WhoAmI
    from ares.edge.cli.render.table import Columns

# Scopes in the words of people.
SCOPES = {
    "mine": "what it made itself",
    "tenant": "its tenant",
    "facts": "facts of every tenant's jobs",
    "any": "everything",
    "glass": "other tenants for a stated reason",
    "self": "itself",
}
# Of a permission and its scope.
PERMISSIONS: "Columns[tuple[str, str]]" = {
    "MAY": lambda may: may[0],
    "HOW FAR": lambda may: SCOPES.get(may[1], may[1]),
}


@click.command()
@click.option("--provider", metavar="NAME", help="Log in with this one, where the server offers several.")
@click.option("--token", "by_token", is_flag=True, help="Log in with an API token, from standard input or asked for.")
@click.pass_context
def login(ctx: click.Context, provider: str | None, by_token: bool) -> None:
    """Logs in at a server, for all commands until logout.

    With an identity provider: open the address it prints on any device and agree there. With `--token` it takes an
    API token; give it by standard input, never as an argument. Either is kept in login.json in ARES_HOME, which only
    you may read; a login with a provider is renewed by itself.

    \b
      ares --url https://ares.example:8642 login
    """
    from ares.edge.client import login as logins
    from ares.edge.client.settings import LOGIN_FILE, addresses, home
    from ares.edge.client.sync import Client

    root = ctx.find_root()
    urls, _ = addresses(root.obj)
    kept = {"token": _asked_for()} if by_token else _by_provider(urls[0], provider)
    with Client(",".join(urls), kept["token"]) as client:
        who = client.whoami()
    logins.save(home() / LOGIN_FILE, {**kept, "url": ",".join(urls)})
    click.echo(f"logged in at {', '.join(urls)} as {_name(who)} of {who.tenant} ({who.role})")


@click.command()
def logout() -> None:
    """Forgets the login on this machine."""
    from ares.edge.client.settings import LOGIN_FILE, home

    path = home() / LOGIN_FILE
    there = path.exists()
    path.unlink(missing_ok=True)
    click.echo("logged out" if there else "nobody was logged in")
    if there:
        click.echo("a token that was made with it goes on: `ares token revoke` ends one", err=True)


@click.command()
@output_option("table", "json", "yaml", "name")
@click.pass_context
def whoami(ctx: click.Context, output: str) -> None:
    """Prints as whom you act, and what you may do."""
    from ares.edge.cli.render.table import print_records
    from ares.edge.client.calls import identity

    client = connect(ctx)
    who = answer(client, identity.whoami(), output, lambda answer: [answer["user"] or answer["tokenId"]])
    if who is None:
        return
    for label, value in _facts(who, time.time()):
        click.echo(f"{label + ':':<10} {printable(value)}")
    click.echo(f"{'server:':<10} {client.endpoint.shown}")
    click.echo(f"{'by:':<10} {client.endpoint.token_from}\n")
    print_records(PERMISSIONS, who.permissions.items(), of="permissions")


def _facts(who: "WhoAmI", now: float) -> list[tuple[str, str]]:
    acting = f"{who.tenant} (as its delegate; your own is {who.home})" if who.home else who.tenant
    ends = "never" if who.expires_at is None else f"in {duration(who.expires_at - now)}"
    facts = [("user", _name(who)), ("tenant", acting), ("role", who.role), ("team", who.team or "-")]
    return [*facts, ("ends", f"{ends} ({who.proof} {who.token_id})")]


def _name(who: "WhoAmI") -> str:
    return who.user or who.name or who.token_id


def _asked_for() -> str:
    text = click.prompt("API token", hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.readline()
    if not text.strip():
        raise click.ClickException("no token was given")
    return text.strip()


def _by_provider(url: str, name: str | None) -> dict[str, Any]:
    from ares.edge.client import login as logins

    provider = _chosen(logins.providers(url), name, url)
    device = logins.begin(provider)
    click.echo(f"open {printable(device.address)}\nand enter the code {printable(device.user_code)}", err=True)
    return logins.finish(provider, device)


def _chosen(offered: "tuple[ProviderView, ...]", name: str | None, url: str) -> "ProviderView":
    from ares.edge.client.errors import LoginFailed

    names = ", ".join(provider.name for provider in offered)
    if not offered:
        fix = "log in with an API token: `ares login --token`"
        raise LoginFailed(f"{url} is configured for no identity provider", fix=fix)
    if name is None and len(offered) > 1:
        raise LoginFailed(f"{url} offers {names}", fix="choose one with --provider")
    found = next((provider for provider in offered if name in (None, provider.name)), None)
    if found is None:
        raise LoginFailed(f"{url} has no provider {name!r}", fix=f"it offers {names}")
    return found
