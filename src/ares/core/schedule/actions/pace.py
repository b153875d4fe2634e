"""Pace: jobs that say how long they run on which GPU model start where they all end soonest, or wait for it.

Decides only; `allocate` places those whose time has come, in the order of their ranks and of that model.
"""

import heapq
from collections.abc import Callable, Iterator
from math import inf
from typing import NamedTuple

import numpy as np

from ares.core.predict.by_model import fastest, runs_on
from ares.core.queue.factors import rank
from ares.core.queue.order import Place, job_of
from ares.core.queue.waiting import ClassKey, JobClass
from ares.core.schedule.ask import Ask
from ares.core.schedule.columns import WHOLE, Floats, Ints
from ares.core.schedule.models import choices
from ares.core.schedule.openings import earliest
from ares.core.schedule.pace import Gpus, Paced, Runner, Slot, pace
from ares.core.schedule.plan import LeftOut
from ares.core.schedule.round import Round

# Jobs that are planned together, the first by rank; those behind take what is left, as jobs without run times do.
_JOBS_MAX = 1024
# Jobs further behind than this by rank count as much as nothing.
_WEIGHT_MIN = 2.0**-20


class _Lines(NamedTuple):
    """Every GPU of a ready node: its row, its number there, its model, and from when on it is free."""

    rows: Ints
    gpus: Ints
    models: list[str]
    free_at: Floats


def paces(round_: Round) -> None:
    round_.paced = paced(round_)
    waiting: dict[int, list[str]] = {}
    for job, one in round_.paced.items():
        # Whoever could have nothing now lacks room like any other; room may be made for it.
        if one.start > round_.now and one.instead is None:
            waiting.setdefault(_class_of(round_, job), []).append(job)
    for number, jobs in waiting.items():
        round_.left[number] = LeftOut(class_id=number, jobs=len(jobs), first_job=min(jobs, key=_place(round_)))


def paced(round_: Round) -> dict[str, Paced]:
    """Of every job that is planned this way: where and when."""
    telling = [one for one in round_.cluster.waiting.active.values() if _tells(round_, one.key)]
    found = {job: verdict for one in telling if not _of_one_gpu(one.key) for job, verdict in _wide(round_, one)}
    return found | _in_line(round_, [one for one in telling if _of_one_gpu(one.key)])


def _wide(round_: Round, one: JobClass) -> Iterator[tuple[str, Paced]]:
    """Jobs of several GPUs wait for a better model if by the estimates they end sooner there, one class at a time."""
    now, best, free = round_.now, None, None
    for choice in choices(round_.cluster.table, one.key.asks[0]):
        opening = earliest(round_.cluster, round_.txn, round_.claims, choice.ask, now, choice.runs_s)
        if opening is not None:
            end = opening.start + choice.runs_s
            if best is None or end < best.end:
                best = Paced(choice.model, opening.start, end, late=False, instead=None)
            if opening.start <= now and (free is None or end < now + free[1]):
                free = (choice.slowest, choice.runs_s)
    # Where it can have nothing now it takes what comes; whoever is free by then is another question.
    if best is not None and free is not None:
        for place in one.line.heads(_JOBS_MAX):
            if job_of(place) not in round_.cluster.reserved:
                yield job_of(place), best._replace(instead=None if best.start <= now else free)


def _in_line(round_: Round, classes: list[JobClass]) -> dict[str, Paced]:
    """Jobs of one GPU each, all planned together."""
    if not classes:
        return {}
    lines = _lines(round_)
    kinds = [one.key.asks[0] for one in classes]
    gpus = Gpus(lines.free_at, np.array([_runs(round_, ask, lines) for ask in kinds]))
    slots = pace(_runners(round_, classes), gpus, round_.now)
    kind_of = {one.id: kind for kind, one in enumerate(classes)}
    idle = _idle(slots, lines, round_.now)
    return {job: _paced(slot, gpus.runs_s[kind_of[_class_of(round_, job)]], idle, lines) for job, slot in slots.items()}


def _tells(round_: Round, key: ClassKey) -> bool:
    """Whether its jobs tell GPU models apart, and nothing but GPUs stands in their way."""
    ask = key.asks[0]
    return bool(ask.runs) and len(key.asks) == 1 and not ask.near and round_.gate(key, ask) is None


def _of_one_gpu(key: ClassKey) -> bool:
    ask = key.asks[0]
    return ask.ranks == 1 and ask.gpus == 1 and ask.gpu_milli == WHOLE


