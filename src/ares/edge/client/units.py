"""Amounts as people write them: 4G, 500m, 2h, 1d12h. A number without a unit is refused where tools disagree."""

import re
from datetime import datetime, timedelta

from ares.edge.client.errors import InvalidSpec

_MEMORY_KIB = {"k": 1, "m": 1024, "g": 1024**2, "t": 1024**3}
_MEMORY = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[kmgt])(?:i?b?)", re.IGNORECASE | re.ASCII)
_SECONDS = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_DURATION_PART = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>ms|d|h|m|s)", re.ASCII)
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|d|h|m|s))+", re.ASCII)
_CLOCK = re.compile(r"(?:(?P<d>\d+)-)?(?P<h>\d+):(?P<m>[0-5]?\d):(?P<s>[0-5]?\d)", re.ASCII)
_TIME_OF_DAY = re.compile(r"(\d{1,2}):(\d{2})", re.ASCII)
_SIGNAL = re.compile(r"(?:SIG)?(?P<name>[A-Z0-9]+)(?:@(?P<time>.+))?", re.ASCII)
_CPUS = re.compile(r"(?P<milli>\d+)m|(?P<whole>\d+(?:\.\d{1,3})?)", re.ASCII)


def memory_mib(text: str | float) -> int:
    """Memory in MiB. G and Gi both mean 2**30 bytes, as in Slurm; parts of a MiB are rounded up."""
    match = _MEMORY.fullmatch(str(text).strip())
    if match is None:
        if re.fullmatch(r"\d+(\.\d+)?", str(text)):
            raise InvalidSpec(
                f"memory {text!s} has no unit", fix=f"write {text!s}M for mebibytes or {text!s}G for gibibytes"
            )
        raise InvalidSpec(f"memory {text!r} is not an amount", fix="write it like 512M, 4G or 1.5T")
    kib = float(match["number"]) * _MEMORY_KIB[match["unit"].lower()]
    return max(1, -int(-kib // 1024))


def seconds(text: str | float) -> float:
    """A duration in seconds: 90s, 2h, 1d12h, 1h30m, 500ms, or a clock like 01:30:00 or 1-12:00:00."""
    written = str(text).strip().lower()
    if written == "0":
        return 0.0
    if clock := _CLOCK.fullmatch(written):
        return sum(float(clock[unit] or 0) * _SECONDS[unit] for unit in "dhms")
    if _DURATION.fullmatch(written):
        return sum(float(part["number"]) * _SECONDS[part["unit"]] for part in _DURATION_PART.finditer(written))
    if re.fullmatch(r"\d+(\.\d+)?", written):
        raise InvalidSpec(f"duration {text!s} has no unit", fix=f"write {text!s}s for seconds or {text!s}m for minutes")
    raise InvalidSpec(f"duration {text!r} is not a time", fix="write it like 90s, 30m, 2h, 1d12h or 01:30:00")


def moment(text: str | float | None, now: float) -> float | None:
    """A time that has been, in seconds since the epoch: 2h for two hours ago, today, yesterday, 18:00, 2026-12-01 or
    2026-12-01T18:00, by the reader's clock where no zone is said."""
    if text is None or isinstance(text, int | float):
        return text
    written, here = text.strip().lower(), datetime.fromtimestamp(now).astimezone()
    midnight = here.replace(hour=0, minute=0, second=0, microsecond=0)
    if written in ("today", "yesterday"):
        return (midnight - timedelta(days=written == "yesterday")).timestamp()
    if _DURATION.fullmatch(written):
        return now - seconds(written)
    try:
        if clock := _TIME_OF_DAY.fullmatch(written):
            at = midnight.replace(hour=int(clock[1]), minute=int(clock[2]))
            return (at - timedelta(days=1) if at > here else at).timestamp()
        said = datetime.fromisoformat(text.strip())
    except ValueError:
        fix = "write it like 2h (ago), today, 18:00, 2026-12-01 or 2026-12-01T18:00"
        raise InvalidSpec(f"{text!r} is not a time", fix=fix) from None
    return (said if said.tzinfo else said.astimezone()).timestamp()


def warning(text: str) -> dict[str, object]:
    """A signal ahead of the time limit, in Slurm's way: USR1@60s. Without a time, the server's default."""
    match = _SIGNAL.fullmatch(str(text).strip().upper())
    if match is None:
        raise InvalidSpec(f"signal {text!r} is not a signal and a time", fix="write it like USR1@60s")
    before = {} if match["time"] is None else {"beforeS": seconds(match["time"])}
    return {"signal": f"SIG{match['name']}", **before}


def cpu_milli(text: str | float) -> int:
    """CPUs in thousandths: 2, 1.5 or 500m."""
    match = _CPUS.fullmatch(str(text).strip())
    if match is None:
        raise InvalidSpec(f"cpus {text!r} is not a number of CPUs", fix="write it like 2, 1.5 or 500m (thousandths)")
    if match["milli"]:
        return int(match["milli"])
    return round(float(match["whole"]) * 1000)
