"""Pace: jobs that say how long they run on which GPU model start where they all end soonest, or wait for it.

Decides only; `allocate` places the jobs whose time has come, in the order of their ranks and of that model.
"""

import heapq
from collections.abc import Callable, Iterator
from math import inf
from typing import NamedTuple

import numpy as np

from ares.core.ask import Ask
from ares.core.capacity.bookings import claim_of, claims_of
from ares.core.capacity.node_table import WHOLE, Bools, Floats, Ints
from ares.core.forecast.estimate import fastest, runs_on
from ares.core.queue.factors import rank
from ares.core.queue.order import Place, job_of
from ares.core.queue.waiting import ClassKey, JobClass
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.pace import Gpus, PacedJob, PacedRunner, PacedSlot, choices, pace
from ares.core.schedule.plan import LeftOut
from ares.core.schedule.slot import earliest
from ares.core.schedule.trial import Trial

# Jobs that are planned together, the first by rank; jobs behind take what is left, as jobs without run times do.
_JOBS_MAX = 512
# Jobs further behind than this by rank count as nothing.
_WEIGHT_MIN = 2.0**-20


class _GpuTable(NamedTuple):
    """Every GPU of a ready node: its row, its number there, its model, and from when on it is free."""

    rows: Ints
    gpus: Ints
    models: list[str]
    free_at: Floats
    # For a GPU that is free now and claimed later: until when it is free. Otherwise -inf.
    before: Floats


def paces(trial: Trial) -> None:
    trial.paced = paced(trial)
    waiting: dict[int, list[str]] = {}
    for job, verdict in trial.paced.items():
        # A job that can have no GPU now lacks room like any other; room may be made for it.
        if verdict.start > trial.now and verdict.instead is None:
            waiting.setdefault(_class_of(trial, job), []).append(job)
    for number, jobs in waiting.items():
        trial.left[number] = LeftOut(class_id=number, jobs=len(jobs), first_job=min(jobs, key=_place(trial)))


def paced(trial: Trial) -> dict[str, PacedJob]:
    """Where and when each job that is planned this way starts."""
    telling = [job_class for job_class in trial.waiting.pacing.values() if _tells(trial, job_class.key)]
    found = {
        job: verdict
        for job_class in telling
        if not _of_one_gpu(job_class.key)
        for job, verdict in _wide(trial, job_class)
    }
    return found | _in_line(trial, [job_class for job_class in telling if _of_one_gpu(job_class.key)])


def _wide(trial: Trial, job_class: JobClass) -> Iterator[tuple[str, PacedJob]]:
    """Jobs of several GPUs wait for a better model if by the estimates they end sooner there, one class at a time."""
    now, best, free = trial.now, None, None
    for choice in choices(trial.cluster.table, job_class.key.asks[0]):
        opening = earliest(trial.cluster, trial.txn, trial.claims, choice.ask, now, choice.runs_s)
        if opening is not None:
            end = opening.start + choice.runs_s
            if best is None or end < best.end:
                best = PacedJob(choice.model, opening.start, end, late=False, instead=None)
            if opening.start <= now and (free is None or end < now + free[1]):
                free = (choice.slowest, choice.runs_s)
    # A job that can have nothing now takes what comes: which GPU is free by then is not known.
    if best is not None and free is not None:
        for place in job_class.line.heads(_JOBS_MAX):
            if job_of(place) not in trial.cluster.reserved:
                yield job_of(place), best._replace(instead=None if best.start <= now else free)


def _in_line(trial: Trial, classes: list[JobClass]) -> dict[str, PacedJob]:
    """Jobs of one GPU each, all planned together."""
    if not classes:
        return {}
    lines = _lines(trial, {job_class.id for job_class in classes})
    gpus = _sorted_out(trial, [job_class.key.asks[0] for job_class in classes], lines)
    runners = _runners(trial, classes)
    slots = pace(runners, gpus, trial.now)
    idle = _idle(slots, lines, gpus, trial.now)
    found = {
        runner.job: _paced(runner, slots[runner.job], gpus, idle, lines) for runner in runners if runner.job in slots
    }
    short = ((runner, _before(runner, found.get(runner.job), lines, gpus, trial.now)) for runner in runners)
    return found | {runner.job: slips_in for runner, slips_in in short if slips_in is not None}


