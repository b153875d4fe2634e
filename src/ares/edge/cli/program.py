"""How the command line reaches the programs behind it.

By name only: `ares.app` and `ares.sim` stand on the edge, so the edge does not import them. It also keeps their weight
out of start-up.
"""

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import click

from ares.edge.cli.options import pairs_option

F = TypeVar("F", bound=Callable[..., Any])


def configured(command: F) -> F:
    """Adds the options of everything that has a configuration: file, home, overrides."""
    file = click.option(
        "--config",
        "file",
        metavar="FILE",
        type=click.Path(dir_okay=False),
        help="TOML file, - for stdin.  [default: HOME/ares.toml]",
    )
    home = click.option(
        "--home", metavar="DIR", type=click.Path(file_okay=False), help="State.  [default: ARES_HOME, then ~/.ares]"
    )
    overrides = pairs_option("--set", help="Any value of the configuration, as section.key=value. May be repeated.")
    return file(home(overrides(command)))


def load(flags: dict[str, Any], *, file: str | None, home: str | None, set: dict[str, str]) -> Any:  # noqa: A002
    """The configuration. The keyword arguments are those of `configured`."""
    # The home directory also says where the file is, so it goes in as the environment would give it.
    environment = {**os.environ, **({"ARES_HOME": os.path.abspath(home)} if home else {})}
    return program("config").load(Path(file) if file else None, {**flags, **set}, environment)


def program(name: str) -> Any:
    """The module `ares.app.<name>`."""
    return import_module(f"ares.app.{name}")


def simulator(name: str) -> Any:
    """The module `ares.sim.<name>`."""
    return import_module(f"ares.sim.{name}")
