"""Elastic gangs give ranks back when other jobs need the room, and grow into idle resources."""

from collections import Counter
from collections.abc import Iterator
from copy import copy
from itertools import islice
from math import inf

import numpy as np
from msgspec.structs import replace

from ares.core.ask import Ask
from ares.core.capacity.holding import Holding, held_by
from ares.core.capacity.transaction import Allocation, fit, placement, taken_by
from ares.core.queue.waiting import JobClass
from ares.core.schedule.actions.evict import request_of, rooms_of
from ares.core.schedule.gang import below_caps, domains_of, place_ranks, places_of, widest_allowed
from ares.core.schedule.plan import Eviction, Resized
from ares.core.schedule.preempt.holders import Asker, EvictionCandidate, Freed
from ares.core.schedule.preempt.record import eviction_record
from ares.core.schedule.preempt.screen import census, screen
from ares.core.schedule.preempt.search import UNBOUND
from ares.core.schedule.preempt.victims import NoVictims, choose
from ares.core.schedule.share_excess import standing
from ares.core.schedule.trial import Trial, asked
from ares.model.state import Placement

_TRIES_MAX = 16


def shrink(trial: Trial) -> None:
    """For jobs left out: gangs of no higher priority than the job give up ranks beyond the fewest they need."""
    spare = [gang for gang in _elastic(trial) if _spare(gang)]
    for job, job_class in islice(_servable(trial), _TRIES_MAX) if spare else ():
        if _shrink_for(trial, job, job_class, spare):
            resized = {change.job for change in trial.resized}
            spare = [gang for gang in spare if gang.job not in resized]


def _servable(trial: Trial) -> Iterator[tuple[str, JobClass]]:
    """Jobs left out that some room would help: those that could never run hold up none behind them."""
    for left in list(trial.left.values()):
        job_class = trial.waiting.class_of(left.first_job)
        waits = left.first_job in trial.cluster.reserved or left.first_job in trial.making_room
        if job_class is not None and not waits and any(map(trial.evaluations.ever, job_class.key.asks)):
            yield left.first_job, job_class


def _elastic(trial: Trial) -> list[Holding]:
    return [trial.cluster.holdings[job] for job in sorted(trial.cluster.elastic)]


def _spare(gang: Holding) -> int:
    """How many ranks the gang could do without."""
    return 0 if gang.elastic is None or gang.leaving else len(gang.ranks) - gang.elastic.min_ranks


def _shrink_for(trial: Trial, job: str, job_class: JobClass, spare: list[Holding]) -> bool:
    key = job_class.key
    if trial.cluster.booked(key.asks[0].reservation, trial.now) is not None:
        return False
    ranks = {
        f"{gang.job}#{place.rank}": (gang, place) for gang in spare if gang.level >= key.level for place in _last(gang)
    }
    if not ranks:
        return False
    rows = trial.cluster.rows
    # A rank on a node that is gone frees nothing.
    ranks = {name: (gang, place) for name, (gang, place) in ranks.items() if place.node in rows}
    holders = [_holder(name, gang, place, rows[place.node]) for name, (gang, place) in ranks.items()]
    for number, ask in enumerate(key.asks):
        if ask.near or trial.gate(key, ask) is not None:
            continue
        request = request_of(ask)
        asker = Asker(job, key.level, key.account, standing(trial, ask), request.milli)
        screened = screen(census(holders), asker, trial.profile.preemption, "shrink")
        places = trial.rows_held_back(ask)
        found = choose(request, rooms_of(trial, ask, places), screened, UNBOUND)
        if isinstance(found, NoVictims) or not found.jobs:
            continue
        checkpoint = trial.txn.checkpoint()
        for name in found.jobs:
            place = ranks[name][1]
            trial.txn.give(taken_by(trial.cluster.table, rows[place.node], place))
        taken = trial.place(ask, trial.most_ranks(key.account, ask))
        if taken is None:
            trial.txn.rollback(checkpoint)
            continue
        gangs = _without(found.jobs, ranks)
        hold = trial.placements(taken)
        reason = f"waits for {len(found.jobs)} ranks of elastic gangs to leave; nothing is lost"
        trial.resized += [
            Resized(job=gang.job, placements=gang.ranks, reason="shrinks for a waiting job") for gang in gangs
        ]
        trial.note_eviction(
            Eviction(
                job=job, rule="shrink", victims=(), hold=hold, alternative=number, lost_gpu_s=0.0, reason=reason,
                record=eviction_record("shrink", trial, job, key, (), found), shrunk=tuple(gang.job for gang in gangs),
            )
        )  # fmt: skip
        return True
    return False


def _last(gang: Holding) -> tuple[Placement, ...]:
    return gang.ranks[len(gang.ranks) - _spare(gang) :]


def _holder(name: str, gang: Holding, place: Placement, row: int) -> EvictionCandidate:
    devices = tuple((kind, len(names)) for kind, names in sorted(place.devices.items()))
    freed = Freed(place.cpu_milli, place.memory_mib, tuple((gpu, place.gpu_milli) for gpu in place.gpus), devices)
    gpus = len(place.gpus) * place.gpu_milli
    return EvictionCandidate(
        name, gang.level, gang.account, gpus, place.cpu_milli, 0.0, 0.0, 0, None, True, ((row, freed),)
    )


