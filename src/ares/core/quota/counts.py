"""What one tenant uses, by tenant, team and user: sums that follow the records of its jobs.

A job that has not ended counts with all it asked for, its estimate and the cost of earlier attempts. Of a job that
has ended, its outputs count as long as they are kept, and what it used counts in the month of its end.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ares.core.energy import spent_by
from ares.core.federation.clusters import code_in
from ares.core.lifecycle.ranks import used
from ares.core.quota.measures import MICRO, Amounts, add, month_of
from ares.model.quota import LevelName, SpentRecord
from ares.model.state import BOUND, TERMINAL, JobState

_MILLI = 1000


class QuotaLevel(NamedTuple):
    """A tenant, a team or a user. The tenant itself has no name here."""

    kind: LevelName
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}" if self.name else self.kind


TENANT = QuotaLevel("tenant")


def levels_of(team: str | None, user: str) -> tuple[QuotaLevel, ...]:
    """All levels that a job of this user in this team counts for."""
    mine = (TENANT, QuotaLevel("user", user)) if user else (TENANT,)
    return (*mine, QuotaLevel("team", team)) if team else mine


def place_of(code: str) -> QuotaLevel:
    """All jobs of the tenant that the cluster with this code has admitted by itself, beside the three levels."""
    return QuotaLevel("tenant", code)


def counted_for(job: str, team: str | None, user: str) -> tuple[QuotaLevel, ...]:
    """All that a live job, array or workflow is summed up for."""
    levels, code = levels_of(team, user), code_in(job)
    return (*levels, place_of(code)) if code else levels


class CountedUse(NamedTuple):
    levels: tuple[QuotaLevel, ...]
    amounts: Amounts


_Sums = dict[QuotaLevel, dict[str, int]]


class Counts:
    """The counts of one tenant. `put` and `drop` say what a job is now; the order of calls does not change the sums."""

    def __init__(self) -> None:
        self.sums: _Sums = {}
        # Use of jobs that ended, by the month of their end.
        self.ended: dict[str, _Sums] = {}
        self._jobs: dict[str, CountedUse] = {}

    def put(self, job: str, counted: CountedUse) -> None:
        """Counts a job that has not ended, or the tasks of an array that do not exist yet."""
        known = self._jobs.get(job)
        if known == counted:
            return
        if known is not None:
            _move(self.sums, known, -1)
        self._jobs[job] = counted
        _move(self.sums, counted, 1)

    def drop(self, job: str) -> None:
        known = self._jobs.pop(job, None)
        if known is not None:
            _move(self.sums, known, -1)

    def end(self, state: JobState, by: int = 1) -> None:
        """Counts a job that ended; -1 takes it out again."""
        levels = levels_of(state.team, state.submitted_by)
        if state.output_bytes:
            _move(self.sums, CountedUse(levels, {"storage": state.output_bytes}), by)
        month = month_of(state.ended_at or 0.0)
        _move(self.ended.setdefault(month, {}), CountedUse(levels, used_by(state)), by)

    def used(self, level: QuotaLevel, month: str) -> dict[str, int]:
        """What the level uses now, with what jobs that ended in the month used."""
        found = dict(self.sums.get(level, {}))
        add(found, self.ended.get(month, {}).get(level, {}))
        return found

    @property
    def levels(self) -> list[QuotaLevel]:
        return sorted({*self.sums, *(level for sums in self.ended.values() for level in sums)})


def _move(sums: _Sums, counted: CountedUse, by: int) -> None:
    for level in counted.levels:
        add(sums.setdefault(level, {}), counted.amounts, by)


# ---- what one job counts


def used_by(state: JobState) -> dict[str, int]:
    """GPU-hours and cost of a job that has ended."""
    cost = sum(part.cost for part in state.spent)
    return {"gpu-hours": round(state.gpu_s * _MILLI), "budget": round(cost * MICRO)}


def live(state: JobState, asked: Amounts) -> CountedUse:
    """A job that has not ended: what it asked for, what earlier attempts used, and what this one is expected to."""
    amounts = dict(asked)
    if state.phase not in BOUND:
        amounts["jobs-queued"] = 1
    gpu_s, cost = state.gpu_s, 0.0
    for part in state.spent:
        # Use of the running attempt: within its estimate.
        gpu_s -= part.gpu_s if part.fate == "open" else 0.0
        cost += part.cost if part.fate != "open" else 0.0
    gpu_ms = round(gpu_s * _MILLI) + round(state.estimated_s * asked.get("gpus", 0))
    micro = round((cost + state.cost_estimate) * MICRO)
    if gpu_ms:
        amounts["gpu-hours"] = gpu_ms
    if micro:
        amounts["budget"] = micro
    return CountedUse(counted_for(state.id, state.team, state.submitted_by), amounts)


def overrun(state: JobState, asked: Amounts, now: float) -> dict[str, int]:
    """What the attempt of a running job has used beyond its estimate."""
    if state.phase not in BOUND:
        return {}
    parts = [part for part in spent_by(state, now, "open") if part.fate == "open"]
    cost = sum(part.cost for part in parts) - state.cost_estimate
    before_s = state.gpu_s - sum(part.gpu_s for part in state.spent if part.fate == "open")
    gpu_ms = (used(state, now)[0] - before_s) * _MILLI - state.estimated_s * asked.get("gpus", 0)
    return {"gpu-hours": max(0, round(gpu_ms)), "budget": max(0, round(cost * MICRO))}


def to_come(asked: Amounts, seconds: float, cost: float) -> dict[str, int]:
    """What one more job or task takes that is expected to run and to cost so much."""
    gpu_ms, micro = round(seconds * asked.get("gpus", 0)), round(cost * MICRO)
    month = {measure: units for measure, units in (("gpu-hours", gpu_ms), ("budget", micro)) if units}
    return {**asked, "jobs-queued": 1, **month}


def rolled_up(before: SpentRecord, states: Iterable[JobState]) -> SpentRecord:
    """The record with what these jobs used, which are about to be forgotten."""
    levels = {name: dict(amounts) for name, amounts in before.levels.items()}
    for state in states:
        for level in levels_of(state.team, state.submitted_by):
            add(levels.setdefault(str(level), {}), used_by(state))
    return SpentRecord(tenant=before.tenant, month=before.month, levels=levels)


def is_live(state: JobState) -> bool:
    return state.phase not in TERMINAL


def apart(one: Mapping[str, int], other: Mapping[str, int]) -> float:
    """By which part two counts differ, in the measure that differs most."""
    keys = one.keys() | other.keys()
    return max((abs(one.get(k, 0) - other.get(k, 0)) / max(1, one.get(k, 0), other.get(k, 0)) for k in keys), default=0)
