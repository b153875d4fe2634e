"""Simulated users: they submit, read, cancel and retry jobs over the same network as all components.

A client repeats a call without an answer under the same request id. Its calls and answers go into the history.
"""

import asyncio
import hashlib
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec

from ares.api.jobs import JobDetail
from ares.check.invariants.history import Answered, Asked, Verb, digest_of
from ares.control.flow.submission import AcceptedFlow, FlowRequest
from ares.control.replica import Replica
from ares.control.submit.submit import AcceptedJob, SubmitRequest
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.checkpoint import CheckpointKeep, CheckpointPolicy
from ares.model.job import (
    PRIORITIES,
    Gang,
    JobSpec,
    Need,
    NeedCondition,
    NeedsTimeout,
    Parent,
    Preemption,
    Resources,
    RetryPolicy,
)
from ares.model.state import JobState
from ares.ports.store import StoreError
from ares.sim.world.clocks import Chance
from ares.sim.world.data import SimFiles, SimulatedData
from ares.sim.world.loop import SimLoop, context_of
from ares.sim.world.network import Network
from ares.sim.world.plane import Plane
from ares.sim.world.record import WorldRecorder

T = TypeVar("T")

TIMEOUT_S = 6.0
# No call or transaction is under way for longer.
_LATE_S = 20.0
_SMALL = (
    Resources(cpu_milli=500, memory_mib=64),
    Resources(cpu_milli=1000, memory_mib=64),
    Resources(cpu_milli=500, memory_mib=64, gpus=1),
)
_LARGE = (Resources(cpu_milli=2000, memory_mib=64), Resources(cpu_milli=500, memory_mib=64, gpus=2))
_CHECKPOINTS = (CheckpointPolicy(), CheckpointPolicy(keep=CheckpointKeep(last=3)))
_RETRY = RetryPolicy(limit=2, base_s=0.3, max_s=2.0, class_limits={"node-lost": 100, "staging": 100})


class NoAnswer(Exception):
    """The outcome of the call is unknown."""


class LostAnswer:
    """The answer that did not come."""


class SimulatedCalls:
    """Carries calls to replicas, numbers and records them."""

    def __init__(self, loop: SimLoop, network: Network, recorder: WorldRecorder, chance: Chance) -> None:
        self._loop = loop
        self._network = network
        self._recorder = recorder
        self._chance = chance
        self._between = context_of("world")
        self._ops = 0

    def asked(self, client: str, tenant: str, verb: Verb, **details: str) -> int:
        self._ops += 1
        now = self._recorder.now()
        self._recorder.add(Asked(t=now, op=self._ops, client=client, verb=verb, tenant=tenant, **details))
        return self._ops

    def answered(self, answer: Answered) -> None:
        self._recorder.add(answer)

    def now(self) -> float:
        return self._recorder.now()

    async def call(self, client: str, plane: Plane, work: Callable[[Replica], Coroutine[Any, Any, T]]) -> T:
        """Raises NoAnswer, or what the replica raised."""
        answer: asyncio.Future[T] = self._loop.create_future()
        if not self._network.cut(client, plane.name) and not self._lost():
            self._loop.call_later(self._delay(), self._arrive, client, plane, work, answer, context=self._between)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await answer
        except TimeoutError:
            raise NoAnswer(f"{plane.name} did not answer") from None

    def _delay(self) -> float:
        if self._network.slow and self._chance(self._network.slow):
            return self._chance.between(0.1, self._network.slow_s)
        return self._network.delay_s * self._chance.random()

    def _lost(self) -> bool:
        return bool(self._network.breaking) and self._chance(self._network.breaking)

    def _arrive(
        self, client: str, plane: Plane, work: Callable[[Replica], Coroutine[Any, Any, T]], answer: "asyncio.Future[T]"
    ) -> None:
        if plane.replica is None or plane.sessions is None:
            _fail(answer, NoAnswer(f"{plane.name} cannot be reached"))
            return
        task = self._loop.spawn(plane.component, work(plane.replica))
        task.add_done_callback(lambda done: self._reply(client, plane, done, answer), context=self._between)

    def _reply(self, client: str, plane: Plane, done: "asyncio.Task[T]", answer: "asyncio.Future[T]") -> None:
        error = done.exception()
        if not self._network.cut(plane.name, client) and not self._lost():
            if error is None:
                self._loop.call_later(self._delay(), _give, answer, done.result(), context=self._between)
            else:
                self._loop.call_later(self._delay(), _fail, answer, error, context=self._between)


