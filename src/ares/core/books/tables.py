"""The tables of reports on promises and cost, from books."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from heapq import nsmallest
from typing import Final

from ares.api.books.costs import CostBy, CostRow
from ares.api.books.reports import ReportCell, ReportTable
from ares.core.books import waits
from ares.core.books.costs import CostSum, PoolDays
from ares.core.books.draft import OWN, used_on_the_day
from ares.core.lifecycle.deadline import budget_left
from ares.model.books.book import MissedDeadline, TenantBook
from ares.model.profile import Sla

_WORST_MAX: Final = 50
_DIGITS: Final = 6
_DEFAULT_TARGET: Final = 95.0


def rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS) + 0.0


# ---- promises


class PromiseTables:
    """Adds up books, in any order; none of them is kept."""

    def __init__(self) -> None:
        self._ended, self._decided = Counter[str](), Counter[str]()
        self._promises: dict[tuple[str, str], Counter[str]] = {}
        self._by_cluster: dict[tuple[str, str], Counter[str]] = {}
        self._waits: dict[str, tuple[int, ...]] = {}
        self._missed: list[tuple[float, str, str, MissedDeadline]] = []
        self._how: dict[str, Counter[str]] = {}

    def add(self, book: TenantBook) -> None:
        tenant = book.tenant
        self._ended[tenant] += sum(book.ended.values())
        self._decided[tenant] += sum(line.met + line.missed + line.excluded for line in book.sla)
        for line in book.sla:
            counts = self._promises.setdefault((tenant, line.name), Counter())
            counts.update(met=line.met, missed=line.missed, excluded=line.excluded)
            there = self._by_cluster.setdefault((line.cluster or book.cluster, line.name), Counter())
            there.update(met=line.met, missed=line.missed, excluded=line.excluded)
        self._waits[tenant] = waits.added(self._waits.get(tenant, ()), book.waits)
        self._missed += [(-missed.late_s, tenant, book.day, missed) for missed in book.worst]
        if len(self._missed) > 10 * _WORST_MAX:
            self._missed = nsmallest(_WORST_MAX, self._missed, key=_most)
        how = self._how.setdefault(tenant, Counter())
        how.update({phase.lower(): number for phase, number in book.ended.items()})
        how.update({f"failed: {name}": number for name, number in book.failures.items()})

    def tables(self, classes: Mapping[str, Sla]) -> tuple[ReportTable, ...]:
        promised = (
            self._promised("tenant", self._promises, classes),
            self._promised("cluster", self._by_cluster, classes),
        )
        return (self._population(), *promised, self._waited(), self._worst(), self._failures())

    def _population(self) -> ReportTable:
        return ReportTable(
            title="Population",
            columns=("tenant", "jobs that ended", "of these with a deadline"),
            rows=tuple((tenant, self._ended[tenant], self._decided[tenant]) for tenant in sorted(self._ended)),
            note="Every job that ended in the period, by the books of its days; jobs that were forgotten since count "
            "too.",
        )

    def _promised(
        self, by: str, promises: Mapping[tuple[str, str], Counter[str]], classes: Mapping[str, Sla]
    ) -> ReportTable:
        rows: list[tuple[ReportCell, ...]] = []
        for (whose, name), counts in sorted(promises.items()):
            met, missed = counts["met"], counts["missed"]
            target = classes[name].target_percent if name in classes else _DEFAULT_TARGET
            percent = None if not met + missed else rounded(100.0 * met / (met + missed))
            left = budget_left(met, missed, target)
            rows.append((whose, name, met, missed, counts["excluded"], percent, target, left))
        return ReportTable(
            title="Promises" if by == "tenant" else f"Promises by {by}",
            columns=(by, "class", "met", "missed", "excluded", "met %", "target %", "error budget left %"),
            rows=tuple(rows),
            note=(
                "A job meets its promise when it started and succeeded in time. Excluded are jobs that were cancelled "
                f"before that was decided. {OWN} are deadlines of jobs' own. Targets are those in force at its end."
            ),
        )

    def _waited(self) -> ReportTable:
        rows = tuple(
            (tenant, sum(counts), *(rounded(waits.quantile(counts, part)) for part in (0.5, 0.95, 0.99)))
            for tenant, counts in sorted(self._waits.items())
            if counts
        )
        return ReportTable(
            title="Waits",
            columns=("tenant", "jobs that started", "P50 s", "P95 s", "P99 s"),
            rows=rows,
            note="From submission to the first start, read from counts by bounds: true to the bounds it lies between.",
        )

    def _worst(self) -> ReportTable:
        rows = tuple(
            (tenant, missed.job, missed.name, missed.sla or OWN, day, rounded(missed.late_s), missed.cause)
            for _, tenant, day, missed in nsmallest(_WORST_MAX, self._missed, key=_most)
        )
        return ReportTable(
            title="Missed by most",
            columns=("tenant", "job", "name", "class", "day", "late s", "cause"),
            rows=rows,
            note=f"At most 20 of each tenant and day, and {_WORST_MAX} in all.",
        )

    def _failures(self) -> ReportTable:
        how = self._how
        rows = tuple((tenant, name, number) for tenant in sorted(how) for name, number in sorted(how[tenant].items()))
        return ReportTable(title="How jobs ended", columns=("tenant", "how", "jobs"), rows=rows)


def _most(entry: tuple[float, str, str, MissedDeadline]) -> tuple[float, str, str, str]:
    return entry[0], entry[1], entry[3].job, entry[2]


# ---- cost

_COLUMNS: Final[Mapping[str, Callable[[CostRow], ReportCell]]] = {
    "jobs": lambda row: row.jobs,
    "useful GPU-h": lambda row: rounded(row.useful_gpu_hours),
    "lost GPU-h": lambda row: rounded(row.lost_gpu_hours),
    "running GPU-h": lambda row: rounded(row.running_gpu_hours),
    "CPU-h": lambda row: rounded(row.cpu_hours),
    "kWh (model)": lambda row: rounded(row.energy_kwh + row.idle_energy_kwh),
    "cost": lambda row: rounded(row.cost),
    "lost cost": lambda row: rounded(row.lost_cost),
}
_WHOLE: Final[Mapping[str, Callable[[CostRow], ReportCell]]] = {
    "idle GPU-h": lambda row: rounded(row.idle_gpu_hours),
    "of these down": lambda row: rounded(row.down_gpu_hours),
    "over GPU-h": lambda row: rounded(row.over_gpu_hours),
    "capacity GPU-h": lambda row: rounded(row.capacity_gpu_hours),
    "idle cost": lambda row: rounded(row.idle_cost),
    "over cost": lambda row: rounded(row.over_cost),
    "capacity cost": lambda row: rounded(row.capacity_cost),
}
_GROUPS: Final[tuple[tuple[CostBy, str], ...]] = (
    ("day", "By day"), ("tenant", "By tenant"), ("team", "By team"), ("pool", "By pool"),
    ("gpu-model", "By GPU model"), ("cluster", "By cluster"),
)  # fmt: skip
_ROWS_MAX: Final = 5000


class CostTables:
    """Adds up books, in any order; none of them is kept."""

    def __init__(self, cluster: str) -> None:
        self._sums = {title: (by, CostSum(by, cluster)) for by, title in _GROUPS}

    def add(self, book: TenantBook) -> None:
        used = used_on_the_day(book)
        for _, sums in self._sums.values():
            sums.add(book, used)

    def tables(self, capacity: Iterable[PoolDays] | None) -> tuple[ReportTable, ...]:
        """`capacity` by day and cluster, where it is shown; once, after every book."""
        had = None if capacity is None else list(capacity)
        columns = {**_COLUMNS, **({} if had is None else _WHOLE)}
        found: list[ReportTable] = []
        for title, (by, sums) in self._sums.items():
            for days in had or ():
                sums.add_capacity(days.day, days.pools, days.cluster)
            rows, total, groups = sums.rows(_ROWS_MAX)
            if not found:
                found.append(_cost_table("Total", "", (total,), columns, _TOTAL_NOTE))
            left = f"{groups - len(rows)} more are left out." if groups > len(rows) else ""
            found.append(_cost_table(title, by, rows, columns, left))
        return tuple(found)


_TOTAL_NOTE: Final = (
    "Useful, lost, running and idle together are the capacity and what was held over it, in GPU-hours and in money. "
    "Energy is by a model: what was held, at full load; nothing of it was measured."
)


def _cost_table(
    title: str, by: str, rows: Iterable[CostRow], columns: Mapping[str, Callable[[CostRow], ReportCell]], note: str
) -> ReportTable:
    return ReportTable(
        title=title,
        columns=(by or "of", *columns),
        rows=tuple((row.key, *(read(row) for read in columns.values())) for row in rows),
        note=note,
    )
