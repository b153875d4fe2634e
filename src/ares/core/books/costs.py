"""What days cost together: held, idle and capacity, so that the parts always make the whole."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Final, NamedTuple

from ares.api.books.costs import CostBy, CostRow
from ares.core.books.draft import used_on_the_day
from ares.model.books.book import BookLine, PoolDay, TenantBook

_HOUR_MS: Final = 3_600_000
_MICRO: Final = 1_000_000
_KWH_J: Final = 3_600_000
IDLE: Final = "(idle)"
_NO_GPU: Final = "(no GPU)"
_USES: Final[Mapping[str, str]] = {"kept": "useful", "lost": "lost", "open": "running"}


@dataclass(slots=True)
class _GpuCost:
    """GPU-milliseconds and millionths of the currency."""

    gpu_ms: int = 0
    micro: int = 0

    def add(self, gpu_ms: int, micro: int) -> None:
        self.gpu_ms += gpu_ms
        self.micro += micro


@dataclass(slots=True)
class _RowSum:
    jobs: int = 0
    uses: dict[str, _GpuCost] = field(default_factory=dict[str, _GpuCost])
    down_gpu_ms: int = 0
    cpu_ms: int = 0
    joules: int = 0
    idle_joules: int = 0

    def use(self, name: str) -> _GpuCost:
        return self.uses.setdefault(name, _GpuCost())

    def row(self, key: str) -> CostRow:
        hours = {name: amounts.gpu_ms / _HOUR_MS for name, amounts in self.uses.items()}
        money = {name: amounts.micro / _MICRO for name, amounts in self.uses.items()}
        charged = sum(self.use(name).micro for name in _USES.values())
        return CostRow(
            key=key,
            jobs=self.jobs,
            useful_gpu_hours=hours.get("useful", 0.0),
            lost_gpu_hours=hours.get("lost", 0.0),
            running_gpu_hours=hours.get("running", 0.0),
            idle_gpu_hours=hours.get("idle", 0.0),
            down_gpu_hours=self.down_gpu_ms / _HOUR_MS,
            over_gpu_hours=hours.get("over", 0.0),
            capacity_gpu_hours=hours.get("capacity", 0.0),
            cpu_hours=self.cpu_ms / _HOUR_MS,
            energy_kwh=self.joules / _KWH_J,
            idle_energy_kwh=self.idle_joules / _KWH_J,
            useful_cost=money.get("useful", 0.0),
            lost_cost=money.get("lost", 0.0),
            running_cost=money.get("running", 0.0),
            idle_cost=money.get("idle", 0.0),
            over_cost=money.get("over", 0.0),
            capacity_cost=money.get("capacity", 0.0),
            cost=charged / _MICRO,
        )


# The group of a line of a tenant's day.
_KEYS: Final[Mapping[CostBy, Callable[[TenantBook, BookLine], str]]] = {
    "day": lambda book, _: book.day,
    "tenant": lambda book, _: book.tenant,
    "team": lambda book, line: f"{book.tenant}/{line.team or 'default'}",
    "pool": lambda _, line: line.pool or "(not known)",
    "gpu-model": lambda _, line: line.gpu_model or _NO_GPU,
    "cluster": lambda book, _: book.cluster,
}
# The group that has what a pool's day had and did not use.
_IDLE_KEYS: Final[Mapping[CostBy, Callable[[str, str, str], str]]] = {
    "day": lambda day, pool, cluster: day,
    "pool": lambda day, pool, cluster: pool,
    "cluster": lambda day, pool, cluster: cluster,
}


class PoolDays(NamedTuple):
    """What the pools of one cluster had on one day."""

    day: str
    cluster: str
    pools: Mapping[str, PoolDay]


class CostSum:
    """Adds up books, then what pools had. `pool` narrows it to one."""

    def __init__(self, by: CostBy, cluster: str, pool: str | None = None) -> None:
        self._by: CostBy = by
        self._cluster = cluster
        self._pool = pool
        self._sums: dict[str, _RowSum] = {}
        self._total = _RowSum()
        # By day and cluster, then by pool, of all tenants.
        self._held: dict[tuple[str, str], dict[str, _GpuCost]] = {}

    def add(self, book: TenantBook, used: Sequence[BookLine] | None = None) -> None:
        """`used`: what was used on the day, where that is known already."""
        lines = [line for line in (used_on_the_day(book) if used is None else used) if self._pool in (None, line.pool)]
        key_of, keys = _KEYS[self._by], set[str]()
        for line in lines:
            key = key_of(book, line)
            keys.add(key)
            for sums in (self._sums.setdefault(key, _RowSum()), self._total):
                sums.use(_USES[line.fate]).add(line.gpu_ms, line.micro)
                sums.cpu_ms += line.cpu_ms
                sums.joules += line.joules
            held = self._held.setdefault((book.day, book.cluster), {})
            held.setdefault(line.pool, _GpuCost()).add(line.gpu_ms, line.micro)
        # Jobs that other clusters had are in the books of these.
        ended = sum(book.ended.values()) - sum(book.elsewhere.values())
        if self._by in ("day", "tenant", "cluster") and self._pool is None and (keys or ended):
            self._sums.setdefault(key_of(book, BookLine()), _RowSum()).jobs += ended
        self._total.jobs += ended

    def add_capacity(self, day: str, pools: Mapping[str, PoolDay], cluster: str | None = None) -> None:
        """After every book of the day, once for each cluster."""
        cluster = self._cluster if cluster is None else cluster
        for name in sorted(set(pools) | set(self._held.get((day, cluster), ()))):
            if self._pool in (None, name):
                self._add_pool(day, name, pools.get(name, PoolDay()), cluster)

    def _add_pool(self, day: str, pool: str, had: PoolDay, cluster: str) -> None:
        held = self._held.get((day, cluster), {}).get(pool, _GpuCost())
        idle_ms, over_ms = max(0, had.gpu_ms - held.gpu_ms), max(0, held.gpu_ms - had.gpu_ms)
        idle_micro, over_micro = max(0, had.micro - held.micro), max(0, held.micro - had.micro)
        key_of = _IDLE_KEYS.get(self._by)
        key = IDLE if key_of is None else key_of(day, pool, cluster)
        idle_joules = had.idle_joules * idle_ms // had.gpu_ms if had.gpu_ms else 0
        for sums in (self._sums.setdefault(key, _RowSum()), self._total):
            # Where the idle ones are a group of their own, the other groups have no capacity: only the total has.
            if key_of is not None or sums is self._total:
                sums.use("capacity").add(had.gpu_ms, had.micro)
                sums.use("over").add(over_ms, over_micro)
            sums.use("idle").add(idle_ms, idle_micro)
            sums.down_gpu_ms += min(had.down_gpu_ms, idle_ms)
            sums.idle_joules += idle_joules

    def rows(self, limit: int) -> tuple[tuple[CostRow, ...], CostRow, int]:
        """The rows, their total, and how many there are in all. Days in order, else the dearest first."""
        rows = [sums.row(key) for key, sums in self._sums.items()]
        key = _by_key if self._by == "day" else _dearest
        return tuple(nsmallest(limit, rows, key=key)), self._total.row("total"), len(rows)


def _by_key(row: CostRow) -> tuple[float, float, float, str]:
    return 0.0, 0.0, 0.0, row.key


def _dearest(row: CostRow) -> tuple[float, float, float, str]:
    held = row.useful_gpu_hours + row.lost_gpu_hours + row.running_gpu_hours
    return -row.cost, -held, -row.cpu_hours, row.key


def spent_on(book: TenantBook) -> int:
    """Millionths of the currency that jobs used on the day."""
    return sum(line.micro for line in used_on_the_day(book))
