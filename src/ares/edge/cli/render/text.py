"""Text on its way to a terminal: made harmless, and short."""

import os
import sys
import time

_PHASE_COLOURS = {
    "WAITING": "yellow", "PENDING": "yellow", "STAGING": "cyan", "RUNNING": "blue", "RETRYING": "yellow",
    "PREEMPTED": "yellow",    "SUCCEEDED": "green", "FAILED": "red", "CANCELLED": "bright_black", "UNKNOWN": "magenta",
    "SKIPPED": "bright_black",
}  # fmt: skip
_UNITS = ((86_400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s"))


def printable(text: str) -> str:
    """Control characters, escapes and invisible direction marks become \\x1b and the like."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def use_colour() -> bool:
    """Only on a terminal, and never against NO_COLOR (no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def phase_colour(phase: str) -> str | None:
    return _PHASE_COLOURS.get(phase)


def duration(seconds: float | None) -> str:
    """At most two units: 45s, 3m12s, 2h5m, 3d4h."""
    if seconds is None:
        return "-"
    total = max(0, int(seconds))
    for size, unit, below, below_unit in _UNITS:
        if total >= size:
            rest = total % size // below
            return f"{total // size}{unit}{f'{rest}{below_unit}' if rest else ''}"
    return f"{total}s"


def age(at: float) -> str:
    """How long ago that was."""
    return duration(time.time() - at)


def memory(mib: int) -> str:
    """4Gi, 512Mi."""
    return f"{mib // 1024}Gi" if mib >= 1024 and mib % 1024 == 0 else f"{mib}Mi"


def cpus(milli: int) -> str:
    return f"{milli / 1000:g}"


def amount(number: float) -> str:
    """2, 0.5; nothing for none."""
    return f"{number:g}" if number else ""
