"""Making room: reclaim what was borrowed, or preempt less important jobs. Only for jobs that found no place."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from ares.core.ask import Ask
from ares.core.capacity.holding import Holding
from ares.core.capacity.node_table import Ints
from ares.core.capacity.transaction import Allocation, taken_by
from ares.core.queue.service import counted, quantum_s, turn_of
from ares.core.queue.waiting import JobClass
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.gang import widest_allowed
from ares.core.schedule.plan import Eviction
from ares.core.schedule.preempt.eligible import Rule
from ares.core.schedule.preempt.holders import (
    Asker,
    EvictionCandidate,
    Freed,
    RoomColumns,
    RoomRequest,
    ServedTurn,
)
from ares.core.schedule.preempt.record import eviction_reason, eviction_record
from ares.core.schedule.preempt.screen import Census, census, screen
from ares.core.schedule.preempt.victims import NoVictims, Victims, bound_of, choose
from ares.core.schedule.share_excess import standing
from ares.core.schedule.trial import Assignment, Trial

# One cycle looks for victims for at most this many jobs: the next cycle goes on.
_TRIES_MAX = 16
_DOMAINS_MAX = 8


def evict(rule: Rule, trial: Trial) -> None:
    """Makes room for the first job of each class left out, in the order they were left out."""
    if not any(trial.cluster.preemptible.values()):
        return
    counted: Census | None = None
    going = {job for eviction in trial.evictions for job in eviction.victims}
    tries = 0
    for left in list(trial.left.values()):
        job_class = trial.waiting.class_of(left.first_job)
        served = left.first_job in trial.cluster.reserved or left.first_job in trial.making_room
        if job_class is None or served or not _worth_a_try(rule, trial, left.first_job, job_class):
            continue
        if trial.cluster.booked(job_class.key.asks[0].reservation, trial.now) is not None:
            continue
        counted = counted or census(holders(trial, going))
        found = find_victims(rule, trial, left.first_job, job_class, counted)
        if isinstance(found, Eviction):
            trial.note_eviction(found)
            going.update(found.victims)
            counted = None
        tries += 1
        if tries == _TRIES_MAX:
            return


def _worth_a_try(rule: Rule, trial: Trial, job: str, job_class: JobClass) -> bool:
    """Whether any running job could be evicted for this class at all."""
    levels = trial.cluster.preemptible
    if rule == "priority":
        yields_from = job_class.key.level + trial.profile.preemption.gap
        return any(count for level, count in levels.items() if level >= yields_from)
    if rule == "service":
        # A job that will have room in a moment waits for it.
        promise = trial.promises.get(job)
        soon = promise is not None and promise.start - trial.now <= trial.profile.preemption.min_runtime_s
        return not soon and trial.cluster.yields.due(trial.now)
    return any(levels.values()) and any(share.soft for share in trial.profile.shares.values())


def prospects(trial: Trial, job: str, job_class: JobClass) -> Eviction | str:
    """The victims of the job, or why there are none. The trial is left with the room made."""
    if trial.cluster.booked(job_class.key.asks[0].reservation, trial.now) is not None:
        return "it waits for room in its reservation"
    if trial.cluster.bookings:
        trial.claims.keep_booked()
    gates = [trial.gate(job_class.key, ask) for ask in job_class.key.asks]
    if gates[0] is not None and None not in gates:
        return f"a {'licence' if gates[0].code.endswith('LICENCE') else 'limit'} is not lifted by preemption"
    why = "nobody runs that matters so much less"
    counted: Census | None = None
    for rule in ("reclaim", "priority", "service"):
        if rule not in [_RULE_OF.get(action) for action in trial.profile.actions]:
            continue
        if not _worth_a_try(rule, trial, job, job_class):
            continue
        counted = counted or census(holders(trial, set()))
        found = find_victims(rule, trial, job, job_class, counted)
        if isinstance(found, Eviction):
            return found
        why = found or why
    return why


reclaim = partial(evict, "reclaim")
preempt = partial(evict, "priority")
rotate = partial(evict, "service")
# By the name of the action in a profile.
_RULE_OF: dict[str, Rule] = {"reclaim": "reclaim", "preempt": "priority", "rotate": "service"}


def holders(trial: Trial, going: set[str]) -> Iterator[EvictionCandidate]:
    """Running jobs as eviction candidates; a job on its way out is no candidate."""
    rows = trial.cluster.rows
    # Gangs that gave back some of their ranks already.
    shrunk = {resized.job for resized in trial.resized}
    for holding in trial.cluster.holdings.values():
        if (
            holding.leaving
            or holding.job in going
            or holding.job in shrunk
            or on_booked(trial.cluster, holding, trial.now)
        ):
            continue
        at = tuple(
            (rows[place.node], _freed(holding, n)) for n, place in enumerate(holding.placements) if place.node in rows
        )
        ran_s = max(0.0, trial.now - holding.since)
        unsaved_s = ran_s if holding.saved_at is None else max(0.0, min(ran_s, trial.now - holding.saved_at))
        ago = None if holding.preempted_at is None else max(0.0, trial.now - holding.preempted_at)
        held = holding.held
        yield EvictionCandidate(
            holding.job, holding.level, holding.account, held.gpu_milli, held.cpu_milli, ran_s, unsaved_s,
            holding.preemptions, ago, holding.preemptible, at, _turn(trial, holding),
        )  # fmt: skip


def _turn(trial: Trial, holding: Holding) -> ServedTurn | None:
    if holding.served_s is None:
        return None
    held_s = max(0.0, trial.now - holding.since)
    service_s = holding.served_s + held_s
    at = turn_of(holding.submitted_at, service_s, trial.profile.order)
    return None if at is None else ServedTurn(counted(service_s), at, held_s >= quantum_s(holding.served_s))


def on_booked(cluster: Cluster, holding: Holding, now: float) -> bool:
    """Whether it runs in a reservation or on booked GPUs: other jobs would gain nothing by its eviction."""
    if not cluster.bookings:
        return False
    if cluster.booked(holding.reservation, now) is not None:
        return True
    mine = {(place.node, gpu) for place in holding.placements for gpu in place.gpus}
    return any(
        (place.node, gpu) in mine
        for other in cluster.bookings.values()
        for place in other.placements
        for gpu in place.gpus
    )


def _freed(holding: Holding, number: int) -> Freed:
    place = holding.placements[number]
    devices = tuple((kind, len(names)) for kind, names in sorted(place.devices.items()))
    return Freed(place.cpu_milli, place.memory_mib, tuple((gpu, place.gpu_milli) for gpu in place.gpus), devices)


def _turn_of(trial: Trial, job: str) -> ServedTurn | None:
    """By age and service; of a job that is not in line yet, as if it came now."""
    waits = trial.waiting.class_of(job) is not None
    facts = trial.waiting.facts_of(job) if waits else None
    came_at, served_s = (trial.now, 0.0) if facts is None else (facts.submitted_at, facts.served_s)
    at = turn_of(came_at, served_s, trial.profile.order)
    return None if at is None else ServedTurn(served_s, at)


def find_victims(rule: Rule, trial: Trial, job: str, job_class: JobClass, counted: Census) -> Eviction | str:
    """The cheapest victims whose eviction makes room, which is then taken; or why there are none."""
    key, turn = job_class.key, _turn_of(trial, job) if rule == "service" else None
    why = ""
    for number, ask in enumerate(key.asks):
        if ask.near or trial.gate(key, ask) is not None:
            continue
        request = request_of(ask)
        stands = standing(trial, ask)
        asker = Asker(job, key.level, key.account, stands, request.milli, turn)
        screened = screen(counted, asker, trial.profile.preemption, rule)
        bound = bound_of(request, asker, trial.profile.preemption, rule)
        found = [choose(request, rooms_of(trial, ask, rows), screened, bound) for rows in _places(trial, ask)]
        why = why or next((answer.reason for answer in found if isinstance(answer, NoVictims)), "")
        victims = [answer for answer in found if not isinstance(answer, NoVictims) and answer.jobs]
        for option in sorted(victims, key=lambda option: (option.lost_gpu_s, len(option.jobs), option.jobs)):
            taken = make_room(trial, ask, option.jobs, trial.most_ranks(key.account, ask))
            if taken is not None:
                return _eviction(rule, trial, job, job_class, Assignment(taken, number), option)
    return why


def request_of(ask: Ask) -> RoomRequest:
    return RoomRequest(ask.min_ranks, ask.cpu_milli, ask.memory_mib, ask.gpus, ask.gpu_milli, ask.devices)


def _places(trial: Trial, ask: Ask) -> list[Ints]:
    """Rows that only lack room, all together or, where the gang must be close together, domain by domain."""
    rows = trial.rows_held_back(ask)
    level = "node" if ask.level == "nvlink" and ask.level_required else widest_allowed(ask)
    if level == "cluster" or ask.ranks == 1:
        return [rows]
    if level == "node":
        return [rows[at : at + 1] for at in range(min(len(rows), 64))]
    numbers = getattr(trial.cluster.table, level)[rows]
    known, counts = np.unique(numbers[numbers > 0], return_counts=True)
    largest = known[np.lexsort((known, -counts))][:_DOMAINS_MAX]
    return [rows[numbers == number] for number in largest]


def rooms_of(trial: Trial, ask: Ask, rows: Ints) -> RoomColumns:
    seen = trial.evaluations.rows(ask, rows)
    return RoomColumns(
        slots=rows,
        cpu_milli=seen.cpu_free,
        memory_mib=seen.memory_free,
        gpus=np.maximum(seen.gpu_left, 0),
        answers=seen.gpu_answers if ask.gpus else np.zeros_like(seen.gpu_answers),
        devices={kind: seen.devices_free(kind) for kind, _ in ask.devices},
        ranks_max=np.full(len(rows), ask.per_node or 1_000_000, np.int64),
    )


def make_room(trial: Trial, ask: Ask, victims: tuple[str, ...], most: int) -> list[Allocation] | None:
    """The job's place with the victims gone, taken; None and nothing changed when there is none after all."""
    checkpoint, cluster = trial.txn.checkpoint(), trial.cluster
    for job in victims:
        for place in cluster.holdings[job].placements:
            row = cluster.rows.get(place.node)
            if row is not None:
                trial.txn.give(taken_by(cluster.table, row, place))
    taken = trial.place(ask, most)
    if taken is None:
        trial.txn.rollback(checkpoint)
        return None
    return list(taken)


def _eviction(
    rule: Rule,
    trial: Trial,
    job: str,
    job_class: JobClass,
    found: Assignment,
    victims: Victims,
) -> Eviction:
    hold = trial.placements(found.taken)
    gone = [trial.cluster.holdings[victim] for victim in victims.jobs]
    return Eviction(
        job=job,
        rule=rule,
        victims=victims.jobs,
        hold=hold,
        alternative=found.alternative,
        lost_gpu_s=victims.lost_gpu_s,
        reason=eviction_reason(rule, gone, hold, victims.lost_gpu_s),
        record=eviction_record(rule, trial, job, job_class.key, gone, victims),
    )
