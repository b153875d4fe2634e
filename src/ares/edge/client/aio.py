"""The async client. The blocking one, sync.py, is written from this file by scripts/sync_client.py."""

import asyncio
import builtins
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import httpx2

from ares.api.deadlines import SlaBy, SlaView
from ares.api.decisions import Explanation, PlanAnswer, PrioRow, ReplayAnswer, RouteSeen
from ares.api.jobs import CheckpointList, JobDetail, LogLine, LogStream, OutputList, StreamedEvent, StreamedLog
from ares.api.pools import PoolView
from ares.api.predictions import JobPrediction, ModelView, PredictionReport
from ares.api.reservations import ReservationView
from ares.api.telemetry.traces import JobTrace
from ares.edge.client.addresses import Addresses
from ares.edge.client.ask import JobFields
from ares.edge.client.calls import calls, operator, predictions
from ares.edge.client.calls import reservations as booking_calls
from ares.edge.client.calls.alerts import AsyncAlertMethods
from ares.edge.client.calls.answers import JobRef, RefusedJob, Submitted, job_id
from ares.edge.client.calls.audit import AsyncAuditMethods
from ares.edge.client.calls.calls import Call, Reply
from ares.edge.client.calls.costs import AsyncCostMethods
from ares.edge.client.calls.crons import AsyncCronMethods
from ares.edge.client.calls.datasets import AsyncDatasetMethods
from ares.edge.client.calls.flows import AsyncFlowMethods
from ares.edge.client.calls.identity import AsyncIdentityMethods
from ares.edge.client.calls.job_sessions import AsyncJobSessionMethods
from ares.edge.client.calls.operator import AsyncMachineMethods
from ares.edge.client.calls.policies import AsyncPolicyMethods
from ares.edge.client.calls.projects import AsyncProjectMethods
from ares.edge.client.calls.quotas import AsyncQuotaMethods
from ares.edge.client.calls.reports import AsyncReportMethods
from ares.edge.client.calls.secrets import AsyncSecretMethods
from ares.edge.client.calls.steering import AsyncSteeringMethods
from ares.edge.client.flows import Flows
from ares.edge.client.http import broken, connection_options, request_options, spec_of, stream_options
from ares.edge.client.logs import LogWish, OnAttempt, follow_logs, search_logs
from ares.edge.client.outputs import OnProgress, Saving, checkpoint_listing, chosen, fetch, listing
from ares.edge.client.retry import DEFAULT_RETRY, Retry
from ares.edge.client.settings import Endpoint, discover
from ares.edge.client.steps import Broken, Close, Emit, Flow, Now, Open, Pause, Read, Send, Step
from ares.edge.client.units import moment
from ares.model.job import JobSpec
from ares.model.state import JobState, LedgerEvent, Phase

T = TypeVar("T")


