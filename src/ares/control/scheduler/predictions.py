"""Predictions of run times and starts: learned from jobs that ended, scored by the outcome, kept over restarts.

Every replica learns from the changes it sees. The leader predicts the start of every job that has to wait, and
scores that when the job starts; followers answer by what the leader has learned.
"""

import msgspec
import structlog

from ares.api.predictions import (
    Interval,
    JobPrediction,
    ModelView,
    PredictionReport,
    StartsJudged,
)
from ares.control.scheduler.cluster_view import LiveCluster, unsubmitted
from ares.control.state.pacing import breathe, stepped
from ares.control.state.view import Delta, View
from ares.core import keys
from ares.core.forecast.estimate import Estimate, run_time
from ares.core.forecast.eta import LONGEST_S, Etas, EtasData, eta
from ares.core.forecast.trees import BadModel, Forest, TreeModel
from ares.core.lifecycle.updates import in_force
from ares.core.queue.order import account_of
from ares.core.refusal import Refusal
from ares.core.starts.starts import Course, course
from ares.core.starts.wait import Supplies
from ares.model.access import Principal
from ares.model.job import JobSpec
from ares.model.state import BOUND, JobState
from ares.ports.clock import Clock
from ares.ports.store import Compare, Delete, Put, Store, StoreError
from ares.ports.telemetry import Telemetry

log = structlog.get_logger()

_LOOK_EVERY_S = 2.0
_KEEP_EVERY_S = 60.0
# Jobs predicted in one go, so that requests do not wait.
_AT_ONCE = 250
# Jobs between two turns of other tasks: behind thousands of distinct jobs each takes a millisecond.
_AT_A_TIME = 16
# Ended jobs that a new process learns from.
_LATEST = 2000


