"""How much of a plan that was made elsewhere, a while ago, still holds: by the columns as they are now.

The planner may have seen an old picture, or be wrong: whatever can be checked here is checked here.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from ares.api.decisions import Promise
from ares.core.ask import Ask
from ares.core.capacity.bookings import claim_of
from ares.core.capacity.claims import Claims
from ares.core.capacity.holding import held_by
from ares.core.capacity.transaction import Allocation, taken_by
from ares.core.queue.factors import rank
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.filters import job_affinity, power
from ares.core.schedule.plan import Eviction, Placed, Plan, Resized
from ares.core.schedule.trial import Trial
from ares.model.job import Qos
from ares.model.state import Placement


class Proposed(NamedTuple):
    """What one planner proposes. `unchanged` says whether a job's record is the one that was planned by; `claimed` are
    the starts that other planners promised."""

    plan: Plan
    unchanged: Callable[[str], bool]
    claimed: Sequence[Promise] = ()


class Refused(NamedTuple):
    """Parts of one plan that do not hold: because a record changed, or because there is no room for them any more."""

    changed: int = 0
    conflicts: int = 0


def verified(cluster: Cluster, plan: Plan, now: float, unchanged: Callable[[str], bool]) -> tuple[Plan, int]:
    """The parts of the plan that still hold, and how many do not. The caller advances the cluster to `now` before."""
    cluster.prepare()
    with Trial.what_if(cluster, now) as trial:
        placed = tuple(entry for entry in plan.placed if unchanged(entry.job) and _takes(trial, entry) is not None)
        evictions = tuple(eviction for eviction in plan.evictions if _evicts(cluster, eviction, unchanged))
        resized = tuple(
            entry for entry in _unspared(plan, evictions) if unchanged(entry.job) and _resizes(trial, entry)
        )
    unheld = tuple(job for job in plan.unheld if unchanged(job) and job in cluster.reserved)
    kept = (placed, resized, evictions, unheld)
    dropped = parts(plan) - sum(map(len, kept))
    if not dropped:
        return plan, 0
    return replace(plan, placed=placed, resized=resized, evictions=evictions, unheld=unheld), dropped


def parts(plan: Plan) -> int:
    """How much the plan would change."""
    return sum(map(len, (plan.placed, plan.resized, plan.evictions, plan.unheld)))


def _unspared(plan: Plan, evictions: Sequence[Eviction]) -> Iterator[Resized]:
    """Without gangs that were to give up ranks for a job that does not get them: those keep them."""
    shrunk = {job for eviction in evictions for job in eviction.shrunk}
    spared = {job for eviction in plan.evictions for job in eviction.shrunk} - shrunk
    return (entry for entry in plan.resized if entry.job not in spared)


# ---- plans of several planners, each made without knowing the others


def verified_in_turn(cluster: Cluster, proposals: Sequence[Proposed], now: float) -> tuple[Plan, list[Refused]]:
    """The parts that hold of all plans together, one after the other: what one got is gone for the next. Where plans
    want the same nodes, the jobs' ranks decide which comes first."""
    cluster.prepare()
    with Trial.what_if(cluster, now) as trial:
        turn = _InTurn(trial, proposals)
        placed = [entry for at, entry in _in_order(trial, proposals) if turn.places(at, entry)]
        evictions = [
            eviction
            for at, proposal in enumerate(proposals)
            for eviction in proposal.plan.evictions
            if turn.evicts(at, eviction)
        ]
        resized = [
            entry
            for at, proposal in enumerate(proposals)
            for entry in _unspared(proposal.plan, evictions)
            if turn.resizes(at, entry)
        ]
        unheld = [
            job
            for proposal in proposals
            for job in proposal.plan.unheld
            if proposal.unchanged(job) and job in cluster.reserved
        ]
    plans = [proposal.plan for proposal in proposals]
    joined = Plan(
        at=now,
        placed=tuple(placed),
        left=tuple(left for plan in plans for left in plan.left),
        evictions=tuple(evictions),
        resized=tuple(resized),
        unheld=tuple(unheld),
        considered={job: found for plan in plans for job, found in plan.considered.items()},
        more=any(plan.more for plan in plans),
        unreached=sum(plan.unreached for plan in plans),
    )
    return joined, [Refused(*counts) for counts in zip(turn.changed, turn.conflicts, strict=True)]


