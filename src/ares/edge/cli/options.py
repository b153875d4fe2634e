"""Options several commands share."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def read_seconds(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """A duration as people write it: 90s, 2h, 1d12h."""
    from ares.edge.client.errors import InvalidSpec
    from ares.edge.client.units import seconds

    try:
        return None if value is None else seconds(value)
    except InvalidSpec as error:
        raise click.BadParameter(f"{error.detail}; {error.fix}", ctx, param) from None


def read_pairs(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """key=value arguments as a mapping; the last of two equal keys wins."""
    found: dict[str, str] = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{value!r} is not of the form key=value", ctx, param)
        found[key] = text
    return found


def pairs_option(flag: str, *, help: str) -> Callable[[F], F]:  # noqa: A002
    """A repeatable key=value option."""
    return click.option(flag, multiple=True, metavar="KEY=VALUE", callback=read_pairs, help=help)
