"""Options several commands share."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
DETACH_KEYS = "ctrl-p,ctrl-q"


def read_seconds(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """A duration as people write it: 90s, 2h, 1d12h."""
    from ares.edge.client.errors import InvalidSpec
    from ares.edge.client.units import seconds

    try:
        return None if value is None else seconds(value)
    except InvalidSpec as error:
        raise click.BadParameter(f"{error.detail}; {error.fix}", ctx, param) from None


def read_moment(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """A time that has been: 2h for two hours ago, today, 18:00, 2026-12-01."""
    if value is None:
        return None
    import time

    from ares.edge.client.errors import InvalidSpec
    from ares.edge.client.units import moment

    try:
        return moment(value, time.time())
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


def read_keys(ctx: click.Context, param: click.Parameter, value: str) -> bytes:
    """`ctrl-p,ctrl-q` as the bytes that a terminal sends; nothing for an empty text."""
    found = bytearray()
    for key in filter(None, value.split(",")):
        name = key.strip().lower()
        if name.startswith("ctrl-") and len(name) == 6 and "a" <= name[5] <= "z":
            found.append(ord(name[5]) - ord("a") + 1)
        elif len(key) == 1 and key.isascii():
            found.append(ord(key))
        else:
            raise click.BadParameter(f"{key!r} is neither a character nor ctrl- and a letter", ctx, param)
    return bytes(found)


def keys_option(command: F) -> F:
    """The keys that leave a session."""
    return click.option(
        "--detach-keys", "keys", metavar="KEYS", default=DETACH_KEYS, show_default=True, callback=read_keys,
        help="Leave the session by these keys; it goes on. Empty: no such keys.",
    )(command)  # fmt: skip


def rank_option(command: F) -> F:
    """Which process of a parallel job."""
    return click.option(
        "--rank", type=click.IntRange(min=0), metavar="N", default=0, show_default=True,
        help="In this process of a parallel job.",
    )(command)  # fmt: skip