class _InTurn:
    """Which parts hold so far, and which jobs they are about: no job is in two."""

    def __init__(self, trial: Trial, proposals: Sequence[Proposed]) -> None:
        self._trial = trial
        self._proposals = proposals
        self._named: set[str] = set()
        # Gangs that give up ranks, by whose plan.
        self._shrunk: dict[str, int] = {}
        self.changed, self.conflicts = [0] * len(proposals), [0] * len(proposals)
        self._claims = [_claims(trial, proposal.claimed) for proposal in proposals]

    def places(self, at: int, entry: Placed) -> bool:
        if not self._is_for(at, entry.job):
            return False
        trial, claims = self._trial, self._claims[at]
        runs_s = trial.waiting.runs_of(entry.job) if entry.job in trial.waiting else inf
        ends_at = trial.now + runs_s if entry.leaves_at is None else entry.leaves_at
        if claims is not None and entry.job not in trial.cluster.reserved:
            claims.hide(ends_at)
        taken = _takes(trial, entry)
        if claims is not None:
            claims.lift()
        for others in filter(None, self._claims):
            for allocation in taken or ():
                others.begin(allocation, ends_at)
        return self._note(at, taken is not None, entry.job)

    def evicts(self, at: int, eviction: Eviction) -> bool:
        named = (eviction.job, *eviction.victims, *eviction.shrunk)
        if not all(self._is_for(at, job) for job in named):
            return False
        shrunk = {entry.job: entry.placements for entry in self._proposals[at].plan.resized}
        good = _evicts(self._trial.cluster, eviction, self._proposals[at].unchanged) and self._keeps(eviction, shrunk)
        if good:
            self._shrunk |= dict.fromkeys(eviction.shrunk, at)
        return self._note(at, good, eviction.job, *eviction.victims)

    def _keeps(self, eviction: Eviction, shrunk: Mapping[str, tuple[Placement, ...]]) -> bool:
        """Whether the room to be kept is there once the others left. It counts as taken from now on, and so does what
        they still hold."""
        trial, cluster = self._trial, self._trial.cluster
        job_class = cluster.waiting.class_of(eviction.job)
        if job_class is None or eviction.alternative >= len(job_class.key.asks):
            return False
        checkpoint = trial.txn.checkpoint()
        leave = [
            taken_by(cluster.table, cluster.rows[place.node], place)
            for job in (*eviction.victims, *eviction.shrunk)
            for place in cluster.holdings[job].placements
            if place.node in cluster.rows and place not in shrunk.get(job, ())
        ]
        for taken in leave:
            trial.txn.give(taken)
        if _take(trial, eviction.hold, job_class.key.asks[eviction.alternative]) is None:
            trial.txn.rollback(checkpoint)
            return False
        for taken in leave:
            trial.txn.take(taken)
        return True

    def resizes(self, at: int, entry: Resized) -> bool:
        ours = self._shrunk.get(entry.job, at) == at
        return self._is_for(at, entry.job) and self._note(at, ours and _resizes(self._trial, entry), entry.job)

    def _is_for(self, at: int, job: str) -> bool:
        if not self._proposals[at].unchanged(job):
            self.changed[at] += 1
            return False
        if job in self._named:
            self.conflicts[at] += 1
            return False
        return True

    def _note(self, at: int, good: bool, *jobs: str) -> bool:
        if good:
            self._named.update(jobs)
        else:
            self.conflicts[at] += 1
        return good


def _claims(trial: Trial, promises: Sequence[Promise]) -> Claims | None:
    """What may not be taken because other planners promised it to jobs that wait with them."""
    cluster = trial.cluster
    found = [claim for promise in promises if (claim := claim_of(cluster, promise)) is not None]
    if not found:
        return None
    claims = Claims(cluster, trial.txn, trial.now)
    for claim in found:
        claims.add(claim)
    return claims


def _in_order(trial: Trial, proposals: Sequence[Proposed]) -> Iterator[tuple[int, Placed]]:
    """Each planner's placements in its own order; the next is that of the planner whose next job ranks highest."""
    lines = [deque(proposal.plan.placed) for proposal in proposals]
    if not _contested(trial, proposals):
        yield from ((at, entry) for at, line in enumerate(lines) for entry in line)
        return
    waiting, order, now = trial.waiting, trial.profile.order, trial.now

    def key(at: int) -> tuple[float, ...]:
        job = lines[at][0].job
        if job not in waiting:
            return (-inf,)
        facts = waiting.facts_of(job)
        return (*rank(facts, trial.shares, order, now), -facts.submitted_at)

    heads = [(key(at), -at) for at, line in enumerate(lines) if line]
    while heads:
        best = max(heads)
        heads.remove(best)
        at = -best[1]
        yield at, lines[at].popleft()
        if lines[at]:
            heads.append((key(at), -at))


def _contested(trial: Trial, proposals: Sequence[Proposed]) -> bool:
    """Whether two plans may want the same: nodes, licences, or what is left of an account's limit."""
    if trial.profile.shares or trial.profile.licences or trial.cluster.table.power is not None:
        return True
    seen: set[str] = set()
    for proposal in proposals:
        nodes = {place.node for entry in proposal.plan.placed for place in entry.placements}
        if not seen.isdisjoint(nodes):
            return True
        seen |= nodes
    return False


def without_collisions(
    cluster: Cluster, promises: Iterable[Promise], kept: Mapping[str, Promise], claimed: Sequence[Promise], now: float
) -> dict[str, Promise]:
    """The promises that leave what other planners promised as it is. `kept` were accepted before."""
    found = {promise.job: promise for promise in promises}
    if not claimed or all(kept.get(job) == promise for job, promise in found.items()):
        return found
    with Trial.what_if(cluster, now) as trial:
        others, alone = _claims(trial, claimed), Claims(cluster, trial.txn, now)
        if others is None:
            return found
        rows = others.rows()
        for job, promise in list(found.items()):
            claim = None if kept.get(job) == promise else claim_of(cluster, replace(promise, held_from=None))
            if claim is None or rows.isdisjoint(taken.row for taken in claim.taken):
                continue
            if not others.has_room(claim) and alone.has_room(claim):
                del found[job]
    return found


