"""Keeps the cluster picture in step with the records of jobs: the scheduler and the simulator both use it."""

from collections.abc import Iterable
from math import inf

from msgspec.structs import replace

from ares.core.ask import asks_of
from ares.core.capacity.capacity import Reserved
from ares.core.capacity.holding import held_by, holding
from ares.core.forecast.estimate import run_time
from ares.core.lifecycle.owners import is_away
from ares.core.lifecycle.ranks import held, holds
from ares.core.queue.order import account_of
from ares.core.queue.usage import CPUS_PER_GPU, weighed
from ares.core.queue.waiting import throttled
from ares.core.schedule.cluster import Cluster
from ares.model.job import JobSpec
from ares.model.state import BOUND, TERMINAL, JobState, Placement


def follow(cluster: Cluster, before: JobState | None, state: JobState, spec: JobSpec | None, now: float) -> None:
    """The job's record was `before` when the picture last heard of it. Without a specification it is not placed."""
    if is_away(state):
        # A cluster of the federation has it.
        cluster.dequeue(state.id)
        cluster.release(state.id)
        return
    before = _seen_here(before)
    if state.phase == "PENDING":
        # States between two updates may never be seen here: the job may have run in the meantime.
        moved = before is not None and before.updates != state.updates
        if moved:
            cluster.dequeue(state.id)
        if spec is not None and (
            before is None or before.phase != "PENDING" or before.queued_at != state.queued_at or moved
        ):
            cluster.enqueue(state, spec)
    elif before is None or before.phase == "PENDING":
        cluster.dequeue(state.id)
        if before is None and spec is not None and spec.resources.gpus:
            # Submitted before this picture was made: its shape is one of those that are common here.
            cluster.count_shape(asks_of(spec, state.tenant)[0], state.submitted_at)
    if not holds(state):
        cluster.release(state.id)
    elif spec is not None:
        _hold(cluster, state, spec)
    if state.phase in TERMINAL and (before is None or before.phase not in TERMINAL):
        cluster.predictor.ended(state.id, run_time(state))
    # Also for a job that is still on its way out of its old place.
    if state.hold or state.id in cluster.reserved:
        cluster.reserve(state.id, Reserved(state.hold, state.evicting, state.alternative))
    if cluster.metered and (before is None or _metered(before) != _metered(state)):
        count_use(cluster, before, state, now)


def _seen_here(before: JobState | None) -> JobState | None:
    """A job that comes back from a cluster of the federation is as a new one."""
    return None if before is None or is_away(before) else before


def _hold(cluster: Cluster, state: JobState, spec: JobSpec) -> None:
    before = cluster.holdings.get(state.id)
    if before is None or before.since != state.bound_at:
        cluster.predictor.met(state.id, spec, account_of(state), _gpu_model(cluster, held(state)))
    taken = holding(state, spec, held(state), state.planned_s)
    if state.array is not None and state.array in cluster.waiting.throttles:
        taken = replace(taken, licences=throttled(taken.licences, state.array))
    cluster.hold(taken)


def throttle(cluster: Cluster, array: str, limit: int | None, tasks: Iterable[tuple[JobState, JobSpec | None]]) -> None:
    """So many tasks of the array may hold a place at once; None: any number. `tasks` are those there are."""
    known = cluster.waiting.throttles
    if known.get(array) == limit:
        return
    anew = (array in known) != (limit is not None)
    if limit is None:
        del known[array]
    else:
        known[array] = limit
    for state, spec in tasks if anew else ():
        if spec is not None and state.id in cluster.waiting:
            cluster.dequeue(state.id)
            cluster.enqueue(state, spec)
        elif spec is not None and state.id in cluster.holdings:
            cluster.release(state.id)
            _hold(cluster, state, spec)


def planned_s(cluster: Cluster, state: JobState, spec: JobSpec, placements: tuple[Placement, ...]) -> float | None:
    """How long the waiting job will hold its resources: settled when queued, unless it depends on the GPU model."""
    runs_s = cluster.waiting.run_times.planned(state.id)
    if runs_s < inf and not spec.expected_runtimes_s:
        return runs_s
    estimate = cluster.predictor.estimate(spec, account_of(state), _gpu_model(cluster, placements))
    if estimate is None:
        return None
    likely = cluster.waiting.run_times.holds_likely and spec.time_limit_s is not None
    return estimate.seconds if likely else estimate.hold_s


def _gpu_model(cluster: Cluster, placements: tuple[Placement, ...]) -> str | None:
    """The model of the first GPU placed."""
    place = next((placement for placement in placements if placement.gpus), None)
    row = None if place is None else cluster.rows.get(place.node)
    record = None if row is None else cluster.table.records[row]
    if place is None or record is None:
        return None
    return next((gpu.model for gpu in record.info.gpus if gpu.index == place.gpus[0]), None)


def forget(cluster: Cluster, job_id: str) -> None:
    """The job's record is gone."""
    cluster.dequeue(job_id)
    cluster.release(job_id)
    cluster.unreserve(job_id)
    cluster.predictor.ended(job_id, None)


def count_use(cluster: Cluster, before: JobState | None, state: JobState, now: float) -> None:
    """Fair share counts ended and running attempts by the job's record: a late update gives the same sum."""
    usage, whose = cluster.usage, account_of(state)
    gpu_s, cpu_s = (0.0, 0.0) if before is None else (before.gpu_s, before.cpu_s)
    gpu_s, cpu_s = state.gpu_s - gpu_s, state.cpu_s - cpu_s
    if before is not None and before.phase in BOUND:
        # The attempt ended when it had used what the record says.
        each_s = weighed(held_by(before.placements)) / 1000
        usage.end(state.id, _since(before, now) + (CPUS_PER_GPU * gpu_s + cpu_s) / each_s)
    elif gpu_s or cpu_s:
        usage.charge(whose, gpu_s, cpu_s, state.ended_at or state.queued_at)
    if state.phase in BOUND:
        usage.begin(state.id, whose, held_by(state.placements), _since(state, now))


def _metered(state: JobState) -> tuple[bool, int, int]:
    """When any of these changes, what the job uses changes."""
    return state.phase in BOUND, state.attempt, state.generation


def _since(state: JobState, now: float) -> float:
    """The time from which on the use of a bound job is not in its record yet."""
    return state.metered_at or state.bound_at or now
