"""`ares up`, `ares server`, `ares agent` and `ares store`: the programs behind the command line."""

import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from ares.edge.cli.options import pairs_option

F = TypeVar("F", bound=Callable[..., Any])


def read_address(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, int] | None:
    if value is None:
        return None
    host, colon, port = value.rpartition(":")
    if not colon or not port.isdecimal() or not host:
        raise click.BadParameter(f"{value!r} is not HOST:PORT", ctx, param)
    return host.strip("[]"), int(port)


def common(command: F) -> F:
    """Options of everything that has a configuration."""
    config = click.option(
        "--config",
        metavar="FILE",
        type=click.Path(dir_okay=False),
        help="TOML file.  [default: ares.toml in the home directory]",
    )
    home = click.option(
        "--home",
        metavar="DIR",
        type=click.Path(file_okay=False),
        help="Where state is kept.  [default: ARES_HOME, then ~/.ares]",
    )
    return config(home(command))


@click.command()
@common
@click.option("--port", type=int, help="Port of the API.  [default: 8642]")
@click.option(
    "--mock-gpu",
    metavar="PRESET",
    help="Mock GPUs: a number, or dgx-a100, dgx1-v100, pcie-8x, mi300x.  [default: when there are no real ones]",
)
@click.option("--no-sample", is_flag=True, help="Do not run the sample job of the first start.")
def up(config: str | None, home: str | None, port: int | None, mock_gpu: str | None, no_sample: bool) -> int:
    """Starts a server and an agent here.

    The first start also runs a sample job to its result.
    """
    flags = {"http.port": port, "node.mock_gpu": mock_gpu}
    return _call("up:main", _load(config, home, flags), sample=not no_sample)


@click.command()
@common
@click.option(
    "--listen",
    metavar="HOST:PORT",
    callback=read_address,
    help="Address of the API.  [default: 127.0.0.1:8642]",
)
@click.option(
    "--agents",
    metavar="HOST:PORT",
    callback=read_address,
    help="Address agents connect to.  [default: 127.0.0.1:8643]",
)
@click.option("--store", metavar="URL", help="sqlite:///PATH, etcd://HOST:PORT,HOST:PORT or memory:")
@click.option("--replica", metavar="NAME", help="Name of this replica among several on one etcd.")
@click.option("--tls-cert", metavar="FILE", type=click.Path(dir_okay=False))
@click.option("--tls-key", metavar="FILE", type=click.Path(dir_okay=False))
def server(
    config: str | None, home: str | None, listen: tuple[str, int] | None, agents: tuple[str, int] | None,
    store: str | None, replica: str | None, tls_cert: str | None, tls_key: str | None,
) -> int:  # fmt: skip
    """Runs a control-plane replica."""
    host, port = listen or (None, None)
    agents_host, agents_port = agents or (None, None)
    flags = {
        "http.host": host, "http.port": port, "agents.host": agents_host, "agents.port": agents_port,
        "store.url": store, "replica": replica, "http.tls_cert": tls_cert, "http.tls_key": tls_key,
    }  # fmt: skip
    return _call("server:main", _load(config, home, flags))


@click.command()
@common
@click.option(
    "--server",
    "servers",
    multiple=True,
    metavar="HOST:PORT",
    help="Control plane to connect to. May be repeated.  [default: 127.0.0.1:8643]",
)
@click.option(
    "--join",
    "join_file",
    metavar="FILE",
    help="File with a join token, - for stdin; or set ARES_JOIN_TOKEN. Needed the first time only.",
)
@click.option("--name", help="Name of this machine.  [default: its host name]")
@click.option("--pool", help="Pool it belongs to.  [default: default]")
@pairs_option("--label", help="Label that jobs can select. May be repeated.")
@click.option("--mock-gpu", metavar="PRESET", help="Mock GPUs instead of real ones.")
def agent(
    config: str | None, home: str | None, servers: tuple[str, ...], join_file: str | None, name: str | None,
    pool: str | None, label: dict[str, str], mock_gpu: str | None,
) -> int:  # fmt: skip
    """Runs jobs on this machine for a control plane.

    The first time it needs a join token: `ares token join` makes one.
    """
    flags = {
        "node.servers": list(servers) or None, "node.name": name, "node.pool": pool,
        "node.labels": label or None, "node.mock_gpu": mock_gpu,
    }  # fmt: skip
    token = _read_secret(join_file) if join_file else os.environ.get("ARES_JOIN_TOKEN", "")
    return _call("agent:main", _load(config, home, flags), join_token=token)


@click.group()
def store() -> None:
    """Backs up and restores the embedded store."""


@store.command()
@common
@click.argument("file", type=click.Path(dir_okay=False))
def backup(config: str | None, home: str | None, file: str) -> int:
    """Writes a consistent copy of the store to FILE. The server may be running."""
    return _call("store:backup", _load(config, home, {}), file=file)


@store.command()
@common
@click.argument("file", type=click.Path(dir_okay=False, exists=True))
def restore(config: str | None, home: str | None, file: str) -> int:
    """Replaces the store by the copy in FILE. The server must be stopped.

    Attempts that ran after the copy was made can no longer commit: the store begins a new epoch.
    """
    return _call("store:restore", _load(config, home, {}), file=file)


def _call(target: str, config: Any, **arguments: Any) -> int:
    """Calls `ares.app`'s "module:function". By name: the edge does not know what it is wired into."""
    from importlib import import_module

    module, _, function = target.partition(":")
    return getattr(import_module(f"ares.app.{module}"), function)(config, **arguments)


def _load(file: str | None, home: str | None, flags: dict[str, Any]) -> Any:
    from importlib import import_module
    from pathlib import Path

    module = import_module("ares.app.config")
    # The home directory also says where the file is, so it goes in as the environment would give it.
    environment = {**os.environ, **({"ARES_HOME": os.path.abspath(home)} if home else {})}
    try:
        return module.load(Path(file) if file else None, flags, environment)
    except module.ConfigError as error:
        raise click.ClickException(str(error)) from error


def _read_secret(name: str) -> str:
    """From a file, never from the command line itself, which other users of the machine can read."""
    if name == "-":
        return sys.stdin.read().strip()
    with open(name, encoding="utf-8") as file:
        return file.read().strip()