# ---- single parts


def _takes(trial: Trial, placed: Placed) -> tuple[Allocation, ...] | None:
    """What the waiting job takes by the place, which is taken then; None when it may not have it."""
    cluster = trial.cluster
    job_class, ranks = cluster.waiting.class_of(placed.job), len(placed.placements)
    if job_class is None or placed.alternative >= len(job_class.key.asks):
        return None
    key, ask = job_class.key, job_class.key.asks[placed.alternative]
    asked = (ask.cpu_milli, ask.memory_mib, ask.gpus)
    if not ask.min_ranks <= ranks <= ask.ranks or any(_amounts(place) != asked for place in placed.placements):
        return None
    if trial.gate(key, ask, ranks) is not None:
        return None
    kept = cluster.reserved.get(placed.job)
    if kept is not None and kept.placements == placed.placements:
        # What is kept for the job counts as taken already.
        taken = () if all(cluster.is_alone(place, ask.qos) for place in placed.placements) else None
    else:
        taken = _take(trial, placed.placements, ask)
    if taken is not None:
        trial.spend(key.account, held_by(placed.placements))
        for name, count in key.licences:
            trial.licences[name] += count
        trial.match(placed.job, key, tuple(allocation.row for allocation in taken))
    return taken


def _amounts(place: Placement) -> tuple[int, int, int]:
    return place.cpu_milli, place.memory_mib, len(place.gpus)


def _take(trial: Trial, places: tuple[Placement, ...], ask: Ask) -> tuple[Allocation, ...] | None:
    """Takes all of the places or none."""
    cluster, checkpoint = trial.cluster, trial.txn.checkpoint()
    found: list[Allocation] = []
    for place in places:
        if cluster.is_there(place):
            taken = taken_by(cluster.table, cluster.rows[place.node], place)
            if _is_free(trial, taken, place, ask.qos) and _is_allowed(trial, ask, taken.row):
                trial.txn.take(taken)
                found.append(taken)
                continue
        trial.txn.rollback(checkpoint)
        return None
    return tuple(found)


def _is_allowed(trial: Trial, ask: Ask, row: int) -> bool:
    """By the filters that look at what other jobs do, which may have begun since: power, and jobs to be away from."""
    capped = trial.cluster.table.power is not None
    if not ask.near and not capped:
        return True
    rows = trial.evaluations.rows(ask, np.array([row]))
    filters = ((ask.near, job_affinity.passes), (capped, power.passes))
    said = [passes(rows) for applies, passes in filters if applies]
    return all(bool(passes[0]) for passes in said if passes is not None)


def _is_free(trial: Trial, taken: Allocation, place: Placement, qos: Qos) -> bool:
    table, row, more = trial.cluster.table, taken.row, qos != "guaranteed"
    if len(taken.gpus) != len(place.gpus) or (place.numa is not None and taken.numa is None):
        return False
    cpu = table.cpu_free.item(row) + more * table.cpu_extra.item(row)
    memory = table.memory_free.item(row) + more * table.memory_extra.item(row)
    if cpu < taken.cpu_milli or memory < taken.memory_mib:
        return False
    if taken.numa is not None and (
        table.numa_cpu_free.item(row, taken.numa) < taken.cpu_milli
        or table.numa_memory_free.item(row, taken.numa) < taken.memory_mib
    ):
        return False
    if any(table.gpu_left.item(row, gpu) < taken.gpu_milli for gpu in taken.gpus):
        return False
    wanted = sum(len(names) for names in place.devices.values())
    return wanted == sum(bits.bit_count() for _, bits in taken.devices) and not any(
        table.devices_taken[kind][row] & bits for kind, bits in taken.devices
    )


def _resizes(trial: Trial, resized: Resized) -> bool:
    """Whether the ranks that a gang gains can be had; giving up ranks is always possible."""
    holding = trial.cluster.holdings.get(resized.job)
    if holding is None or holding.elastic is None or holding.leaving:
        return False
    added = tuple(place for place in resized.placements if place not in holding.ranks)
    return not added or _take(trial, added, holding.elastic) is not None


def _evicts(cluster: Cluster, eviction: Eviction, unchanged: Callable[[str], bool]) -> bool:
    """Whether the job still waits, its victims are still there, and the room would be of use."""
    leave = (*eviction.victims, *eviction.shrunk)
    if eviction.job not in cluster.waiting or not all(unchanged(job) for job in (eviction.job, *leave)):
        return False
    there = all((holding := cluster.holdings.get(job)) is not None and not holding.leaving for job in leave)
    return there and all(cluster.is_there(place) for place in eviction.hold)
