"""Errors on stderr: what happened, and what to do about it."""

import click

from ares.edge.cli.render.text import printable


def report(what: str, fix: str, code: int) -> int:
    """Writes an error to stderr."""
    click.echo(f"error: {printable(what)}", err=True)
    if fix:
        click.echo(f"fix: {printable(fix)}", err=True)
    return code