def _give(answer: "asyncio.Future[T]", value: T) -> None:
    if not answer.done():
        answer.set_result(value)


def _fail(answer: "asyncio.Future[Any]", error: BaseException) -> None:
    if not answer.done():
        answer.set_exception(error)


class SimulatedPerson:
    """One client, with one call under way at a time."""

    def __init__(
        self,
        name: str,
        tenant: str,
        calls: SimulatedCalls,
        planes: list[Plane],
        chance: Chance,
        runs_s: tuple[float, ...],
        needs: Chance | None = None,
        saves: Chance | None = None,
        data: tuple[SimFiles, Chance] | None = None,
    ) -> None:
        # Decides which jobs save checkpoints; None in worlds without such jobs.
        self._saves = saves
        # Decides which jobs wait for others; None in worlds without such jobs.
        self._needs = needs
        self._flow_requests = 0
        self._held: set[str] = set()
        self.name = name
        self._runs_s = runs_s
        self._who = Principal(token_id=f"token-{name}", tenant=tenant, role="submitter")
        # None in worlds without datasets.
        self.data = None if data is None else SimulatedData(data[0], self._who, data[1])
        self._calls = calls
        self.planes = planes
        self._chance = chance
        self._requests = 0
        self._pending: list[SubmitRequest] = []
        self.jobs: list[str] = []
        self.done = False

    # ---- actions

    async def live(self, deeds: int) -> None:
        """So many actions, with pauses; then repeats every call that has no answer yet."""
        for _ in range(deeds):
            await asyncio.sleep(self._chance.after(2.5))
            if self.data is not None and self.data.due:
                await self.data.publish(self.call)
            await self._deed()
            if self._needs is not None and self._needs(0.25):
                await (self._flow(self._needs) if self._needs(0.5) or not self.jobs else self._hold(self.jobs[-1]))
        while self._pending:
            await self._submit(self._pending.pop(0))
            await asyncio.sleep(0.2)
        for job in self.jobs:
            await self._result(job)
            await self._outputs(job)
        if self._held:
            # A hold without an answer may have come later than its release.
            await asyncio.sleep(_LATE_S)
        for job in sorted(self._held):
            await self._release(job)
        self.done = True

    async def _deed(self) -> None:
        draw = self._chance.random()
        if not self.jobs or draw < 0.45:
            await self._submit(self._request())
        elif draw < 0.60:
            await self.look(self._chance.pick(self.jobs))
        elif draw < 0.72:
            await self.cancel(self._chance.pick(self.jobs))
        elif draw < 0.84:
            await self._result(self._chance.pick(self.jobs))
        elif draw < 0.90:
            await self.retry(self._chance.pick(self.jobs))
        elif self._pending:
            await self._submit(self._pending.pop(0))
        else:
            await self.look(self.jobs[-1])

    def _request(self) -> SubmitRequest:
        self._requests += 1
        chance = self._chance
        gang = chance.pick((None, None, None, None, Gang(ranks=2, assembly_s=10.0), Gang(ranks=3, min_ranks=1)))
        spec = JobSpec(
            command=("work",),
            env={
                "RUNS_S": f"{chance.pick(self._runs_s)}",
                "CODES": chance.pick(_CODES),
                "FILES": chance.pick(("0", "0", "1", "2")),
            },
            resources=chance.pick(_SMALL if gang else _SMALL + _LARGE),
            gang=gang,
            array=None if gang else chance.pick((None, None, None, None, None, "0-2")),
            priority=chance.pick(PRIORITIES),
            retry=_RETRY,
            grace_s=chance.pick((0.0, 1.0)),
            effects=chance.pick(("staged", "staged", "staged", "staged", "unsafe")),
            preemption=chance.pick((Preemption(), Preemption(checkpoint_signal="SIGUSR2", wait_s=2.0))),
        )
        if self._saves is not None and self._saves(0.4):
            spec = msgspec.structs.replace(spec, checkpoint=self._saves.pick(_CHECKPOINTS))
        spec = spec if self.data is None else self.data.given(spec)
        if self._needs is not None and self.jobs and self._needs(0.5):
            spec = msgspec.structs.replace(spec, **self._waits(self._needs))
        return SubmitRequest(spec=spec, request_id=f"{self.name}-{self._requests}")

    # ---- jobs that wait for jobs

    def _waits(self, chance: Chance) -> dict[str, Any]:
        """Needs on jobs of this person's own."""
        parents = tuple(Parent(job=job) for job in chance.some(self.jobs, 3))
        on = chance.pick(_CONDITIONS)
        need = Need(of=parents, k=chance.pick((None, 1)), on=on) if chance(0.4) else Need(job=parents[0].job, on=on)
        patience = NeedsTimeout(after_s=chance.between(5.0, 20.0), then=chance.pick(("fail", "skip", "run")))
        return {
            "needs": (need,), "on_impossible": chance.pick(("skip", "skip", "fail", "run")),
            "needs_timeout": chance.pick((None, None, patience)),
        }  # fmt: skip

    async def _flow(self, chance: Chance) -> None:
        """A small workflow, sent again until it is answered. What is done by hand to it is not recorded as a call."""
        self._flow_requests += 1
        env = {"RUNS_S": "0.5", "CODES": chance.pick(_CODES)}
        job = JobSpec(command=("work",), env=env, resources=_SMALL[0], retry=_RETRY, grace_s=0.0)
        jobs = {"a": job, "b": msgspec.structs.replace(job, needs=(Need(job="a", on=chance.pick(_CONDITIONS)),))}
        jobs["c"] = msgspec.structs.replace(job, array="0-2", needs=(Need(job="a"),))
        jobs["d"] = msgspec.structs.replace(job, array="0-1", needs=(Need(job="c", each=True), Need(job="b", on="end")))
        jobs["last"] = msgspec.structs.replace(job, finally_=True)
        request = FlowRequest(jobs=jobs, request_id=f"{self.name}-flow-{self._flow_requests}")
        for _ in range(chance.pick((1, 5, 20))):
            if not isinstance(await self.submit_flow(request), LostAnswer):
                return
            await asyncio.sleep(0.5)

    async def submit_flow(self, request: FlowRequest) -> "AcceptedFlow | Refusal | LostAnswer":
        answer = await self.call(lambda replica: replica.workflows.submit(self._who, request))
        unknown = isinstance(answer, Refusal) and answer.code == "store-unavailable"
        return LostAnswer() if unknown else answer

    async def _hold(self, job: str) -> None:
        self._held.add(job)
        await self.call(lambda replica: replica.jobs.hold(self._who, job))
        await asyncio.sleep(1.0)
        await self._release(job)

    async def _release(self, job: str) -> None:
        while isinstance(await self.call(lambda replica: replica.jobs.release(self._who, job)), LostAnswer):
            await asyncio.sleep(0.5)

    # ---- calls

    async def _submit(self, request: SubmitRequest) -> None:
        answer = await self.send(request)
        if isinstance(answer, LostAnswer):
            self._pending.append(request)
        elif isinstance(answer, AcceptedJob):
            self.jobs.append(answer.job)
            if self._chance(0.1):
                # The same id with another payload, which must not become a job.
                other = msgspec.structs.replace(request.spec, name="another")
                await self.send(msgspec.structs.replace(request, spec=other))

    async def send(self, request: SubmitRequest) -> "AcceptedJob | Refusal | LostAnswer":
        payload = hashlib.sha256(msgspec.json.encode(request.spec)).hexdigest()[:12]
        op = self._calls.asked(self.name, self._who.tenant, "submit", request=request.request_id or "", payload=payload)
        outcome = await self.call(lambda replica: replica.submit.submit(self._who, [request]))
        answer = outcome if isinstance(outcome, LostAnswer) else outcome[0]
        if isinstance(answer, AcceptedJob):
            self._answer(op, "ok", job=answer.job, replayed=answer.replayed)
        elif isinstance(answer, Refusal) and answer.code != "store-unavailable":
            self._answer(op, "refused", code=answer.code)
        else:
            self._answer(op, "unknown")
            return LostAnswer()
        return answer

    async def look(self, job: str) -> None:
        op = self._calls.asked(self.name, self._who.tenant, "get", job=job)
        detail = await self.call(lambda replica: replica.jobs.get(self._who, job))
        if isinstance(detail, JobDetail):
            self._answer(op, "ok", job=job, **_shown(detail.state))
        else:
            self._nothing(op, job, detail)

    async def _result(self, job: str) -> None:
        op = self._calls.asked(self.name, self._who.tenant, "result", job=job)
        detail = await self.call(lambda replica: replica.jobs.get(self._who, job))
        if isinstance(detail, JobDetail):
            seen = {} if detail.result is None else {"": digest_of(detail.result.value)}
            self._answer(op, "ok", job=job, seen=seen, **_shown(detail.state))
        else:
            self._nothing(op, job, detail)

    async def cancel(self, job: str) -> None:
        op = self._calls.asked(self.name, self._who.tenant, "cancel", job=job)
        self._steered(op, job, await self.call(lambda replica: replica.jobs.cancel(self._who, job)))

    async def retry(self, job: str, request: str = "") -> "JobState | Refusal | LostAnswer | None":
        op = self._calls.asked(self.name, self._who.tenant, "retry", job=job, request=request)
        outcome = await self.call(lambda replica: replica.jobs.retry(self._who, job, "", request))
        self._steered(op, job, outcome)
        return outcome

    async def _outputs(self, job: str) -> None:
        """Reads every file that is shown: what counts are the bytes."""
        op = self._calls.asked(self.name, self._who.tenant, "outputs", job=job)
        seen = await self.call(lambda replica: _read_all(replica, self._who, job))
        if isinstance(seen, dict):
            self._answer(op, "ok", job=job, seen=seen)
        else:
            self._nothing(op, job, seen)

    def _steered(self, op: int, job: str, outcome: JobState | Refusal | LostAnswer | None) -> None:
        match outcome:
            case JobState():
                self._answer(op, "ok", job=outcome.id, **_shown(outcome))
                if outcome.id not in self.jobs:
                    self.jobs.append(outcome.id)
            case Refusal() if outcome.code != "store-unavailable":
                self._answer(op, "refused", job=job, code=outcome.code)
            case None:
                self._answer(op, "refused", job=job, code="not-found")
            case _:
                self._answer(op, "unknown", job=job)

    def _nothing(self, op: int, job: str, outcome: "LostAnswer | None") -> None:
        if outcome is None:
            self._answer(op, "refused", job=job, code="not-found")
        else:
            self._answer(op, "unknown", job=job)

    async def call(self, work: Callable[[Replica], Coroutine[Any, Any, T]]) -> "T | LostAnswer":
        try:
            return await self._calls.call(self.name, self._chance.pick(self.planes), work)
        except (NoAnswer, StoreError):
            return LostAnswer()

    def _answer(self, op: int, outcome: Any, **details: Any) -> None:
        self._calls.answered(Answered(t=self._calls.now(), op=op, outcome=outcome, **details))


async def _read_all(replica: Replica, who: Principal, job: str) -> dict[str, str] | None:
    found = await replica.outputs.list(who, job)
    if found is None:
        return None
    seen: dict[str, str] = {}
    for file in found.files:
        opened = await replica.outputs.open(who, job, file.path)
        data = b"" if opened is None else await opened.read(0, file.size + 1)
        seen[file.path] = hashlib.sha256(data).hexdigest()
    return seen


def _shown(state: JobState) -> dict[str, Any]:
    """What the client is shown of a job. Of an array nothing: its phase follows from its tasks, which come and go."""
    return {"phase": state.phase, "seq": state.seq} if state.seq else {}


_CODES = ("0", "0", "0", "1 0", "1 1 0", "1")
_CONDITIONS: tuple[NeedCondition, ...] = ("success", "success", "failure", "end", "start")
