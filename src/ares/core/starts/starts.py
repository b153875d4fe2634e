"""When jobs start: the one estimate that plan, pools, explain, show, deadlines and ETAs answer from.

A job starts now where there is room that no promise to a job ahead keeps from it; when its reservation begins; when it
was promised; or else once all jobs ahead of it were put into the future, each where backfill would hold room for it, by
the estimated ends of running jobs.
"""

from collections.abc import Iterator, Sequence
from itertools import islice, takewhile
from math import inf
from typing import NamedTuple

from ares.api.decisions import Eta
from ares.core.ask import Ask
from ares.core.capacity.bookings import claim_of
from ares.core.capacity.claims import Claim
from ares.core.explain.held_back import named, paced_jobs
from ares.core.explain.why import infeasible
from ares.core.forecast.estimate import Estimate
from ares.core.queue.order import account_of
from ares.core.queue.overlay import QueueOverlay
from ares.core.queue.waiting import ClassKey, JobClass, QueueView
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.pace import PacedJob, choices
from ares.core.schedule.ranked_queue import RankedQueue
from ares.core.schedule.slot import Slot, earliest
from ares.core.schedule.trial import Assignment, Trial
from ares.core.starts.estimate import start_estimate
from ares.core.steps import Steps, in_steps
from ares.core.text import count
from ares.model.job import JobSpec
from ares.model.state import JobState, Placement

# Jobs ahead that are put into the future; beyond them a start is not known. On many nodes fewer: each looks at all.
_AHEAD_MAX, _AHEAD_MIN, _ROWS_IN_ALL = 128, 16, 128_000
# Nodes that are looked at in one step, in sum over the jobs ahead.
ROWS_AT_A_TIME = 4000
# Ranking more kinds of jobs than this takes longer than an answer is worth.
_CLASSES_MAX = 1024
_SILENT = "what is free is booked, or jobs ahead of it do not say how long they run"
# A cycle comes within this time.
SOON_S = 2.0


class Course(NamedTuple):
    """When a job will start and how long it will run, as far as is known."""

    start: float
    runs: Estimate | None
    basis: str
    # The placements, if the job starts now.
    placements: tuple[Placement, ...] = ()


def eta_of(found: Course | str, now: float) -> Eta:
    """The start as it is told: a start at once comes with the next cycle."""
    if isinstance(found, str):
        return Eta(earliest=now, latest=None, basis=found, computed_at=now)
    latest = now + SOON_S if found.start <= now else found.start
    return Eta(earliest=max(now, found.start), latest=latest, basis=found.basis, computed_at=now)


@in_steps
def course(cluster: Cluster, state: JobState, spec: JobSpec, now: float) -> Steps[Course | str]:
    """The start of one job that waits, or would if it were submitted now; or why it is not known."""
    return (yield from Starts(cluster, now).steps(state, (spec,)))[0]


