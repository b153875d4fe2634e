"""What jobs used and what it cost."""

from typing import Literal

from ares.api.books.ages import ClusterAge
from ares.model.base import Record

By = Literal["tenant", "team", "user", "pool", "gpu-model", "job", "cluster"]


class Use(Record, frozen=True):
    """Of one job, all attempts together, up to now."""

    gpu_s: float = 0.0
    cpu_s: float = 0.0
    energy_wh: float = 0.0
    cost: float = 0.0
    # Used by attempts that failed or were taken away.
    lost_gpu_s: float = 0.0
    # What its current attempt draws and costs.
    watts: float = 0.0
    per_hour: float = 0.0


class UsageRow(Record, frozen=True):
    """One group. Energy is an estimate from above: what was held, at full load."""

    key: str
    jobs: int = 0
    gpu_hours: float = 0.0
    cpu_hours: float = 0.0
    energy_kwh: float = 0.0
    cost: float = 0.0
    # Of attempts that failed or were taken away.
    wasted_gpu_hours: float = 0.0
    wasted_cpu_hours: float = 0.0
    wasted_cost: float = 0.0
    # The name of the job, where each group is one.
    name: str = ""


class UsageReport(Record, frozen=True):
    """Jobs that ended since then or have not ended, with all they used. Jobs that were forgotten are not in it."""

    by: By
    since: float
    until: float
    # When the oldest job was submitted that is still known; None when there is none.
    known_since: float | None
    rows: tuple[UsageRow, ...]
    total: UsageRow
    # Groups there are; more than `rows` when not all were asked for.
    groups: int
    # Of a global plane: how old what is known of each of its clusters is.
    clusters: tuple[ClusterAge, ...] = ()
