"""What programs and people go by: the OpenAPI document, the help of every command, the table of seeded bugs."""

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from ares.app.main import cli
from ares.edge.rest.http.openapi import document
from ares.edge.rest.routes.routes import OPERATIONS, PATH_PARAMETERS
from oracles.recording import Part

_WIDTH = 100


def openapi(_: Path | None) -> Iterator[Part]:
    """A line for each operation and schema, and the digest of the whole, in which also their order counts."""
    whole = document(OPERATIONS, PATH_PARAMETERS)
    parts = msgspec.json.decode(whole)
    for path, operations in parts.pop("paths").items():
        yield Part(path, "".join(f"{method} {_line(operation)}" for method, operation in operations.items()))
    for kind, schemas in parts.pop("components").items():
        yield Part(kind, "".join(f"{name} {_line(schema)}" for name, schema in schemas.items()))
    yield Part("the rest", "".join(f"{name} {_line(value)}" for name, value in parts.items()))
    yield Part("the whole", hashlib.sha256(whole).hexdigest() + "\n")


def helps(_: Path | None) -> Iterator[Part]:
    yield from _helps(cli, "ares")


def mutants(_: Path | None) -> Iterator[Part]:
    """Which rule catches each: in its directed case or trace where it has one, otherwise after how many seeds."""
    command = [sys.executable, "-m", "ares", "sim", "mutants", "--cases", "--output", "json"]
    # Exit code 1: one was not caught, which its line says.
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    yield Part("mutants", "".join(map(_caught, msgspec.json.decode(done.stdout))))


def _caught(mutant: dict[str, Any]) -> str:
    """Without the sentence that says what is wrong: that is English."""
    return _line({name: value for name, value in mutant.items() if name != "what"})


def _line(value: Any) -> str:
    return f"{msgspec.json.encode(value).decode()}\n"


def _helps(command: click.Command, path: str, parent: click.Context | None = None) -> Iterator[Part]:
    settings: dict[str, Any] = {**command.context_settings, "terminal_width": _WIDTH, "max_content_width": _WIDTH}
    context = click.Context(command, info_name=path.rpartition(" ")[2], parent=parent, **settings)
    yield Part(path, command.get_help(context) + "\n")
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            if (found := command.get_command(context, name)) is not None:
                yield from _helps(found, f"{path} {name}", context)
