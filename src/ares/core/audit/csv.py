"""Entries as CSV that a spreadsheet cannot mistake for formulas."""

from collections.abc import Iterable
from typing import Any, cast

from ares.model.audit import AuditEntry

COLUMNS = (
    "at", "chain", "seq", "outcome", "operation", "reason", "tenant", "home", "target", "user", "token", "role",
    "proof", "object", "made", "status", "method", "path", "glass", "count", "remote", "trace", "hash",
)  # fmt: skip
# Characters that make a cell need quotes.
_QUOTED = (",", '"', "\r", "\n")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def cell(value: object) -> str:
    """A cell, quoted where it must be; a text that would be a formula begins with an apostrophe."""
    text = str(value)
    if text.startswith(_FORMULA):
        text = f"'{text}"
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in _QUOTED) else text


def header() -> bytes:
    return ",".join(COLUMNS).encode() + b"\r\n"


def rows(entries: Iterable[AuditEntry]) -> bytes:
    return "".join(",".join(cell(_value(entry, column)) for column in COLUMNS) + "\r\n" for entry in entries).encode()


def _value(entry: AuditEntry, column: str) -> object:
    value: Any = getattr(entry, column)
    if isinstance(value, tuple):
        return " ".join(cast("tuple[str, ...]", value))
    return f"{value:.6f}" if isinstance(value, float) else value
