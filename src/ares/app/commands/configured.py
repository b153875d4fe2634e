"""The configuration that a command of `ares` is given: file, home, overrides."""

import os
from collections.abc import Callable
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
    from ares.app import config

    return config.load(Path(file) if file else None, {**flags, **set}, environment)
