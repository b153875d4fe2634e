"""What the platform costs: what jobs held, what came of it, what stood idle, and where a budget is going."""

from typing import Literal

from ares.api.books.ages import ClusterAge
from ares.model.base import Record

CostBy = Literal["day", "tenant", "team", "pool", "gpu-model", "cluster", "job"]
# By the power model: what is held, at full load, and the idle draw of what is not. Nothing of it is measured.
EnergySource = Literal["model"]


class CostRow(Record, frozen=True):
    """One group. Where there is a capacity, useful + lost + running + idle is capacity + over, in GPU-hours and in
    money. `running` may be below nothing for one day: what ran at the end of the day before has ended since, and is
    useful or lost now."""

    key: str
    # Jobs that ended; with `by=job`, its name.
    jobs: int = 0
    name: str = ""
    useful_gpu_hours: float = 0.0
    lost_gpu_hours: float = 0.0
    running_gpu_hours: float = 0.0
    idle_gpu_hours: float = 0.0
    # Of the idle ones, those of machines that were not ready.
    down_gpu_hours: float = 0.0
    # Held beyond the capacity: over-committed, or by clocks that do not agree.
    over_gpu_hours: float = 0.0
    capacity_gpu_hours: float = 0.0
    cpu_hours: float = 0.0
    energy_kwh: float = 0.0
    idle_energy_kwh: float = 0.0
    useful_cost: float = 0.0
    lost_cost: float = 0.0
    running_cost: float = 0.0
    idle_cost: float = 0.0
    # Held at a higher price than the capacity has by now, or beyond it.
    over_cost: float = 0.0
    capacity_cost: float = 0.0
    # What jobs cost: useful, lost and running.
    cost: float = 0.0


class CostReport(Record, frozen=True):
    """Days from `first_day` to `last_day`. Days after `closed_day` are not closed: their figures still change."""

    cluster: str
    # The epoch of the store: it grows with each restore from a backup.
    incarnation: int
    by: CostBy
    currency: str
    first_day: str
    last_day: str
    # The newest day whose books are closed, and the first day that has books at all.
    closed_day: str
    books_since: str
    at: float
    rows: tuple[CostRow, ...]
    total: CostRow
    # Groups there are; more than `rows` when not all were asked for.
    groups: int
    # Whether capacity and idle are part of it: of the whole platform, for roles that see all of it.
    whole: bool
    energy_source: EnergySource = "model"
    # What a reader should know: what is assumed, what is missing.
    remarks: tuple[str, ...] = ()
    # Of a global plane: how old what is known of each of its clusters is.
    clusters: tuple[ClusterAge, ...] = ()


class BudgetProjection(Record, frozen=True):
    """A tenant's month: what it has spent by the books, where that leads, and its budget. Without `projected`, `why`
    says why there is none."""

    tenant: str
    # As "2026-11".
    month: str
    currency: str
    spent: float
    # What the quota counts against the budget now: also what live jobs are expected to cost.
    committed: float
    budget: float | None = None
    per_day: float | None = None
    projected: float | None = None
    # Four of five months like this end between them.
    projected_low: float | None = None
    projected_high: float | None = None
    # The day on which the budget is used up, if this goes on.
    used_up_on: str | None = None
    days_seen: int = 0
    why: str = ""


class BudgetList(Record, frozen=True):
    budgets: tuple[BudgetProjection, ...]


# ---- for programs that read bills


class FocusRow(Record, frozen=True, rename="pascal"):
    """A charge as FOCUS 1.0 has it (FinOps Open Cost and Usage Specification), with its column names."""

    billing_account_id: str
    billing_account_name: str
    billing_currency: str
    billing_period_start: str
    billing_period_end: str
    charge_period_start: str
    charge_period_end: str
    charge_category: str
    charge_class: str | None
    charge_description: str
    charge_frequency: str
    billed_cost: float
    effective_cost: float
    list_cost: float
    contracted_cost: float
    consumed_quantity: float
    consumed_unit: str
    pricing_category: str
    pricing_quantity: float
    pricing_unit: str
    provider_name: str
    publisher_name: str
    invoice_issuer_name: str
    region_id: str
    resource_id: str
    resource_name: str
    resource_type: str
    service_category: str
    service_name: str
    sku_id: str
    sub_account_id: str
    sub_account_name: str
    tags: dict[str, str]


class FocusExport(Record, frozen=True):
    """`complete`: every day of it is closed, so that asking again gives the same."""

    first_day: str
    last_day: str
    complete: bool
    rows: tuple[FocusRow, ...]