class Predictions:
    def __init__(self, store: Store, view: View, planner: LiveCluster, clock: Clock, telemetry: Telemetry) -> None:
        self._store = store
        self._view = view
        self._planner = planner
        self._clock = clock
        self._telemetry = telemetry
        self._leading = False
        # Waiting jobs without a prediction yet.
        self._untold: dict[str, None] = {}
        self._kept = EtasData()
        self._model: TreeModel | None = None
        self._model_revision = 0
        view.subscribe(self._on_delta)

    # ---- answering

    async def job(self, who: Principal, spec: JobSpec) -> JobPrediction:
        """Changes nothing."""
        await self._view.catch_up()
        planner, now = self._planner, self._clock.wall()
        state = unsubmitted(who, now, spec)
        runs = planner.predictor.estimate(spec, account_of(state))
        wait = Supplies(planner.cluster, now).wait_of_new(planner.cluster.waiting.key_of(state, spec), runs)
        if isinstance(start := await stepped(course.steps(planner.cluster, state, spec, now)), Course):
            wait = wait._replace(seconds=max(0.0, start.start - now), basis=start.basis)
        return JobPrediction(runtime=None if runs is None else _interval(runs), starts=eta(planner.etas, wait, now))

    async def report(self) -> PredictionReport:
        await self._view.catch_up()
        planner, etas = self._planner, self._planner.etas
        return PredictionReport(
            policy=planner.cluster.profile.prediction,
            runtimes=planner.predictor.accuracy,
            starts=StartsJudged(first=etas.first, latest=etas.latest),
            kinds=planner.predictor.kinds,
            model=None if self._model is None else _shown(self._model),
            at=self._clock.wall(),
        )

    # ---- a trained model

    async def install(self, model: TreeModel) -> ModelView | Refusal:
        """Used at once here and within a minute on other replicas, if it is better than like jobs' runs."""
        try:
            Forest(model)
        except BadModel as error:
            fix = "Train it again with `ares predict train`."
            return Refusal(code="invalid", message=str(error), fix=fix)
        await self._store.txn([], [Put(keys.PREDICTION_MODEL, msgspec.json.encode(model))])
        self._use(model)
        return _shown(model)

    async def uninstall(self) -> bool:
        """Whether there was one."""
        was = await self._store.get(keys.PREDICTION_MODEL) is not None
        await self._store.txn([], [Delete(keys.PREDICTION_MODEL)])
        self._use(None)
        return was

    def _use(self, model: TreeModel | None) -> None:
        self._model = model
        better = model is not None and model.held_out.better
        self._planner.predictor.forest = Forest(model) if model is not None and better else None

    # ---- every replica

    async def run(self) -> None:
        """Learns from what ended before this process began, then follows what the leader learns about starts."""
        while True:
            try:
                await self._learn_from_ended()
                break
            except StoreError as error:
                log.warning("predictions.delayed", error=str(error))
                await self._clock.sleep(_LOOK_EVERY_S)
        while True:
            try:
                await self._read_model()
                if not self._leading:
                    await self._read()
            except StoreError as error:
                log.warning("predictions.delayed", error=str(error))
            await self._clock.sleep(_KEEP_EVERY_S)

    async def _learn_from_ended(self) -> None:
        """In the order they ended, the same on every replica."""
        ended = [
            (state.ended_at, state.id, state, ran_s)
            for entry in self._view.entries.values()
            if (state := entry.state).ended_at is not None and (ran_s := run_time(state)) is not None
        ]
        specs: dict[str, JobSpec | None] = {}
        for _, _, state, ran_s in sorted(ended, key=lambda run: run[:2])[-_LATEST:]:
            key = keys.job(state.tenant, state.array or state.id)
            if key not in specs:
                kv = await self._store.get(key)
                specs[key] = None if kv is None else self._view.decode_spec(kv.value)
            spec = specs[key]
            if spec is not None:
                self._planner.predictor.learn(in_force(spec, state), account_of(state), ran_s, self._gpu_model(state))

    def _gpu_model(self, state: JobState) -> str | None:
        place = next((placement for placement in state.placements if placement.gpus), None)
        record = None if place is None else self._view.nodes.get(place.node)
        if place is None or record is None:
            return None
        return next((gpu.model for gpu in record.info.gpus if gpu.index == place.gpus[0]), None)

    async def _read(self) -> None:
        kv = await self._store.get(keys.PREDICTIONS)
        if kv is not None:
            self._kept = msgspec.json.decode(kv.value, type=EtasData)
            self._planner.etas = Etas(self._kept)

    async def _read_model(self) -> None:
        kv = await self._store.get(keys.PREDICTION_MODEL)
        revision = 0 if kv is None else kv.mod_revision
        if revision != self._model_revision:
            self._model_revision = revision
            try:
                self._use(None if kv is None else msgspec.json.decode(kv.value, type=TreeModel))
            except (BadModel, msgspec.MsgspecError) as error:
                # A model of another version of Ares.
                log.warning("predictions.model_unusable", error=str(error))
                self._use(None)

    # ---- leader only

    async def lead(self, guard: Compare) -> None:
        """Until cancelled; `guard` ties what is kept to this leadership."""
        self._leading = True
        self._untold = dict.fromkeys(job for job in self._view.entries if job in self._planner.cluster.waiting)
        kept_at = self._clock.monotonic()
        try:
            await self._read_once()
            while True:
                await self._clock.sleep(_LOOK_EVERY_S)
                await self.tell()
                if self._clock.monotonic() - kept_at >= _KEEP_EVERY_S:
                    kept_at = self._clock.monotonic()
                    await self._keep(guard)
        finally:
            self._leading = False
            self._planner.etas.forget()

    async def _read_once(self) -> None:
        try:
            await self._read()
        except StoreError as error:
            log.warning("predictions.delayed", error=str(error))

    async def tell(self) -> None:
        """Predicts the start of some jobs that came into the queue."""
        planner, now = self._planner, self._clock.wall()
        for number, job in enumerate(list(self._untold)[:_AT_ONCE], start=1):
            self._untold.pop(job, None)
            if number % _AT_A_TIME == 0:
                await breathe()
            wait = planner.wait_of(job)
            if wait is not None and wait.seconds < LONGEST_S:
                planner.etas.give(job, wait, now)

    async def _keep(self, guard: Compare) -> None:
        data = self._planner.etas.data
        if data == self._kept:
            return
        try:
            await self._store.txn([guard], [Put(keys.PREDICTIONS, msgspec.json.encode(data))])
            self._kept = data
        except StoreError as error:
            log.warning("predictions.delayed", error=str(error))

    def _on_delta(self, delta: Delta) -> None:
        if not self._leading:
            return
        for before, entry in delta.states:
            self._follow(before, entry.state)
        for state in delta.removed:
            self._gone(state.id)

    def _follow(self, before: JobState | None, state: JobState) -> None:
        if state.phase == "PENDING":
            if before is None or before.phase != "PENDING":
                self._untold[state.id] = None
        elif state.phase in BOUND and (before is None or before.phase not in BOUND):
            self._untold.pop(state.id, None)
            within = self._planner.etas.started(state.id, state.bound_at or self._clock.wall())
            if within is not None:
                self._telemetry.count("ares_eta_total", 1, "yes" if within else "no")
        elif state.phase not in BOUND:
            self._gone(state.id)

    def _gone(self, job_id: str) -> None:
        self._untold.pop(job_id, None)
        self._planner.etas.gone(job_id)


def _shown(model: TreeModel) -> ModelView:
    held_out = model.held_out
    return ModelView(
        source=model.source,
        trained_on=model.trained_on,
        trees=len(model.trees),
        held_out=held_out,
        used=held_out.better,
    )


def _interval(estimate: Estimate) -> Interval:
    return Interval(seconds=estimate.seconds, low=estimate.low, high=estimate.high, basis=estimate.basis)
