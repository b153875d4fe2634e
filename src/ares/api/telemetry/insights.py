"""What is odd in the server's own numbers, and what is to be expected of demand."""

from ares.model.base import Note, Record
from ares.model.telemetry.insight import InsightRecord, InsightVerdict


class DemandView(Record, frozen=True, omit_defaults=False):
    """Whether GPUs will be asked for that are not there, in `ahead_s`. Without a probability `silent` says why nothing
    is said. `skill`: how much better its probabilities were than the better of the mere share of such times and of
    saying that all stays as it is; `coverage`: how often what came lay in the range; both of `tried` times of late."""

    ahead_s: float
    probability: float | None = None
    low: float | None = None
    high: float | None = None
    capacity: float | None = None
    skill: float | None = None
    coverage: float | None = None
    tried: int = 0
    silent: str = ""


class InsightList(Record, frozen=True, omit_defaults=False):
    """The newest first. Those with a known cause or called no anomaly, only where all are asked for."""

    replica: str
    at: float
    insights: tuple[InsightRecord, ...]
    forecasts: tuple[DemandView, ...]
    # Series that have enough history to be judged, and that are watched.
    judged: int
    watched: int
    # Known causes at the moment, for which nothing is told.
    causes: tuple[str, ...] = ()


class FeedbackBody(Record, frozen=True):
    """What a person makes of an insight."""

    verdict: InsightVerdict
    note: Note = ""
