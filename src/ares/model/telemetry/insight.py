"""What was odd in a series of numbers, for how long, and what a person made of it."""

from typing import Literal

from ares.model.base import Note, Record

InsightVerdict = Literal["", "no-anomaly", "useful"]


class InsightRecord(Record, frozen=True):
    """An episode in which a series was not as usual: between `low` and `high`. `cause`: a known one, for which it was
    told to no person."""

    id: str
    series: str
    labels: dict[str, str] = {}
    text: str = ""
    began_at: float = 0.0
    last_at: float = 0.0
    # None while it lasts.
    ended_at: float | None = None
    value: float = 0.0
    low: float = 0.0
    high: float = 0.0
    probability: float = 0.0
    replica: str = ""
    cause: str = ""
    verdict: InsightVerdict = ""
    by: str = ""
    note: Note = ""