def _without(names: tuple[str, ...], ranks: dict[str, tuple[Holding, Placement]]) -> list[Holding]:
    gone: dict[str, set[int]] = {}
    gangs: dict[str, Holding] = {}
    for name in names:
        gang, place = ranks[name]
        gone.setdefault(gang.job, set()).add(place.rank)
        gangs[gang.job] = gang
    return [
        replace(gang, ranks=tuple(place for place in gang.ranks if place.rank not in gone[job]))
        for job, gang in gangs.items()
    ]


def grow(trial: Trial) -> None:
    """Only when no job waits for room: idle resources are then of no use to any other job."""
    if trial.more or trial.cluster.reserved or not trial.cluster.elastic or _waits_for_room(trial):
        return
    wishing = [
        gang
        for gang in _elastic(trial)
        if gang.elastic is not None
        and not gang.leaving
        and len(gang.ranks) < gang.elastic.ranks
        # Growing and shrinking in turn costs the gang more than the room is worth.
        and trial.now >= trial.cluster.pauses.until(gang.job)
    ]
    for gang in sorted(wishing, key=lambda gang: (gang.level, gang.job)):
        if trial.claims and gang.elastic is not None:
            trial.claims.hide(inf, gang.elastic.reservation)
        taken = _more_ranks(trial, gang)
        if taken:
            table = trial.cluster.table
            added = tuple(placement(table, each, gang.next_rank + n) for n, each in enumerate(taken))
            trial.spend(gang.account, held_by(added))
            count = f"{len(added)} rank{'' if len(added) == 1 else 's'}"
            reason = f"grows by {count}: nobody else needs the room"
            trial.resized.append(Resized(job=gang.job, placements=(*gang.ranks, *added), reason=reason))


def _waits_for_room(trial: Trial) -> bool:
    """Whether a left-out job would fit on some node if its jobs left; jobs that can never run do not count."""
    for left in trial.left.values():
        job_class = trial.waiting.class_of(left.first_job)
        if job_class is not None and any(len(trial.rows_held_back(ask)) for ask in job_class.key.asks):
            return True
    return False


def _more_ranks(trial: Trial, gang: Holding) -> list[Allocation]:
    """As many of the missing ranks as there is room for and the gang's limits allow."""
    assert gang.elastic is not None, "chosen for it"
    wanted = _wanted(trial, gang, gang.elastic)
    here = Counter(row for place in gang.ranks if (row := trial.cluster.rows.get(place.node)) is not None)
    if not wanted or not here:
        return []
    if gang.elastic.level == "nvlink" and gang.elastic.level_required:
        return _in_its_domain(trial, gang, gang.elastic, wanted)
    kept_off = trial.cluster.waiting.repulsions.against(gang.tenant, gang.labels)
    near, tenant = (*gang.elastic.near, *kept_off), gang.tenant if kept_off else gang.elastic.tenant
    ask = gang.elastic._replace(ranks=max(2, wanted), min_ranks=1, level_required=False, near=near, tenant=tenant)
    found = copy(trial.evaluations.of(ask))
    assert found.room is not None, "a gang's evaluation counts ranks"
    found.room = found.room.copy()
    for row, count in here.items() if ask.per_node else ():
        found.room[row] = max(0, min(int(found.room[row]), ask.per_node - count))
    level = widest_allowed(gang.elastic)
    if level != "cluster":
        domain = places_of(trial.cluster.table, level, np.arange(len(found.room)))
        found.room[domain != domain[next(iter(here))]] = 0
    return place_ranks(trial.evaluations, trial.txn, found, wanted) or []


def _wanted(trial: Trial, gang: Holding, ask: Ask) -> int:
    """The ranks that the gang lacks, or as many of them as its hard limits allow."""
    wanted = ask.ranks - len(gang.ranks)
    while wanted and trial.profile.shares and trial.shares.over_hard(gang.account, asked(ask, wanted)) is not None:
        wanted -= 1
    return wanted


def _in_its_domain(trial: Trial, gang: Holding, ask: Ask, wanted: int) -> list[Allocation]:
    """More ranks, on GPUs that NVLink joins to the gang's own."""
    table, row = trial.cluster.table, trial.cluster.rows[gang.ranks[0].node]
    mine = sum(1 << gpu for gpu in {gpu for place in gang.ranks for gpu in place.gpus})
    inside = next((domain for domain in domains_of(table, row) if domain & mine), 0)
    found = trial.evaluations.of(ask)
    assert found.room is not None, "a gang's evaluation counts ranks"
    room = below_caps(trial.evaluations, ask, "node", np.array([row]), found.room[[row]])
    most = min(wanted, int(room[0]), (ask.per_node or ask.ranks) - len(gang.ranks))
    taken: list[Allocation] = []
    while len(taken) < most and (more := fit(table, ask, row, inside)) is not None:
        trial.txn.take(more)
        taken.append(more)
    return taken
