"""What jobs used, by job and summed up: GPU-hours, CPU-hours, energy, cost, and how much of it came to nothing."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import nsmallest

from ares.api.usage import By, UsageReport, UsageRow, Use
from ares.core.energy import HOUR_S, spent_by
from ares.core.lifecycle.ranks import used
from ares.model.state import BOUND, TERMINAL, JobState, Spent

WH = 3600.0
KWH = 1000 * WH


def cluster_of(state: JobState) -> str:
    """The cluster that has the job, and tells what it uses; empty: this one."""
    owner = state.owner
    return owner.cluster if owner is not None and owner.stage == "CONFIRMED" else ""


def use_of(states: Iterable[JobState], now: float) -> Use:
    """What a job used, or all tasks of an array together."""
    gpu_s = cpu_s = energy_j = cost = lost_gpu_s = watts = per_hour = 0.0
    for state in states:
        gpu, cpu = used(state, now)
        gpu_s, cpu_s = gpu_s + gpu, cpu_s + cpu
        for part in spent_by(state, now, "open"):
            energy_j, cost = energy_j + part.energy_j, cost + part.cost
            lost_gpu_s += part.gpu_s if part.fate == "lost" else 0.0
        if state.phase in BOUND and state.rates:
            alike = len(state.placements) if len(state.rates) == 1 else 1
            watts += alike * sum(rate.watts for rate in state.rates)
            per_hour += alike * sum(rate.per_hour for rate in state.rates)
    return Use(
        gpu_s=gpu_s,
        cpu_s=cpu_s,
        energy_wh=energy_j / WH,
        cost=cost,
        lost_gpu_s=lost_gpu_s,
        watts=watts,
        per_hour=per_hour,
    )


@dataclass(slots=True)
class _Sum:
    jobs: int = 0
    gpu_s: float = 0.0
    cpu_s: float = 0.0
    energy_j: float = 0.0
    cost: float = 0.0
    lost_gpu_s: float = 0.0
    lost_cpu_s: float = 0.0
    lost_cost: float = 0.0
    name: str = ""

    def add(self, part: Spent) -> None:
        self.gpu_s += part.gpu_s
        self.cpu_s += part.cpu_s
        self.energy_j += part.energy_j
        self.cost += part.cost
        if part.fate == "lost":
            self.lost_gpu_s += part.gpu_s
            self.lost_cpu_s += part.cpu_s
            self.lost_cost += part.cost

    def row(self, key: str) -> UsageRow:
        return UsageRow(
            key=key,
            jobs=self.jobs,
            gpu_hours=self.gpu_s / HOUR_S,
            cpu_hours=self.cpu_s / HOUR_S,
            energy_kwh=self.energy_j / KWH,
            cost=self.cost,
            wasted_gpu_hours=self.lost_gpu_s / HOUR_S,
            wasted_cpu_hours=self.lost_cpu_s / HOUR_S,
            wasted_cost=self.lost_cost,
            name=self.name,
        )


# The owner or place of the use: of a job as a whole, or of one part of what it used.
_KEYS: dict[By, Callable[[JobState, Spent], str]] = {
    "tenant": lambda state, _: state.tenant,
    "team": lambda state, _: f"{state.tenant}/{state.team or 'default'}",
    "user": lambda state, _: f"{state.tenant}/{state.team or 'default'}/{state.submitted_by or 'nobody'}",
    "pool": lambda _, part: part.pool or "(not known)",
    "gpu-model": lambda _, part: part.gpu_model or "(no GPU)",
    "job": lambda state, _: state.id,
    "cluster": lambda state, _: cluster_of(state),
}


class UsageSum:
    """Adds up jobs, some at a time. The dearest groups first; without prices, the groups with the most GPU-hours, then
    CPU-hours."""

    def __init__(
        self, by: By, since: float, now: float, until: float | None = None, pool: str | None = None, here: str = ""
    ) -> None:
        """Of jobs that ended since then, and before `until`, or have not ended; of one pool, or of all of them. `here`
        is the name of this cluster."""
        self._here = here
        self._by: By = by
        self._until = until
        self._pool = pool
        self._since = since
        self._now = now
        self._sums: dict[str, _Sum] = {}
        self._total = _Sum()
        self._known_since: float | None = None

    def add(self, states: Iterable[JobState]) -> None:
        key_of, sums, total, known = _KEYS[self._by], self._sums, self._total, self._known_since
        for state in states:
            known = state.submitted_at if known is None else min(known, state.submitted_at)
            if not self._counts(state):
                continue
            parts = parts_of(state, self._now)
            if self._pool is not None:
                parts = [part for part in parts if part.pool == self._pool]
            total.jobs += bool(parts)
            keys: set[str] = set()
            for part in parts:
                key = key_of(state, part) or self._here
                mine = sums.setdefault(key, _Sum(name=state.name if self._by == "job" else ""))
                mine.add(part)
                total.add(part)
                keys.add(key)
            for key in keys:
                sums[key].jobs += 1
        self._known_since = known

    def _counts(self, state: JobState) -> bool:
        """A job that began after the period has nothing to do with it."""
        newest = state.submitted_at if state.ended_at is None else state.ended_at
        if self._until is not None and newest >= self._until:
            return False
        return state.phase not in TERMINAL or (state.ended_at or 0.0) >= self._since

    def report(self, limit: int) -> UsageReport:
        sums = self._sums
        # Only the first groups are sorted: there may be very many.
        order = nsmallest(limit, sums.items(), key=_dearest)
        rows = tuple(group.row(key) for key, group in order)
        return UsageReport(
            by=self._by, since=self._since, until=self._now, known_since=self._known_since, rows=rows,
            total=self._total.row("total"), groups=len(sums),
        )  # fmt: skip


def _dearest(item: tuple[str, _Sum]) -> tuple[float, float, float, str]:
    key, sums = item
    return -sums.cost, -sums.gpu_s, -sums.cpu_s, key


def parts_of(state: JobState, now: float) -> list[Spent]:
    """All it used, with what was used before rates were known."""
    parts = list(spent_by(state, now, "open"))
    gpu_s, cpu_s = used(state, now)
    rest_gpu_s, rest_cpu_s = gpu_s - sum(part.gpu_s for part in parts), cpu_s - sum(part.cpu_s for part in parts)
    # Beyond what rounding makes.
    if rest_gpu_s > 1e-6 * gpu_s or rest_cpu_s > 1e-6 * cpu_s:
        parts.append(Spent(gpu_s=max(0.0, rest_gpu_s), cpu_s=max(0.0, rest_cpu_s)))
    return parts
