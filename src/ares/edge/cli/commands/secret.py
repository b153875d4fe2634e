"""`ares secret`: values that jobs get and that no command shows."""

import sys
from typing import TYPE_CHECKING

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.render.output import answer, note, output_option, print_objects, show
from ares.edge.cli.render.text import age

if TYPE_CHECKING:
    from ares.api.secrets import SecretView
    from ares.edge.cli.render.table import Columns

SECRETS: "Columns[SecretView]" = {
    "NAME": lambda secret: secret.name,
    "VERSION": lambda secret: str(secret.version),
    "SIZE": lambda secret: f"{secret.size} B",
    "MADE BY": lambda secret: secret.created_by,
    "CHANGED BY": lambda secret: secret.updated_by,
    "AGE": lambda secret: age(secret.updated_at),
}


@click.group()
def secret() -> None:
    """Sets, lists and deletes secrets of the tenant."""


@secret.command("set")
@click.argument("name")
@click.option("--from-file", type=click.Path(exists=True, dir_okay=False), help="Take the value from this file.")
@click.option("--if-version", type=int, metavar="N", help="Only if it is at this version; 0: only if it is new.")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def set_(ctx: click.Context, name: str, from_file: str | None, if_version: int | None, output: str) -> None:
    """Makes a secret, or gives it a new value.

    The value comes from a file, from standard input, or is asked for: it is never an argument, where everybody on this
    machine could read it. Of what comes by standard input, one newline at the end is left out.
    """
    from ares.edge.client.calls import secrets

    kept = answer(connect(ctx), secrets.set_secret(name, _value(from_file), if_version), output)
    if kept is not None:
        click.echo(f"{kept.name} is at version {kept.version}")
        note(f"give it to a job with `ares submit --secret {kept.name}`")


@secret.command("list")
@output_option("table", "json", "yaml", "name")
@click.pass_context
def list_(ctx: click.Context, output: str) -> None:
    """Lists the secrets, without their values."""
    from ares.edge.client.calls import secrets

    found = show(connect(ctx), secrets.secrets(), SECRETS, output, of="secrets")
    if found and any(not secret.readable for secret in found):
        click.echo("the server does not have the key of some: give all servers the same secrets.key_file", err=True)


@secret.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.pass_context
def delete(ctx: click.Context, names: tuple[str, ...]) -> None:
    """Deletes secrets; jobs that need them do not start."""
    client = connect(ctx)
    for name in names:
        client.delete_secret(name)
        click.echo(f"deleted {name}")


@secret.command("rotate-key")
@output_option("table", "json", "yaml")
@click.pass_context
def rotate_key(ctx: click.Context, output: str) -> None:
    """Makes a new key and seals all secrets with it.

    For administrators of the platform. Interrupted, it goes on where it was when it is called again. Older keys stay in
    the key file, so that backups from before can still be read.
    """
    from ares.edge.client.calls import secrets

    call, client = secrets.rotate_key(), connect(ctx)
    raw = client.send(call.raw())
    rewrapped = (done := call.read(raw)).rewrapped
    while done.left and done.rewrapped:
        raw = client.send(call.raw())
        rewrapped += (done := call.read(raw)).rewrapped
    if not print_objects(output, raw, lambda answer: []):
        click.echo(f"the key is {done.key_id} now: {rewrapped} secrets were sealed with it")
        if done.left:
            click.echo(f"{done.left} secrets cannot be read any more; the server's log names them", err=True)


def _value(from_file: str | None) -> bytes:
    if from_file is not None:
        with open(from_file, "rb") as file:
            return file.read()
    if sys.stdin.isatty():
        return str(click.prompt("value", hide_input=True, confirmation_prompt=True, err=True)).encode()
    return sys.stdin.buffer.read().removesuffix(b"\n")
