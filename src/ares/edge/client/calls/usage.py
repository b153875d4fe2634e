"""What jobs used, as the server reports it."""

from typing import Literal

from ares.model.base import Record

By = Literal["tenant", "team", "user", "pool", "gpu-model", "job"]


class Use(Record, frozen=True):
    """Of one job, all attempts together, up to now; `watts` and `per_hour` are of the attempt that runs."""

    gpu_s: float = 0.0
    cpu_s: float = 0.0
    energy_wh: float = 0.0
    cost: float = 0.0
    # Used by attempts that failed or were taken away.
    lost_gpu_s: float = 0.0
    watts: float = 0.0
    per_hour: float = 0.0


class UsageRow(Record, frozen=True):
    """One group; `wasted` is of attempts that failed or were taken away."""

    key: str
    jobs: int = 0
    gpu_hours: float = 0.0
    cpu_hours: float = 0.0
    energy_kwh: float = 0.0
    cost: float = 0.0
    wasted_gpu_hours: float = 0.0
    wasted_cpu_hours: float = 0.0
    wasted_cost: float = 0.0
    # The name of the job, where each group is one.
    name: str = ""


class UsageReport(Record, frozen=True):
    """Jobs that ended since then or have not ended, with all they used, as far as they are still known."""

    by: str
    since: float = 0.0
    until: float = 0.0
    # When the oldest job was submitted that is still known.
    known_since: float | None = None
    rows: tuple[UsageRow, ...] = ()
    total: UsageRow = UsageRow(key="total")
    # Groups there are; more than `rows` when not all were asked for.
    groups: int = 0
