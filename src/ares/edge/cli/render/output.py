"""`--output`: tables for people, or the API's own objects for programs."""

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

FORMATS = ("table", "wide", "json", "yaml", "name")
F = TypeVar("F", bound=Callable[..., Any])


def output_option(*formats: str) -> Callable[[F], F]:
    """Adds -o/--output with these formats, or with all."""
    choices = formats or FORMATS
    return click.option(
        "-o", "--output", type=click.Choice(choices), default=choices[0], show_default=True, help="How to print it."
    )


def print_objects(output: str, value: Any, names: Callable[[Any], list[str]]) -> bool:
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