def _tells(trial: Trial, key: ClassKey) -> bool:
    """Whether its jobs tell GPU models apart, and only GPUs keep them waiting."""
    ask = key.asks[0]
    plain = len(key.asks) == 1 and not ask.near and not ask.reservation
    return bool(ask.runs) and plain and trial.gate(key, ask) is None


def _of_one_gpu(key: ClassKey) -> bool:
    ask = key.asks[0]
    return ask.ranks == 1 and ask.gpus == 1 and ask.gpu_milli == WHOLE


def _place(trial: Trial) -> Callable[[str], Place]:
    def of(job: str) -> Place:
        place = trial.waiting.place_of(job)
        assert place is not None, f"{job} waits"
        return place

    return of


def _class_of(trial: Trial, job: str) -> int:
    found = trial.waiting.class_of(job)
    assert found is not None, f"{job} waits"
    return found.id


def _lines(trial: Trial, mine: set[int]) -> _GpuTable:
    cluster, now = trial.cluster, trial.now
    table = cluster.table
    ends = {key: max(at, now + 1.0) for key, at in _ends(cluster).items()}
    spoken_for = _spoken_for(cluster, mine, now)
    found: list[tuple[int, int, str, float, float]] = []
    for row in np.flatnonzero(table.healthy & (table.gpu_count > 0)).tolist():
        record = table.records[row]
        assert record is not None, f"row {row} is ready"
        for gpu in record.info.gpus:
            if not gpu.mig and gpu.index < table.gpus_wide:
                free = table.gpu_left.item(row, gpu.index) == WHOLE
                at = now if free else ends.get((record.info.name, gpu.index), inf)
                start, until = spoken_for.get((row, gpu.index), (inf, at))
                found.append((row, gpu.index, gpu.model, max(at, until), start if free and start > now else -inf))
    rows, gpus = np.array([line[:2] for line in found], np.int64).reshape(-1, 2).T
    free_at, before = np.array([line[3:] for line in found], np.float64).reshape(-1, 2).T
    return _GpuTable(rows, gpus, [line[2] for line in found], free_at, np.where(np.isfinite(before), before, -inf))


def _ends(cluster: Cluster) -> dict[tuple[str, int], float]:
    """When each GPU that is held will be free."""
    found: dict[tuple[str, int], float] = {}
    for holding in cluster.holdings.values():
        at = inf if holding.ends_at is None else holding.ends_at
        for place in holding.placements:
            for gpu in place.gpus:
                found[place.node, gpu] = max(at, found.get((place.node, gpu), 0.0))
    return found


def _spoken_for(cluster: Cluster, mine: set[int], now: float) -> dict[tuple[int, int], tuple[float, float]]:
    """From when until when GPUs are booked, or promised to jobs that are not planned here."""
    claims = [*claims_of(cluster, now)]
    for job, promise in cluster.promises.items():
        job_class = cluster.waiting.class_of(job)
        if job_class is not None and job_class.id not in mine and (claim := claim_of(cluster, promise)) is not None:
            claims.append(claim)
    found: dict[tuple[int, int], tuple[float, float]] = {}
    for claim in claims:
        for taken in claim.taken:
            for gpu in taken.gpus:
                start, until = found.get((taken.row, gpu), (inf, -inf))
                found[taken.row, gpu] = min(start, claim.start), max(until, claim.until)
    return found


def _sorted_out(trial: Trial, asks: list[Ask], lines: _GpuTable) -> Gpus:
    """GPUs of one model that the same asks could have are of one sort."""
    plain = {ask._replace(runs=()): 0 for ask in asks}
    usable = np.array([_usable(trial, ask, lines) for ask in plain]).reshape(len(plain), len(lines.models))
    prices = _prices(trial, lines)
    keys = [(model, usable[:, gpu].tobytes(), prices[gpu]) for gpu, model in enumerate(lines.models)]
    sorts = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    first = [keys.index(key) for key in sorts]
    number = {ask: at for at, ask in enumerate(plain)}
    runs = [
        [runs_on(ask.runs, lines.models[gpu]) if usable[number[ask._replace(runs=())], gpu] else inf for gpu in first]
        for ask in asks
    ]
    table = np.array(runs, np.float64).reshape(len(asks), len(first))
    price_hour = np.array([key[2] for key in sorts], np.float64)
    return Gpus(lines.free_at, np.array([sorts[key] for key in keys], np.int64), table, price_hour)


