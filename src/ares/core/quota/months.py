"""Calendar months by UTC: what is limited per month begins anew with each."""

from datetime import UTC, datetime


def month_of(wall_s: float) -> str:
    """As "202611"."""
    return datetime.fromtimestamp(wall_s, UTC).strftime("%Y%m")


def month_end(wall_s: float) -> float:
    """When the next month begins."""
    now = datetime.fromtimestamp(wall_s, UTC)
    year, month = (now.year + 1, 1) if now.month == 12 else (now.year, now.month + 1)
    return datetime(year, month, 1, tzinfo=UTC).timestamp()