class AsyncClient(
    AsyncAlertMethods,
    AsyncAuditMethods,
    AsyncCostMethods,
    AsyncCronMethods,
    AsyncDatasetMethods,
    AsyncIdentityMethods,
    AsyncJobSessionMethods,
    AsyncMachineMethods,
    AsyncPolicyMethods,
    AsyncProjectMethods,
    AsyncQuotaMethods,
    AsyncReportMethods,
    AsyncSecretMethods,
    AsyncSteeringMethods,
    AsyncFlowMethods,
):
    """Talks to Ares, by whichever of its replicas answers, from one event loop. Close it, or use `async with`."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        retry: Retry = DEFAULT_RETRY,
        timeout_s: float = 30.0,
        tenant: str | None = None,
        break_glass: str | None = None,
        endpoint: Endpoint | None = None,
    ) -> None:
        """`tenant` is one to act in, for roles that may; `break_glass` says why. `endpoint`: that of another client."""
        self.endpoint = endpoint or discover(url, token, tenant=tenant, break_glass=break_glass)
        self._flows = Flows(Addresses(self.endpoint.urls), self.endpoint.url_from, retry)
        self._http = httpx2.AsyncClient(**connection_options(self.endpoint, timeout_s))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes all connections."""
        await self._http.aclose()

    async def send(self, call: Call[T]) -> T:
        """Sends any call of `ares.edge.client.calls.calls`."""
        return await self._run(self._flows.exchange(call))

    # ---- jobs

    async def submit(
        self, spec: JobSpec | None = None, *, request_id: str | None = None, **ask: Unpack[JobFields]
    ) -> Submitted:
        """Submits a job: a spec as it is, or keyword arguments such as command=[...], gpus=2, memory="4G", with the
        files of `workdir`, which is the current directory unless it is named."""
        whole = await self._with_files(spec, spec_of(spec, ask), {**ask})
        return await self.send(calls.submit(whole, request_id or calls.new_request_id()))

    async def submit_many(self, specs: Iterable[JobSpec]) -> tuple[Submitted | RefusedJob, ...]:
        """Submits many jobs in few requests; one answer per job, in order."""
        return await self._run(self._flows.submit_many([(spec, calls.new_request_id()) for spec in specs]))

    async def get(self, job: JobRef) -> JobDetail:
        """Everything about one job."""
        return await self.send(calls.job(job_id(job)))

    def list(
        self,
        *,
        phase: Iterable[Phase] = (),
        name: str | None = None,
        label: Mapping[str, str] | None = None,
        array: str | None = None,
        node: str | None = None,
        user: str | None = None,
        since: str | float | None = None,
        until: str | float | None = None,
        sort: str = "-submitted",
        page: int = 100,
    ) -> AsyncIterator[JobState]:
        """Jobs, newest first, page by page as you go on. `since` and `until`: when they were submitted, as "2h" for two
        hours ago, "2026-12-01", "18:00", or seconds since the epoch."""
        filters = calls.job_filters(
            phase=phase, name=name, label=label, array=array, node=node, sort=sort, limit=page, user=user,
            since=moment(since, time.time()), until=moment(until, time.time()),
        )  # fmt: skip
        return self._iterate(self._flows.pages(filters))

    async def cancel(self, job: JobRef, reason: str = "") -> JobState:
        """Ends a job for good."""
        return await self.send(calls.cancel(job_id(job), reason))

    async def hold(self, job: JobRef, reason: str = "") -> JobState:
        """Keeps a job that has not begun from being started, until it is released."""
        return await self.send(calls.hold(job_id(job), reason))

    async def release(self, job: JobRef, reason: str = "") -> JobState:
        """Lets a held job go on."""
        return await self.send(calls.release(job_id(job), reason))

    async def retry(self, job: JobRef, reason: str = "", *, request_id: str | None = None) -> JobState:
        """Runs a job again: skips its backoff, or makes a new job of a finished one. Returns the job to look at; under
        the same request id always the same."""
        return await self.send(calls.retry(job_id(job), reason, request_id or calls.new_request_id()))

    async def wait(self, job: JobRef, timeout: float | None = None) -> JobDetail:
        """Blocks until the job has ended. Raises WaitTimeout when that takes longer than `timeout` seconds."""
        flow = self._flows.watch(job_id(job), timeout, only_end=True)
        return await anext(self._iterate(flow))

    def watch(self, job: JobRef, timeout: float | None = None) -> AsyncIterator[JobDetail]:
        """The job at each of its changes, the last being its end."""
        return self._iterate(self._flows.watch(job_id(job), timeout, only_end=False))

    def logs(
        self,
        job: JobRef,
        *,
        follow: bool = False,
        tail: int | None = None,
        attempt: int | None = None,
        rank: int = 0,
        since: str | float | None = None,
        stream: LogStream | None = None,
        on_attempt: OnAttempt | None = None,
    ) -> AsyncIterator[bytes]:
        """The job's output in pieces; with `follow`, until the job has ended. `since`: as in `list`, to the minute.
        `stream`: only what was written to "stdout" or to "stderr".

        `on_attempt` is called with the number of each further attempt, ahead of its output.
        """
        wish = LogWish(follow, tail, attempt, rank, moment(since, time.time()), stream)
        return self._iterate(follow_logs(self._flows, job_id(job), wish, on_attempt))

    def log_pieces(self, job: JobRef, wish: LogWish, on_attempt: OnAttempt | None = None) -> AsyncIterator[StreamedLog]:
        """The same, as pieces that say where they begin and what of them was written to stderr."""
        return self._iterate(follow_logs(self._flows, job_id(job), replace(wish, pieces=True), on_attempt))

    def search_logs(
        self, job: JobRef, text: str, *, attempt: int | None = None, rank: int = 0, stream: LogStream | None = None
    ) -> AsyncIterator[LogLine]:
        """Lines of the job's output that contain `text`; the server looks for them."""
        return self._iterate(search_logs(self._flows, job_id(job), text, attempt, rank, stream))

    async def outputs(self, job: JobRef) -> OutputList:
        """The files of the job's committed result."""
        return await self.send(listing(job_id(job)))

    async def checkpoints(self, job: JobRef) -> CheckpointList:
        """The job's checkpoints that are kept, the newest first."""
        return await self.send(checkpoint_listing(job_id(job)))

    def output(self, job: JobRef, path: str) -> AsyncIterator[bytes]:
        """A file's bytes in pieces. Raises DamagedOutput at the end if they are not those that were committed."""
        return self._iterate(fetch(self._flows, job_id(job), path))

    async def download(
        self, job: JobRef, directory: str | Path, paths: Sequence[str] = (), *, on_progress: OnProgress | None = None
    ) -> tuple[Path, ...]:
        """Saves files below a directory, all or those named: each whole and as it was committed, or not at all."""
        saved = builtins.list[Path]()
        for file in chosen(await self.outputs(job), paths):
            with Saving(Path(directory), file, on_progress) as saving:
                async for piece in self.output(job, file.path):
                    saving.write(piece)
            saved.append(saving.path)
        return tuple(saved)

    async def job_events(self, job: JobRef) -> tuple[LedgerEvent, ...]:
        """What happened to a job so far."""
        return await self.send(calls.job_events(job_id(job)))

    def events(self, cursor: str = "", job: JobRef | None = None) -> AsyncIterator[StreamedEvent]:
        """Events as they happen, without end. `cursor` resumes after an earlier one; "0" starts at the oldest kept."""
        return self._iterate(self._flows.events(cursor, None if job is None else job_id(job)))

    # ---- decisions

    async def explain(self, job: JobRef) -> Explanation:
        """Why a job waits, where it stands, and the smallest change that would start it."""
        return await self.send(predictions.explain(job_id(job)))

    async def route(self, job: JobRef) -> RouteSeen:
        """Which cluster of a federation a job goes to, and by which terms."""
        return await self.send(predictions.route(job_id(job)))

    async def trace(self, job: JobRef) -> JobTrace:
        """The job's way as spans: what it waited for, where it ran, and what still lasts."""
        return await self.send(predictions.trace(job_id(job)))

    async def plan(self, spec: JobSpec | None = None, **ask: Unpack[JobFields]) -> PlanAnswer:
        """What would happen if this were submitted now. Changes nothing."""
        return await self.send(predictions.plan(spec_of(spec, ask)))

    async def predict(self, spec: JobSpec | None = None, **ask: Unpack[JobFields]) -> JobPrediction:
        """How long this would run and when it would start, were it submitted now. Changes nothing."""
        return await self.send(predictions.job(spec_of(spec, ask)))

    async def prediction_report(self) -> PredictionReport:
        """How good predictions of run times and starts have been."""
        return await self.send(predictions.report())

    async def install_model(self, model: bytes) -> ModelView:
        """A model of run times that `ares predict train` wrote; used if it was better than like jobs' runs."""
        return await self.send(predictions.install(model))

    async def remove_model(self) -> None:
        """Like jobs' runs count again."""
        await self.send(predictions.remove())

    async def sla(self, by: SlaBy = "class", since_s: float | None = None) -> tuple[SlaView, ...]:
        """Classes of service, and how many jobs met their deadline."""
        return await self.send(predictions.sla(by, since_s))

    async def prio(self, limit: int = 100) -> tuple[PrioRow, ...]:
        """Waiting jobs, the first to be placed first, with the factors of each rank."""
        return await self.send(predictions.prio(limit))

    async def preemptions(self, job: JobRef) -> tuple[LedgerEvent, ...]:
        """When others displaced the job, or it displaced others, and why."""
        return await self.send(predictions.preemptions(job_id(job)))

    async def replay(self, decision: str, weights: Mapping[str, float]) -> ReplayAnswer:
        """A decision, by its name or the job's, made again with some weights changed. Changes nothing."""
        return await self.send(predictions.replay(decision, weights))

    # ---- reservations

    async def reserve(self, **booking: Unpack[booking_calls.Booking]) -> ReservationView:
        """Books room: gpus=64, start="+2h", length="4h", tenant="alpha"."""
        return await self.send(booking_calls.reserve(**booking))

    async def reservations(self, *, over: bool = False) -> tuple[ReservationView, ...]:
        """Room that is booked, by start; with `over` also what is past."""
        return await self.send(booking_calls.reservations(over=over))

    async def reservation(self, name: str) -> ReservationView:
        """One reservation."""
        return await self.send(booking_calls.reservation(name))

    async def extend_reservation(self, name: str, more: str | float) -> ReservationView:
        """Lets it last longer: more="2h"."""
        return await self.send(booking_calls.extend(name, more))

    async def cancel_reservation(self, name: str, reason: str = "") -> ReservationView:
        """Gives its room back."""
        return await self.send(booking_calls.cancel(name, reason))

    # ---- pools

    async def pools(self, **shape: Any) -> tuple[PoolView, ...]:
        """The pools of machines. With gpus=8, ranks=4, runtime="2h" or the like: when such a job would start there."""
        return await self.send(operator.pools(operator.pool_shape(**shape)))

    async def pool(self, name: str, **shape: Any) -> PoolView:
        """One pool."""
        return await self.send(operator.pool(name, operator.pool_shape(**shape)))

    # ---- transport

    async def _run(self, flow: Flow[T]) -> T:
        exchange = AsyncExchange(self._http)
        try:
            answer: Any = None
            while True:
                answer = await exchange.do(flow.send(answer))
        except StopIteration as end:
            return end.value
        finally:
            await exchange.close()

    async def _iterate(self, flow: Flow[None]) -> AsyncIterator[Any]:
        exchange = AsyncExchange(self._http)
        try:
            answer: Any = None
            while True:
                step = flow.send(answer)
                if isinstance(step, Emit):
                    answer = None
                    yield step.value
                else:
                    answer = await exchange.do(step)
        except StopIteration:
            return
        finally:
            await exchange.close()


