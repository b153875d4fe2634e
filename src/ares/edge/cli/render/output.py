"""What comes of a call, as `--output` says: a table or words for people, the API's own objects for programs."""

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from ares.edge.cli.render.table import Columns
    from ares.edge.client.calls.calls import Call
    from ares.edge.client.sync import Client

FORMATS = ("table", "wide", "json", "yaml", "name")
F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
R = TypeVar("R")
# What `-o name` prints: a field of each record of an answer, or what a function finds in it.
Names = str | Callable[[Any], Sequence[str]]


def output_option(*formats: str) -> Callable[[F], F]:
    """Adds -o/--output with these formats, or with all."""
    choices = formats or FORMATS
    return click.option(
        "-o", "--output", type=click.Choice(choices), default=choices[0], show_default=True, help="How to print it."
    )


def show(
    client: "Client", call: "Call[tuple[R, ...]]", columns: "Columns[R]", output: str, *, of: str, names: Names = "name"
) -> tuple[R, ...] | None:
    """Sends the call and prints a line for each record. The records, unless they were printed for programs."""
    from ares.edge.cli.render.table import print_records

    records = answer(client, call, output, names)
    if records is not None:
        print_records(columns, records, of=of)
    return records


def tell(client: "Client", call: "Call[T]", words: Callable[[T], str], output: str, names: Names = "name") -> None:
    """Sends the call and says in words what came of it."""
    found = answer(client, call, output, names)
    if found is not None:
        click.echo(words(found))


def answer(client: "Client", call: "Call[T]", output: str, names: Names = "name") -> T | None:
    """Sends the call. The answer to print for people, None once it was printed for programs."""
    raw: Any = client.send(call.raw())

    def named(value: Any) -> Sequence[str]:
        if callable(names):
            return names(value)
        records = value[call.field] if call.field else [value]
        return [str(record[names]) for record in records if record[names]]

    return None if print_objects(output, raw, named) else call.read(raw)


def print_objects(output: str, value: Any, names: Callable[[Any], Sequence[str]]) -> bool:
    """Prints for programs. False: the format is one for people, which is the caller's."""
    if output == "json":
        import json

        click.echo(json.dumps(value, indent=2))
    elif output == "yaml":
        import yaml

        click.echo(yaml.safe_dump(value, sort_keys=False), nl=False)
    elif output == "name":
        from ares.edge.cli.render.text import printable

        for name in names(value):
            click.echo(printable(name))
    return output in {"json", "yaml", "name"}


def note(text: str) -> None:
    """A remark for a person at a terminal: on stderr, and only there."""
    if sys.stderr.isatty():
        click.echo(text, err=True)


def report(what: str, fix: str, code: int) -> int:
    """An error on stderr: what happened, and what to do about it."""
    from ares.edge.cli.render.text import printable

    click.echo(f"error: {printable(what)}", err=True)
    if fix:
        click.echo(f"fix: {printable(fix)}", err=True)
    return code
