"""What an attempt's ranks hold: where their processes may be, what they have used, which number comes next."""

from collections.abc import Iterable
from math import inf
from typing import Any

from ares.core.energy import Fate, spent_by
from ares.model.job import JobSpec
from ares.model.state import BOUND, TERMINAL, JobState, Placement


def holds(state: JobState) -> bool:
    """Whether the job occupies anything: bound, or revoked and not yet confirmed dead."""
    return state.phase in BOUND or state.lingering


def spec_wanted(state: JobState) -> bool:
    """Whether decisions about the job still need its specification."""
    return state.phase not in TERMINAL or state.lingering


def held(state: JobState) -> tuple[Placement, ...]:
    """The placements in use now: of ranks that run or may still run, also when they were let go."""
    if state.phase not in BOUND and not state.lingering:
        return ()
    if not state.ended_ranks and not state.leaving:
        return state.placements
    gone = set(state.ended_ranks)
    return tuple(place for place in (*state.placements, *state.leaving) if place.rank not in gone)


def place_of(places: tuple[Placement, ...], rank: int) -> Placement | None:
    if rank < len(places) and places[rank].rank == rank:
        return places[rank]
    return next((place for place in places if place.rank == rank), None)


def next_rank(state: JobState) -> int:
    """The first number that no rank of the attempt has had: a late report must never be taken for a newer rank's."""
    numbers = (*(place.rank for place in (*state.placements, *state.leaving)), *state.ended_ranks)
    return max(numbers, default=-1) + 1


def size_limits(spec: JobSpec) -> tuple[int, int]:
    """The fewest and the most ranks an attempt may have."""
    if spec.gang is None:
        return 1, 1
    return spec.gang.min_ranks or spec.gang.ranks, spec.gang.ranks


def used(state: JobState, now: float) -> tuple[float, float]:
    """GPU-seconds and CPU-seconds of all attempts so far, the current one included."""
    since = state.bound_at if state.metered_at is None else state.metered_at
    if state.phase not in BOUND or since is None:
        return state.gpu_s, state.cpu_s
    elapsed_s = max(0.0, now - since)
    gpu_milli = cpu_milli = 0
    for place in state.placements:
        gpu_milli += len(place.gpus) * place.gpu_milli
        cpu_milli += place.cpu_milli
    return state.gpu_s + elapsed_s * gpu_milli / 1000, state.cpu_s + elapsed_s * cpu_milli / 1000


def metered(state: JobState, now: float, fate: Fate) -> dict[str, Any]:
    """What the record says of its use from now on; `fate` is that of what the current attempt used."""
    gpu_s, cpu_s = used(state, now)
    return {"gpu_s": gpu_s, "cpu_s": cpu_s, "spent": spent_by(state, now, fate)}


def settled(state: JobState, now: float, fate: Fate) -> dict[str, Any]:
    """The same of an attempt that is over."""
    return {**metered(state, now, fate), "rates": ()}


def about_to_end(state: JobState) -> str:
    """Why an attempt is not taken away just now: a failure that was acknowledged is not to be forgotten."""
    return "a rank of it has failed, and its attempt is about to end" if state.failing else ""


def why_not_preemptible(spec: JobSpec) -> str:
    """Why the job's attempts may not be taken away for another job, or nothing."""
    if not spec.preemption.allowed:
        return "it does not allow preemption"
    if spec.effects == "unsafe":
        return "its effects are unsafe, so it is never started twice"
    if spec.restart == "never":
        return "its restart policy is never"
    return ""


def leaving_s(spec: JobSpec) -> float:
    """How long an attempt may take to leave when it is preempted: saving a checkpoint, then the grace."""
    return spec.grace_s + (spec.preemption.wait_s if saves(spec) else 0.0)


def gap_needed(spec: JobSpec) -> float:
    """The shortest gap that the job can use: it is told to leave so long before the gap ends."""
    return inf if spec.gap_min_s is None else spec.gap_min_s + leaving_s(spec)


def saves(spec: JobSpec) -> bool:
    """Whether the job saves its work when it has to leave."""
    return spec.checkpoint is not None or spec.preemption.checkpoint_signal is not None


def numbered(ranks: Iterable[int]) -> str:
    """Ranks in a person's words: "rank 3", "ranks 1, 2, 5", and not hundreds of them."""
    found = sorted(ranks)
    shown = ", ".join(str(rank) for rank in found[:8])
    more = f" and {len(found) - 8} more" if len(found) > 8 else ""
    return f"rank{'' if len(found) == 1 else 's'} {shown}{more}"
