"""What a job holds of the cluster, and what has to be known about it to share, move or evict it."""

from ares.core.ask import Ask, Near, asks_of, away_of, nears_of
from ares.core.lifecycle.ranks import leaving_s, next_rank, saves, why_not_preemptible
from ares.core.queue.drf import Amounts
from ares.core.queue.order import LEVELS, account_of
from ares.core.queue.service import FIRST_S, quantum_s, service_of
from ares.model.base import Record
from ares.model.job import JobSpec
from ares.model.state import BOUND, JobState, Placement


class Holding(Record, frozen=True):
    """An attempt's placements, and whose they are."""

    job: str
    tenant: str
    account: str
    level: int
    placements: tuple[Placement, ...]
    labels: dict[str, str] = {}
    # What it must be away from, which keeps those jobs off it too.
    away: tuple[Near, ...] = ()
    licences: tuple[tuple[str, int], ...] = ()
    # When the attempt was granted, and when it last saved a checkpoint: work from before then is not lost.
    since: float = 0.0
    saved_at: float | None = None
    preemptible: bool = False
    preemptions: int = 0
    preempted_at: float | None = None
    # Of an attempt that can make room and saves its work: the service of attempts before it. None: it makes no room.
    served_s: float | None = None
    submitted_at: float = 0.0
    # When it will have ended, as far as is known; how long it was to run at first, and may at most, with grace.
    ends_at: float | None = None
    runs_s: float | None = None
    limit_s: float | None = None
    # How long it may take to leave when it is preempted: saving a checkpoint, then the grace.
    leave_s: float = 0.0
    # Of a running gang that may have more or fewer ranks: what each rank asks for, its ranks, the next one's number.
    elastic: Ask | None = None
    ranks: tuple[Placement, ...] = ()
    next_rank: int = 0
    # On its way out: it frees what it holds soon, and cannot be evicted again.
    leaving: bool = False
    # The job makes use of a gap, and has to be gone by then.
    leaves_at: float | None = None
    # The reservation whose room the job uses.
    reservation: str | None = None

    @property
    def yields_at(self) -> float:
        """When an attempt that saves its work may first have to make room for a job that has had less service."""
        served_s = self.served_s or 0.0
        return self.since + max(quantum_s(served_s), FIRST_S - served_s)

    @property
    def held(self) -> Amounts:
        return held_by(self.placements)


def held_by(placements: tuple[Placement, ...]) -> Amounts:
    if len(placements) == 1:
        (place,) = placements
        return Amounts(place.cpu_milli, place.memory_mib, len(place.gpus) * place.gpu_milli)
    return Amounts(
        sum(place.cpu_milli for place in placements),
        sum(place.memory_mib for place in placements),
        sum(len(place.gpus) * place.gpu_milli for place in placements),
    )


def holding(state: JobState, spec: JobSpec, placements: tuple[Placement, ...], runs_s: float | None = None) -> Holding:
    """`placements` are the ones that are still in use."""
    since = state.bound_at or state.queued_at
    bound = state.phase in BOUND
    elastic = _elastic(state, spec)
    preemptible = bound and not why_not_preemptible(spec)
    return Holding(
        job=state.id,
        tenant=state.tenant,
        account=account_of(state),
        level=LEVELS[spec.priority],
        placements=placements,
        labels=spec.labels,
        away=away_of(nears_of(spec)) if spec.job_affinity else (),
        licences=tuple(sorted(spec.licences.items())) if spec.licences else (),
        since=since,
        saved_at=_saved_at(state),
        preemptible=preemptible,
        preemptions=state.preemptions - state.rotations,
        preempted_at=state.preempted_at,
        served_s=service_of(state, spec) if preemptible and saves(spec) else None,
        submitted_at=state.submitted_at,
        ends_at=_ends_at(state, since, runs_s),
        leaves_at=state.leaves_at,
        runs_s=runs_s,
        limit_s=None if spec.time_limit_s is None else spec.time_limit_s + spec.grace_s,
        leave_s=leaving_s(spec),
        elastic=elastic,
        ranks=() if elastic is None else state.placements,
        next_rank=0 if elastic is None else next_rank(state),
        leaving=not bound or bool(state.leaving),
        reservation=spec.reservation,
    )


def _saved_at(state: JobState) -> float | None:
    saved = state.checkpoint
    return saved.taken_at if saved is not None and saved.fence == state.fence else None


def _ends_at(state: JobState, since: float, runs_s: float | None) -> float | None:
    leaves_at = state.leaves_at
    if runs_s is None:
        return leaves_at
    return since + runs_s if leaves_at is None else min(since + runs_s, leaves_at)


def _elastic(state: JobState, spec: JobSpec) -> Ask | None:
    gang = spec.gang
    if gang is None or gang.min_ranks is None or state.phase != "RUNNING":
        return None
    # Where some ranks have finished, the rest are about to; ranks that the gang went on without do not count.
    if state.ended_ranks and any(place.rank in state.ended_ranks for place in state.placements):
        return None
    return asks_of(spec, state.tenant)[state.alternative]