class Starts:
    """Starts as of one moment. The cluster is left as it was after every step of an answer.

    Jobs ahead are put into the future once, however many jobs are asked about."""

    def __init__(self, cluster: Cluster, now: float) -> None:
        cluster.prepare()
        self._cluster = cluster
        self._now = now
        rows = max(1, len(cluster.rows))
        self._most = max(_AHEAD_MIN, min(_AHEAD_MAX, _ROWS_IN_ALL // rows))
        self._at_a_time = max(1, ROWS_AT_A_TIME // rows)
        # For the first jobs of the queue: what each will take, None where that is not known.
        self._claims: list[tuple[str, Claim | None]] = []
        # The first jobs of the queue, two more than are put into the future.
        self._front: list[tuple[str, JobClass]] | None = None
        self._paced: dict[str, PacedJob] | None = None

    def steps(
        self, state: JobState, specs: Sequence[JobSpec], instead_of: JobSpec | None = None
    ) -> Steps[list[Course | str]]:
        """Starts of a job that waits, or would if it were submitted now, in several forms. All have the place in the
        queue of the first. A job that waits as `instead_of` is looked at as if it waited with the first instead."""
        ahead: list[tuple[str, JobClass]] | str | None = None
        found: list[Course | str] = []
        for spec in specs:
            key = self._cluster.waiting.key_of(state, spec)
            # Anew for each: the queue may have changed since the last step.
            waiting = self._queue_with(state, specs[0], instead_of)
            known = self._known(state, spec, key, waiting)
            if known is None and ahead is None:
                ahead = self._ahead(state.id, waiting)
            if known is None:
                assert ahead is not None
                known = ahead if isinstance(ahead, str) else (yield from self._after(state, spec, key, ahead))
            found.append(known)
            yield
        return found

    def _queue_with(self, state: JobState, spec: JobSpec, instead_of: JobSpec | None) -> QueueView:
        """The queue with the job in it; an overlay where the job does not wait, or not in this form."""
        waiting = self._cluster.waiting
        if state.id in waiting and instead_of is None:
            return waiting
        runs = self._cluster.predictor.estimate(spec, account_of(state))
        return QueueOverlay(waiting, state, spec, *((inf, inf) if runs is None else (runs.hold_s, runs.seconds)))

    # ---- one job

    def _known(self, state: JobState, spec: JobSpec, key: ClassKey, waiting: QueueView) -> Course | str | None:
        """What can be said without a look at the jobs ahead."""
        cluster, now = self._cluster, self._now
        never = infeasible(cluster, key, now)
        if never is not None:
            return f"it can never run as it is: {never.message}"
        slot = self._slot(state.id, waiting) if key.asks[0].runs else None
        if slot is not None:
            return self._by_model(slot, state, spec, len(waiting) - 1)
        own = cluster.booked(key.asks[0].reservation, now)
        runs = None if own is None else cluster.predictor.estimate(spec, account_of(state))
        if own is not None and own.start > now:
            return Course(own.start, runs, f"its reservation {own.name} begins then")
        if own is not None and cluster.closing(key.asks[0], now) is not None:
            return Course(own.until, runs, f"its reservation {own.name} ends then, and it may run anywhere")
        return None

    def _after(
        self, state: JobState, spec: JobSpec, key: ClassKey, ahead: list[tuple[str, JobClass]]
    ) -> Steps[Course | str]:
        """The start once the jobs ahead have what they need."""
        cluster, now = self._cluster, self._now
        runs = cluster.predictor.estimate(spec, account_of(state))
        runs_s = cluster.waiting.run_times.held_s(runs, spec)
        # Where run times differ by GPU model, room at once may be the slower way.
        if not key.asks[0].runs and (found := self._at_once(key, runs_s, ahead)) is not None:
            return Course(now, runs, "there is room now", found)
        if (promise := cluster.promises.get(state.id)) is not None:
            return Course(max(now, promise.start), runs, "room is promised to it from then on, by the estimates")
        if len(ahead) > self._most:
            return f"more than {self._most} jobs are ahead of it"
        claims = yield from self._reach(ahead)
        return self._behind(state, spec, key, claims)

    def _slot(self, job: str, waiting: QueueView) -> PacedJob | None:
        if waiting is not self._cluster.waiting:
            return paced_jobs(self._cluster, self._now, waiting).get(job)
        if self._paced is None:
            self._paced = paced_jobs(self._cluster, self._now)
        return self._paced.get(job)

    def _by_model(self, slot: PacedJob, state: JobState, spec: JobSpec, others: int) -> Course:
        lasts_s = slot.end - slot.start
        runs: Estimate | None = Estimate(lasts_s, lasts_s, lasts_s, "the run times it states")
        if slot.model is not None:
            runs = self._cluster.predictor.estimate(spec, account_of(state), slot.model)
        beside = f", planned together with {count(others, 'job')} that wait" if others else ""
        where = "several GPU models" if slot.model is None else named(slot.model)
        return Course(slot.start, runs, f"on {where}{beside}")

    def _ahead(self, job: str, waiting: QueueView) -> list[tuple[str, JobClass]] | str:
        """The jobs ahead, one more than are looked at if there are so many; or why they are not known."""
        if waiting.settled is not None:
            names = [place[3] for _, _, place in islice(waiting.ahead(job), self._most + 1)]
            return [(name, job_class) for name in names if (job_class := waiting.class_of(name)) is not None]
        if len(waiting.active) > _CLASSES_MAX:
            return f"more than {_CLASSES_MAX} kinds of jobs wait"
        if waiting is not self._cluster.waiting:
            return self._ranked(waiting, self._most + 1, job)
        if self._front is None or (len(self._front) < self._most + 2 and all(ahead != job for ahead, _ in self._front)):
            self._front = self._ranked(waiting, self._most + 2)
        return list(islice(_before(iter(self._front), job), self._most + 1))

    def _ranked(self, waiting: QueueView, most: int, until: str = "") -> list[tuple[str, JobClass]]:
        """The first jobs of the queue, as far as that job."""
        with Trial.what_if(self._cluster, self._now, waiting) as trial:
            return list(islice(_before(RankedQueue(trial).rest(), until), most))

    def _at_once(self, key: ClassKey, runs_s: float, ahead: list[tuple[str, JobClass]]) -> tuple[Placement, ...] | None:
        """Where the job would go in the next cycle; None when there is no room that it may have."""
        cluster = self._cluster
        if ahead and "backfill" not in cluster.profile.actions:
            return None
        with Trial.what_if(cluster, self._now) as trial:
            for job, _ in ahead:
                if (promise := cluster.promises.get(job)) is not None and (claim := claim_of(cluster, promise)):
                    trial.claims.add(claim)
            found: Assignment | None = trial.find(key, runs_s)
            return None if found is None else trial.placements(found.taken)

    # ---- behind all jobs ahead

    def _reach(self, ahead: list[tuple[str, JobClass]]) -> Steps[list[tuple[str, Claim | None]]]:
        """The jobs ahead, put into the future a few at a time. An order that changed begins anew."""
        claims = list(self._claims)
        if [job for job, _ in claims] != [job for job, _ in ahead[: len(claims)]]:
            shared = takewhile(lambda pair: pair[0][0] == pair[1][0], zip(claims, ahead, strict=False))
            claims = [claim for claim, _ in shared]
        while rest := ahead[len(claims) : len(claims) + self._at_a_time]:
            with self._with_claims(claims) as trial:
                for job, job_class in rest:
                    claim = self._claim(trial, job, job_class)
                    claims.append((job, claim))
                    if claim is not None:
                        trial.claims.add(claim)
            yield
        if len(claims) > len(self._claims) or claims != self._claims[: len(claims)]:
            self._claims = list(claims)
        return claims

    def _with_claims(self, claims: Sequence[tuple[str, Claim | None]]) -> Trial:
        trial = Trial.what_if(self._cluster, self._now)
        for _, claim in claims:
            if claim is not None:
                trial.claims.add(claim)
        return trial

    def _claim(self, trial: Trial, job: str, job_class: JobClass) -> Claim | None:
        if job not in self._cluster.waiting:
            # The job left the queue since the last step.
            return None
        promise = self._cluster.promises.get(job)
        if promise is not None:
            return claim_of(self._cluster, promise)
        runs_s = self._cluster.waiting.runs_of(job)
        found = [_opening(trial, job_class.key, ask, runs_s) for ask in job_class.key.asks]
        first = min((each for each in found if not isinstance(each, str)), key=lambda each: each.start, default=None)
        return None if first is None else Claim(job, first.start, first.start + runs_s, first.taken)

    def _behind(
        self, state: JobState, spec: JobSpec, key: ClassKey, claims: Sequence[tuple[str, Claim | None]]
    ) -> Course | str:
        best, why = None, ""
        with self._with_claims(claims) as trial:
            for ask, model in _asks(self._cluster, key):
                runs = self._cluster.predictor.estimate(spec, account_of(state), model)
                opening = _opening(trial, key, ask, self._cluster.waiting.run_times.held_s(runs, spec))
                if isinstance(opening, str):
                    why = why or opening
                    continue
                ends = opening.start + (0.0 if runs is None else runs.seconds)
                if best is None or ends < best[0]:
                    best = ends, Course(opening.start, runs, _basis(trial, opening, len(claims)))
        return why if best is None else best[1]


def _before(jobs: Iterator[tuple[str, JobClass]], job: str) -> Iterator[tuple[str, JobClass]]:
    for other, job_class in jobs:
        if other == job:
            return
        yield other, job_class


def _asks(cluster: Cluster, key: ClassKey) -> Iterator[tuple[Ask, str | None]]:
    """What the job asks for, by GPU model where it says that models differ."""
    for ask in key.asks:
        apart = [(choice.ask, choice.slowest) for choice in choices(cluster.table, ask)]
        yield from apart or [(ask, ask.gpu_model)]


def _opening(trial: Trial, key: ClassKey, ask: Ask, runs_s: float) -> Slot | str:
    """From when on there is room, or why that is not known."""
    if (key.licences or trial.profile.shares) and trial.gate(key, ask) is not None:
        eta = start_estimate(trial, key, ask, 0)
        return eta.basis if eta.latest is None else Slot(eta.earliest, ())
    found = earliest(trial.cluster, trial.txn, trial.claims, ask, trial.now, runs_s)
    if found is not None and found.start < inf:
        return found
    eta = start_estimate(trial, key, ask, 0)
    return eta.basis if eta.latest is None else _SILENT


def _basis(trial: Trial, opening: Slot, ahead: int) -> str:
    if opening.start <= trial.now:
        return "there is room now"
    cluster = trial.cluster
    names = {
        record.info.name
        for allocation in opening.taken
        if (record := cluster.table.records[allocation.row]) is not None
    }
    jobs = {job for name in names for job in cluster.on_node.get(name, ())}
    ends = sum((cluster.holdings[job].ends_at or inf) <= opening.start for job in jobs)
    parts = [f"{count(ends, 'job')} that {'holds' if ends == 1 else 'hold'} its place"] if ends else []
    parts += [f"{count(ahead, 'job')} ahead of it"] if ahead else []
    return f"by the estimates of {' and '.join(parts)}" if parts else "by what is booked"
