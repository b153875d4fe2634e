"""When jobs start: the one estimate that plan, pools, explain, show, deadlines and ETAs answer from.

A job starts now where there is room that no promise to a job ahead keeps from it; when its reservation begins; when it
was promised; or else once all jobs ahead of it were put into the future, each where backfill would hold room for it, by
the estimates of those who run.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from math import inf
from typing import NamedTuple

from ares.core.predict.estimate import Estimate
from ares.core.predict.eta import Eta
from ares.core.queue.order import account_of
from ares.core.queue.waiting import ClassKey, JobClass, class_key
from ares.core.reserve.words import count
from ares.core.schedule.ask import Ask
from ares.core.schedule.bookings import claim_of
from ares.core.schedule.claims import Claim
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.eta import start_estimate
from ares.core.schedule.explain import infeasible
from ares.core.schedule.faster import named, paced_jobs
from ares.core.schedule.models import choices
from ares.core.schedule.openings import Opening, earliest
from ares.core.schedule.pace import Paced
from ares.core.schedule.round import Found, Round
from ares.core.schedule.turns import Turns
from ares.model.job import JobSpec
from ares.model.state import JobState, Placement

# Jobs ahead that are put into the future; beyond them nobody can say. On many nodes fewer: each looks at all nodes.
_AHEAD_MAX, _AHEAD_MIN, _ROWS_IN_ALL = 128, 16, 128_000
# Ranking more kinds of jobs than this takes longer than an answer is worth.
_CLASSES_MAX = 1024
_SILENT = "what is free is booked, or jobs ahead of it do not say how long they run"
# A cycle comes within this time.
SOON_S = 2.0


class Course(NamedTuple):
    """When a job will start and how long it will run, as far as anybody can say."""

    start: float
    runs: Estimate | None
    basis: str
    # Where, if it starts now.
    placements: tuple[Placement, ...] = ()


def eta_of(found: Course | str, now: float) -> Eta:
    """As a time that is told: a start at once comes with the next cycle."""
    if isinstance(found, str):
        return Eta(earliest=now, latest=None, basis=found, computed_at=now)
    latest = now + SOON_S if found.start <= now else found.start
    return Eta(earliest=max(now, found.start), latest=latest, basis=found.basis, computed_at=now)


def course(cluster: Cluster, state: JobState, spec: JobSpec, now: float) -> Course | str:
    """Of one job that waits, or would if it were submitted now; or why nobody can say."""
    return Starts(cluster, now).of(state, spec)


class Starts:
    """Of one moment. The cluster is left as it was after every answer.

    Jobs ahead are put into the future once, however many jobs are asked about."""

    def __init__(self, cluster: Cluster, now: float) -> None:
        cluster.prepare()
        self._cluster = cluster
        self._now = now
        rows = max(1, len(cluster.rows))
        self._most = max(_AHEAD_MIN, min(_AHEAD_MAX, _ROWS_IN_ALL // rows))
        # Of the first jobs of the queue: what each will take, None where nobody can say.
        self._claims: list[tuple[str, Claim | None]] = []
        self._paced: dict[str, Paced] | None = None

    def of(self, state: JobState, spec: JobSpec) -> Course | str:
        if state.id in self._cluster.waiting:
            return self._asked(state, spec)
        return self.of_new(state, (spec,))[0]

    def of_new(self, state: JobState, specs: Sequence[JobSpec]) -> list[Course | str]:
        """Of a job that would be submitted now, in several forms. They have the place in the queue of the first."""
        waiting, runs = self._cluster.waiting, self._cluster.predictor.estimate(specs[0], account_of(state))
        hold_s, likely_s = (inf, inf) if runs is None else (runs.hold_s, runs.seconds)
        waiting.add(state, specs[0], hold_s, likely_s)
        try:
            return [self._asked(state, spec) for spec in specs]
        finally:
            waiting.remove(state.id)

    # ---- one job

    def _asked(self, state: JobState, spec: JobSpec) -> Course | str:
        cluster, now = self._cluster, self._now
        key = class_key(state, spec)
        never = infeasible(cluster, key, now)
        if never is not None:
            return f"it can never run as it is: {never.message}"
        runs = cluster.predictor.estimate(spec, account_of(state))
        slot = self._slot(state.id) if key.asks[0].runs else None
        if slot is not None:
            return self._by_model(slot, state, spec)
        own, promise = cluster.booked(key.asks[0].reservation, now), cluster.promises.get(state.id)
        if own is not None and own.start > now:
            return Course(own.start, runs, f"its reservation {own.name} begins then")
        if own is not None and cluster.closing(key.asks[0], now) is not None:
            return Course(own.until, runs, f"its reservation {own.name} ends then, and it may run anywhere")
        ahead = self._ahead(state.id)
        if isinstance(ahead, str):
            return ahead
        runs_s = inf if runs is None else runs.hold_s
        # Where run times differ by GPU model, room at once may be the slower way.
        if not key.asks[0].runs and (found := self._at_once(key, runs_s, ahead)) is not None:
            return Course(now, runs, "there is room now", found)
        if promise is not None:
            return Course(max(now, promise.start), runs, "room is promised to it from then on, by the estimates")
        if len(ahead) > self._most:
            return f"more than {self._most} jobs are ahead of it"
        self._reach(ahead)
        return self._behind(state, spec, key, len(ahead))

    def _slot(self, job: str) -> Paced | None:
        if self._paced is None:
            self._paced = paced_jobs(self._cluster, self._now)
        return self._paced.get(job)

    def _by_model(self, slot: Paced, state: JobState, spec: JobSpec) -> Course:
        lasts_s = slot.end - slot.start
        runs: Estimate | None = Estimate(lasts_s, lasts_s, lasts_s, "the run times it states")
        if slot.model is not None:
            runs = self._cluster.predictor.estimate(spec, account_of(state), slot.model)
        others = len(self._cluster.waiting) - 1
        beside = f", planned together with {count(others, 'job')} that wait" if others else ""
        where = "several GPU models" if slot.model is None else named(slot.model)
        return Course(slot.start, runs, f"on {where}{beside}")

    def _ahead(self, job: str) -> list[tuple[str, JobClass]] | str:
        """The jobs ahead, one more than are looked at if there are so many."""
        waiting = self._cluster.waiting
        if waiting.settled is not None:
            names = [place[3] for _, _, place in islice(waiting.settled.ahead(job), self._most + 1)]
            return [(name, one) for name in names if (one := waiting.class_of(name)) is not None]
        if len(waiting.active) > _CLASSES_MAX:
            return f"more than {_CLASSES_MAX} kinds of jobs wait"
        round_ = Round(self._cluster, self._cluster.profile, self._now)
        try:
            return list(islice(_before(Turns(round_).rest(), job), self._most + 1))
        finally:
            round_.close()

    def _at_once(self, key: ClassKey, runs_s: float, ahead: list[tuple[str, JobClass]]) -> tuple[Placement, ...] | None:
        """Where it would go in the next cycle; None when there is no room that it may have."""
        cluster = self._cluster
        if ahead and "backfill" not in cluster.profile.actions:
            return None
        round_ = Round(cluster, cluster.profile, self._now)
        try:
            for job, _ in ahead:
                if (promise := cluster.promises.get(job)) is not None and (claim := claim_of(cluster, promise)):
                    round_.claims.add(claim)
            found: Found | None = round_.find(key, runs_s)
            return None if found is None else round_.placements(found.taken)
        finally:
            round_.claims.lift()
            round_.close()

    # ---- behind all that are ahead

    def _reach(self, ahead: list[tuple[str, JobClass]]) -> None:
        """Puts those into the future that are not there yet. An order that changed begins anew."""
        if [job for job, _ in self._claims] != [job for job, _ in ahead[: len(self._claims)]]:
            self._claims.clear()
        rest = ahead[len(self._claims) :]
        if not rest:
            return
        round_ = self._with_claims(len(self._claims))
        try:
            for job, one in rest:
                claim = self._claim(round_, job, one)
                self._claims.append((job, claim))
                if claim is not None:
                    round_.claims.add(claim)
        finally:
            round_.claims.lift()
            round_.close()

    def _with_claims(self, first: int) -> Round:
        round_ = Round(self._cluster, self._cluster.profile, self._now)
        for _, claim in self._claims[:first]:
            if claim is not None:
                round_.claims.add(claim)
        return round_

    def _claim(self, round_: Round, job: str, one: JobClass) -> Claim | None:
        promise = self._cluster.promises.get(job)
        if promise is not None:
            return claim_of(self._cluster, promise)
        runs_s = self._cluster.waiting.runs_of(job)
        found = [_opening(round_, one.key, ask, runs_s) for ask in one.key.asks]
        first = min((each for each in found if not isinstance(each, str)), key=lambda each: each.start, default=None)
        return None if first is None else Claim(job, first.start, first.start + runs_s, first.taken)

    def _behind(self, state: JobState, spec: JobSpec, key: ClassKey, ahead: int) -> Course | str:
        round_, best, why = self._with_claims(ahead), None, ""
        try:
            for ask, model in _asks(self._cluster, key):
                runs = self._cluster.predictor.estimate(spec, account_of(state), model)
                opening = _opening(round_, key, ask, inf if runs is None else runs.hold_s)
                if isinstance(opening, str):
                    why = why or opening
                    continue
                ends = opening.start + (0.0 if runs is None else runs.seconds)
                if best is None or ends < best[0]:
                    best = ends, Course(opening.start, runs, _basis(round_, opening, ahead))
            return why if best is None else best[1]
        finally:
            round_.claims.lift()
            round_.close()


def _before(jobs: Iterator[tuple[str, JobClass]], job: str) -> Iterator[tuple[str, JobClass]]:
    for other, one in jobs:
        if other == job:
            return
        yield other, one


def _asks(cluster: Cluster, key: ClassKey) -> Iterator[tuple[Ask, str | None]]:
    """What it asks for, on each GPU model apart where it says that they differ."""
    for ask in key.asks:
        apart = [(one.ask, one.slowest) for one in choices(cluster.table, ask)]
        yield from apart or [(ask, ask.gpu_model)]


def _opening(round_: Round, key: ClassKey, ask: Ask, runs_s: float) -> Opening | str:
    """From when on there is room, or why nobody can say."""
    if (key.licences or round_.profile.shares) and round_.gate(key, ask) is not None:
        eta = start_estimate(round_, key, ask, 0)
        return eta.basis if eta.latest is None else Opening(eta.earliest, ())
    found = earliest(round_.cluster, round_.txn, round_.claims, ask, round_.now, runs_s)
    if found is not None and found.start < inf:
        return found
    eta = start_estimate(round_, key, ask, 0)
    return eta.basis if eta.latest is None else _SILENT


def _basis(round_: Round, opening: Opening, ahead: int) -> str:
    if opening.start <= round_.now:
        return "there is room now"
    cluster = round_.cluster
    names = {record.info.name for one in opening.taken if (record := cluster.table.records[one.row]) is not None}
    jobs = {job for name in names for job in cluster.on_node.get(name, ())}
    ends = sum((cluster.holdings[job].ends_at or inf) <= opening.start for job in jobs)
    parts = [f"{count(ends, 'job')} that {'holds' if ends == 1 else 'hold'} its place"] if ends else []
    parts += [f"{count(ahead, 'job')} ahead of it"] if ahead else []
    return f"by the estimates of {' and '.join(parts)}" if parts else "by what is booked"