def _place(round_: Round) -> Callable[[str], Place]:
    def of(job: str) -> Place:
        place = round_.cluster.waiting.place_of(job)
        assert place is not None, f"{job} waits"
        return place

    return of


def _class_of(round_: Round, job: str) -> int:
    found = round_.cluster.waiting.class_of(job)
    assert found is not None, f"{job} waits"
    return found.id


def _lines(round_: Round) -> _Lines:
    cluster, now = round_.cluster, round_.now
    table = cluster.table
    ends: dict[tuple[str, int], float] = {}
    for one in cluster.holdings.values():
        # Whoever should have ended already is expected any moment.
        at = inf if one.ends_at is None else max(one.ends_at, now + 1.0)
        for place in one.placements:
            for gpu in place.gpus:
                ends[place.node, gpu] = max(at, ends.get((place.node, gpu), 0.0))
    found: list[tuple[int, int, str, float]] = []
    for row in np.flatnonzero(table.healthy & (table.gpu_count > 0)).tolist():
        record = table.records[row]
        assert record is not None, f"row {row} is ready"
        for gpu in record.info.gpus:
            if not gpu.mig and gpu.index < table.gpus_wide:
                free = table.gpu_left.item(row, gpu.index) == WHOLE
                at = now if free else ends.get((record.info.name, gpu.index), inf)
                found.append((row, gpu.index, gpu.model, at))
    rows, gpus = np.array([one[:2] for one in found], np.int64).reshape(-1, 2).T
    return _Lines(rows, gpus, [one[2] for one in found], np.array([one[3] for one in found], np.float64))


def _runs(round_: Round, ask: Ask, lines: _Lines) -> Floats:
    """How long it runs on each GPU; for ever where it may not, or where a free GPU alone is not enough for it."""
    plain = ask._replace(runs=())
    evaluations, table = round_.evaluations, round_.cluster.table
    passes = evaluations.of(plain).stage == len(evaluations.rules.filters)
    usable = evaluations.possible(plain)[lines.rows]
    usable &= table.answers(ask.gpu_model, ask.gpu_memory_mib)[lines.rows, lines.gpus]
    usable &= passes[lines.rows] | (lines.free_at > round_.now)
    by_model = {model: runs_on(ask.runs, model) for model in set(lines.models)}
    return np.where(usable, np.array([by_model[model] for model in lines.models]), inf)


def _runners(round_: Round, classes: list[JobClass]) -> list[Runner]:
    """One priority level counts double; what else ranks are made of counts as much as it is worth in levels."""
    cluster, order = round_.cluster, round_.profile.order
    ranked: list[tuple[float, Place, int, JobClass]] = []
    for kind, one in enumerate(classes):
        for place in one.line.heads(_JOBS_MAX):
            if job_of(place) not in cluster.reserved:
                facts = cluster.waiting.facts_of(job_of(place))
                ranked.append((-rank(facts, round_.shares, order, round_.now)[0], place, kind, one))
    first = heapq.nsmallest(_JOBS_MAX, ranked, key=lambda one: one[:2])
    level = sum(one.weight for one in order.primary if one.name == "priority")
    best = first[0][0] if first else 0.0
    return [
        _runner(place, kind, one.key, max(_WEIGHT_MIN, 2.0 ** ((best - minus) / level)) if level else 1.0)
        for minus, place, kind, one in first
    ]


def _runner(place: Place, kind: int, key: ClassKey, weight: float) -> Runner:
    if not key.dated:
        return Runner(job_of(place), kind, weight, inf, inf)
    return Runner(job_of(place), kind, weight, place[0] + fastest(key.asks[0].runs), place[0])


def _idle(slots: dict[str, Slot], lines: _Lines, now: float) -> Ints:
    """GPUs that are free and that nobody of these is to use now."""
    used = {slot.gpu for slot in slots.values() if slot.start <= now}
    return np.array([gpu for gpu in np.flatnonzero(lines.free_at <= now).tolist() if gpu not in used], np.int64)


def _paced(slot: Slot, runs: Floats, idle: Ints, lines: _Lines) -> Paced:
    instead = int(idle[runs[idle].argmin()]) if len(idle) and np.isfinite(runs[idle]).any() else None
    return Paced(
        model=lines.models[slot.gpu],
        start=slot.start,
        end=slot.end,
        late=slot.late,
        instead=None if instead is None else (lines.models[instead], float(runs[instead])),
    )