def _prices(trial: Trial, lines: _GpuTable) -> list[float]:
    """What each GPU costs in an hour, by its pool."""
    pools, of_row = trial.profile.pools, dict[int, float]()
    for row in {int(row) for row in lines.rows}:
        record = trial.cluster.table.records[row]
        pool = None if record is None else pools.get(record.info.pool)
        if pool is not None:
            of_row[row] = pool.gpu_hour * (pool.spot_factor if pool.spot else 1.0)
    return [of_row.get(row, 0.0) for row in lines.rows.tolist()]


def _usable(trial: Trial, ask: Ask, lines: _GpuTable) -> Bools:
    """GPUs that the ask may have; no free GPU of a row that lacks anything else."""
    evaluations, table = trial.evaluations, trial.cluster.table
    passes = evaluations.stage(ask) == len(evaluations.rules.filters)
    answers = table.answers(ask.gpu_model, ask.gpu_memory_mib)[lines.rows, lines.gpus]
    return evaluations.possible(ask)[lines.rows] & answers & (passes[lines.rows] | (lines.free_at > trial.now))


def _runners(trial: Trial, classes: list[JobClass]) -> list[PacedRunner]:
    """Each priority level doubles the weight; other factors of the rank count as much as they are worth in levels."""
    cluster, order = trial.cluster, trial.profile.order
    ranked: list[tuple[float, Place, int, JobClass]] = []
    for kind, job_class in enumerate(classes):
        for place in job_class.line.heads(_JOBS_MAX):
            if job_of(place) not in cluster.reserved:
                facts = trial.waiting.facts_of(job_of(place))
                ranked.append((-rank(facts, trial.shares, order, trial.now)[0], place, kind, job_class))
    first = heapq.nsmallest(_JOBS_MAX, ranked, key=lambda ranking: ranking[:2])
    level = sum(factor.weight for factor in order.primary if factor.name == "priority")
    best = first[0][0] if first else 0.0
    return [
        _runner(place, kind, job_class.key, max(_WEIGHT_MIN, 2.0 ** ((best - minus) / level)) if level else 1.0)
        for minus, place, kind, job_class in first
    ]


def _runner(place: Place, kind: int, key: ClassKey, weight: float) -> PacedRunner:
    if not key.dated:
        return PacedRunner(job_of(place), kind, weight, inf, inf)
    return PacedRunner(job_of(place), kind, weight, place[0] + fastest(key.asks[0].runs), place[0])


def _idle(slots: dict[str, PacedSlot], lines: _GpuTable, gpus: Gpus, now: float) -> dict[int, str]:
    """Sorts of GPUs of which one is free and no job of these is to use it now, each with its model."""
    used = {slot.gpu for slot in slots.values() if slot.start <= now}
    free = (gpu for gpu in np.flatnonzero(lines.free_at <= now).tolist() if gpu not in used)
    return {gpus.sort.item(gpu): lines.models[gpu] for gpu in free}


def _paced(runner: PacedRunner, slot: PacedSlot, gpus: Gpus, idle: dict[int, str], lines: _GpuTable) -> PacedJob:
    runs, price = gpus.runs_s[runner.kind], gpus.price_hour
    best = min(((runs.item(sort), model, sort) for sort, model in idle.items()), default=(inf, "", 0))
    dated = runner.deadline < inf and not slot.late and best[0] < inf
    return PacedJob(
        model=lines.models[slot.gpu],
        start=slot.start,
        end=slot.end,
        late=slot.late,
        instead=None if best[0] == inf else (best[1], best[0]),
        cheaper=dated
        and (slot.end - slot.start) * price.item(gpus.sort.item(slot.gpu)) < best[0] * price.item(best[2]),
    )


def _before(runner: PacedRunner, found: PacedJob | None, lines: _GpuTable, gpus: Gpus, now: float) -> PacedJob | None:
    """A start now, on a GPU claimed for later, for a job that would otherwise wait and ends before the claim."""
    ends = now + gpus.runs_s[runner.kind][gpus.sort]
    ends = np.where(ends <= lines.before, ends, inf)
    at = int(ends.argmin()) if len(ends) else 0
    if not len(ends) or ends[at] == inf or (found is not None and (found.start <= now or found.end <= ends[at])):
        return None
    end = ends.item(at)
    return PacedJob(model=lines.models[at], start=now, end=end, late=end > runner.deadline, instead=None, slips_in=True)
