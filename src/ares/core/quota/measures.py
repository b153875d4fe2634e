"""The measures that are limited: units for people, and whole numbers to count in, so that no order changes a sum.
What is limited per month begins anew with each."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple

# By measure, in whole units.
Amounts = Mapping[str, int]
# GPUs of jobs that name no model: they may be of any.
ANY_MODEL: Final = "gpus.*"
MODEL_PREFIX: Final = "gpus."
MICRO: Final = 1_000_000


class MeasureKind(NamedTuple):
    """`units` of it make one in people's unit; room is made by the end of jobs, of the month, or by retention."""

    units: int
    word: str
    frees: Literal["jobs", "month", "retention"] = "jobs"
    # Counted in pieces, so the limit itself counts, not the part of it that the threshold names: nine tenths of one GPU
    # are none.
    whole: bool = False


_GPUS: Final = MeasureKind(1000, "GPUs", whole=True)
_KINDS: Final[Mapping[str, MeasureKind]] = {
    "cpu": MeasureKind(1000, "cores"),
    "memory": MeasureKind(1024, "GiB of memory"),
    "gpus": _GPUS,
    "gpu-hours": MeasureKind(3_600_000, "GPU-hours this month", "month"),
    "jobs": MeasureKind(1, "jobs", whole=True),
    "jobs-queued": MeasureKind(1, "waiting jobs", whole=True),
    "storage": MeasureKind(1 << 30, "GiB of outputs and datasets", "retention"),
    "egress": MeasureKind(1 << 30, "GiB downloaded this month", "month"),
    "transfer": MeasureKind(MICRO, "MB of bulk bytes per second"),
    "budget": MeasureKind(MICRO, "spent this month", "month"),
}
# Of whole tenants, and no matter of admission: bytes are counted where they are served, and wait where they move.
AT_USE: Final = frozenset({"egress", "transfer"})
# A job asks for nothing of these; an account with too much of one gets no more jobs.
STANDING: Final = frozenset({"storage"})


def kind_of(measure: str) -> MeasureKind:
    return _GPUS if measure.startswith(MODEL_PREFIX) else _KINDS[measure]


def words(measure: str) -> str:
    """As in "8 A100 GPUs", "2 cores"."""
    return f"{measure.removeprefix(MODEL_PREFIX)} GPUs" if measure.startswith(MODEL_PREFIX) else kind_of(measure).word


def to_units(measure: str, amount: float) -> int:
    return round(amount * kind_of(measure).units)


def from_units(measure: str, units: int) -> float:
    return units / kind_of(measure).units


def add(sums: dict[str, int], amounts: Amounts, times: int = 1) -> None:
    for measure, units in amounts.items():
        sums[measure] = sums.get(measure, 0) + times * units


def times(amounts: Amounts, count: int) -> dict[str, int]:
    return {measure: count * units for measure, units in amounts.items()}


# ---- months by UTC


def month_of(wall_s: float) -> str:
    """As "202611"."""
    return datetime.fromtimestamp(wall_s, UTC).strftime("%Y%m")


def month_end(wall_s: float) -> float:
    """When the next month begins."""
    now = datetime.fromtimestamp(wall_s, UTC)
    year, month = (now.year + 1, 1) if now.month == 12 else (now.year, now.month + 1)
    return datetime(year, month, 1, tzinfo=UTC).timestamp()
