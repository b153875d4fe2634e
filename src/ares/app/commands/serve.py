"""`ares server`, `ares agent` and `ares store`."""

import os
import sys
from typing import Any

import click

from ares.app.commands.configured import configured, load
from ares.edge.cli.options import pairs_option


def read_address(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str | None, int | None]:
    """HOST:PORT, IPv6 in brackets."""
    if value is None:
        return None, None
    host, colon, port = value.rpartition(":")
    if not colon or not port.isdecimal() or not host:
        raise click.BadParameter(f"{value!r} is not HOST:PORT", ctx, param)
    return host.strip("[]"), int(port)


@click.command()
@click.option("--listen", metavar="HOST:PORT", callback=read_address, help="For clients.  [default: 127.0.0.1:8642]")
@click.option("--agents", metavar="HOST:PORT", callback=read_address, help="For agents.  [default: 127.0.0.1:8643]")
@click.option("--store", metavar="URL", help="sqlite:///PATH, etcd://HOST:PORT,HOST:PORT or memory:")
@click.option("--replica", metavar="NAME", help="Name of this replica among several on one etcd.")
@click.option("--tls-cert", metavar="FILE", type=click.Path(dir_okay=False), help="Certificate chain for clients.")
@click.option("--tls-key", metavar="FILE", type=click.Path(dir_okay=False), help="Its key.")
@configured
def server(
    listen: tuple[str | None, int | None], agents: tuple[str | None, int | None], store: str | None,
    replica: str | None, tls_cert: str | None, tls_key: str | None, **where: Any,
) -> int:  # fmt: skip
    """Runs a control-plane replica."""
    from ares.app import server

    flags = {
        "http.host": listen[0], "http.port": listen[1], "agents.host": agents[0], "agents.port": agents[1],
        "store.url": store, "replica": replica, "http.tls_cert": tls_cert, "http.tls_key": tls_key,
    }  # fmt: skip
    return server.main(load(flags, **where))


@click.command()
@click.option(
    "--server", "servers", multiple=True, metavar="HOST:PORT",
    help="Control plane. May be repeated.  [default: 127.0.0.1:8643]",
)  # fmt: skip
@click.option("--join", metavar="FILE", help="File with a join token, - for stdin; or set ARES_JOIN_TOKEN. Only once.")
@click.option("--auto-join", is_flag=True, help="Get a join token by the administrator's token of this machine.")
@click.option("--name", help="Name of this machine.  [default: its host name]")
@click.option("--pool", help="Pool it belongs to.  [default: default]")
@pairs_option("--label", help="Label that jobs can select. May be repeated.")
@click.option("--mock-gpu", metavar="PRESET", help="Mock GPUs instead of real ones.")
@configured
def agent(
    servers: tuple[str, ...], join: str | None, auto_join: bool, name: str | None, pool: str | None,
    label: dict[str, str], mock_gpu: str | None, **where: Any,
) -> int:  # fmt: skip
    """Runs jobs on this machine.

    The first time it needs a join token, which `ares token join` makes.
    """
    from ares.app import agent

    flags = {
        "node.servers": list(servers) or None, "node.name": name, "node.pool": pool,
        "node.labels": label or None, "node.mock_gpu": mock_gpu,
    }  # fmt: skip
    token = _read_secret(join) if join else os.environ.get("ARES_JOIN_TOKEN", "")
    return agent.main(load(flags, **where), join_token=token, auto_join=auto_join)


@click.group()
def store() -> None:
    """Backs up and restores the store, and begins a new epoch."""


@store.command()
@click.argument("file_", metavar="FILE", type=click.Path(dir_okay=False))
@configured
def backup(file_: str, **where: Any) -> None:
    """Writes a consistent copy of the embedded store to FILE. The server may be running."""
    from ares.app import store

    copy = store.backup(load({}, **where), file_)
    click.echo(f"written {file_}: epoch {copy.epoch}, revision {copy.revision}")


@store.command()
@click.argument("file_", metavar="FILE", type=click.Path(dir_okay=False, exists=True))
@configured
def restore(file_: str, **where: Any) -> None:
    """Replaces the embedded store by the copy in FILE. The server must be stopped.

    The store begins a new epoch: attempts granted after the copy was made can no longer commit.
    """
    from ares.app import store

    copy = store.restore(load({}, **where), file_)
    click.echo(f"restored from {file_}; the store is in epoch {copy.epoch}")
    if copy.kept:
        click.echo(f"what it replaced is kept in {copy.kept}")


@store.command("new-epoch")
@click.option(
    "--above",
    type=click.IntRange(min=0),
    default=0,
    metavar="EPOCH",
    help="Also beyond this one: the last in use before the restore, if the copy is from an earlier one.",
)
@configured
def new_epoch(above: int, **where: Any) -> None:
    """Begins a new epoch, after a snapshot of etcd was restored.

    All servers must be stopped. Attempts granted in earlier epochs can no longer be mistaken for new
    ones. `ares store restore` does it by itself.
    """
    from ares.app import store

    number = store.new_epoch(load({}, **where), above)
    click.echo(f"the store is in epoch {number}")


@store.command("forget-authority")
@configured
def forget_authority(**where: Any) -> None:
    """Lets the next server say who signs machines' certificates.

    For an authority whose key was lost or stolen. All servers must be stopped; all nodes join again.
    """
    from ares.app import store

    known = store.forget_authority(load({}, **where))
    click.echo("the authority is forgotten" if known else "the store knows no authority")


@store.command("new-admin")
@configured
def new_admin(**where: Any) -> None:
    """Lets the next server make an administrator's token again.

    It leaves the token in its home directory, as the first server did.

    For an installation without any administrator left. All servers must be stopped; the audit log has an entry.
    """
    from ares.app import store

    store.new_admin(load({}, **where))
    click.echo("the next server to start leaves a new administrator's token in its home directory")


def _read_secret(name: str) -> str:
    """From a file, never from the command line itself, which other users of the machine can read."""
    if name == "-":
        return sys.stdin.read().strip()
    with open(name, encoding="utf-8") as file:
        return file.read().strip()