class AsyncExchange:
    """One flow's use of the connection pool: at most one answer is left open."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http
        self._open: httpx2.Response | None = None
        self._chunks: AsyncIterator[bytes] | None = None

    async def close(self) -> None:
        if self._open is not None:
            await self._open.aclose()
            self._open = None

    async def do(self, step: Step) -> Any:
        match step:
            case Send(request, to):
                return await self._send(**request_options(request, to))
            case Open(request, to, silence_s):
                return await self._stream(**stream_options(request, to, silence_s))
            case Read():
                return await self._read()
            case Pause(seconds):
                return await asyncio.sleep(seconds)
            case Now():
                return time.monotonic()
            case Close() | Emit():
                return await self.close()

    async def _send(self, **options: Any) -> Reply | Broken:
        try:
            response = await self._http.request(**options)
        except httpx2.RequestError as error:
            return broken(error)
        return Reply(response.status_code, response.headers, response.content)

    async def _stream(self, **options: Any) -> Reply | Broken:
        await self.close()
        try:
            response = await self._http.send(self._http.build_request(**options), stream=True)
            if response.status_code >= 400:
                body = await response.aread()
                return Reply(response.status_code, response.headers, body)
        except httpx2.RequestError as error:
            return broken(error)
        self._open, self._chunks = response, response.aiter_bytes()
        return Reply(response.status_code, response.headers)

    async def _read(self) -> bytes | Broken:
        try:
            return b"" if self._chunks is None else await anext(self._chunks, b"")
        except httpx2.ReadTimeout:
            return Broken("silent", "the stream went quiet")
        except httpx2.RequestError as error:
            return broken(error)
