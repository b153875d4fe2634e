"""How much of a plan that was made elsewhere, a while ago, still holds: by the columns as they are now.

The planner may have seen an old picture, or be wrong: whatever can be checked here is checked here.
"""

from collections.abc import Callable

from msgspec.structs import replace

from ares.core.capacity.holding import held_by
from ares.core.capacity.transaction import Allocation, taken_by
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.plan import Eviction, Placed, Plan, Resized
from ares.core.schedule.trial import Trial
from ares.model.job import Qos
from ares.model.state import Placement


def verified(cluster: Cluster, plan: Plan, now: float, unchanged: Callable[[str], bool]) -> tuple[Plan, int]:
    """The parts of the plan that still hold, and how many do not. `unchanged` says whether a job's record is the one
    that was planned by. The caller advances the cluster to `now` before."""
    cluster.prepare()
    with Trial.what_if(cluster, now) as trial:
        placed = tuple(entry for entry in plan.placed if unchanged(entry.job) and _takes(trial, entry))
        evictions = tuple(eviction for eviction in plan.evictions if _evicts(cluster, eviction, unchanged))
        # A gang that was to give up ranks for a job that does not get them keeps them.
        shrunk = {job for eviction in evictions for job in eviction.shrunk}
        spared = {job for eviction in plan.evictions for job in eviction.shrunk} - shrunk
        resized = tuple(
            entry
            for entry in plan.resized
            if entry.job not in spared and unchanged(entry.job) and _resizes(trial, entry)
        )
    unheld = tuple(job for job in plan.unheld if unchanged(job) and job in cluster.reserved)
    kept = (placed, resized, evictions, unheld)
    proposed = (plan.placed, plan.resized, plan.evictions, plan.unheld)
    dropped = sum(map(len, proposed)) - sum(map(len, kept))
    if not dropped:
        return plan, 0
    return replace(plan, placed=placed, resized=resized, evictions=evictions, unheld=unheld), dropped


def _takes(trial: Trial, placed: Placed) -> bool:
    """Whether the waiting job may have the place, which is then taken."""
    cluster = trial.cluster
    job_class, ranks = cluster.waiting.class_of(placed.job), len(placed.placements)
    if job_class is None or placed.alternative >= len(job_class.key.asks):
        return False
    key, ask = job_class.key, job_class.key.asks[placed.alternative]
    asked = (ask.cpu_milli, ask.memory_mib, ask.gpus)
    if not ask.min_ranks <= ranks <= ask.ranks or any(_amounts(place) != asked for place in placed.placements):
        return False
    if trial.gate(key, ask, ranks) is not None:
        return False
    kept = cluster.reserved.get(placed.job)
    if kept is not None and kept.placements == placed.placements:
        # What is kept for the job counts as taken already.
        good = all(cluster.is_alone(place, ask.qos) for place in placed.placements)
    else:
        good = _take(trial, placed.placements, ask.qos)
    if good:
        trial.spend(key.account, held_by(placed.placements))
        for name, count in key.licences:
            trial.licences[name] += count
    return good


def _amounts(place: Placement) -> tuple[int, int, int]:
    return place.cpu_milli, place.memory_mib, len(place.gpus)


def _take(trial: Trial, places: tuple[Placement, ...], qos: Qos) -> bool:
    """Takes all of the places or none."""
    cluster, checkpoint = trial.cluster, trial.txn.checkpoint()
    for place in places:
        if cluster.is_there(place):
            taken = taken_by(cluster.table, cluster.rows[place.node], place)
            if _is_free(trial, taken, place, qos):
                trial.txn.take(taken)
                continue
        trial.txn.rollback(checkpoint)
        return False
    return True


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
    return not added or _take(trial, added, holding.elastic.qos)


def _evicts(cluster: Cluster, eviction: Eviction, unchanged: Callable[[str], bool]) -> bool:
    """Whether the job still waits, its victims are still there, and the room would be of use."""
    leave = (*eviction.victims, *eviction.shrunk)
    if eviction.job not in cluster.waiting or not all(unchanged(job) for job in (eviction.job, *leave)):
        return False
    there = all((holding := cluster.holdings.get(job)) is not None and not holding.leaving for job in leave)
    return there and all(cluster.is_there(place) for place in eviction.hold)
