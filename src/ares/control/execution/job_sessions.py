"""Sessions in running jobs: opened, listed and attached to through the replica that holds the node's stream."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Final

import structlog

from ares.control.execution.aside import NodeAside, SessionClient
from ares.control.execution.commands import attempt_of, grants
from ares.control.execution.enrolment import SessionRefused
from ares.control.execution.session import AgentSession
from ares.control.state.view import View
from ares.core.access.table import reaches
from ares.core.lifecycle.ranks import place_of
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.job_session import (
    AttemptUse,
    EndSession,
    ListSessions,
    MeasureUse,
    OpenSession,
    SessionId,
    SessionSpec,
    SessionView,
    SideCommand,
    SideHello,
    SideMessage,
)
from ares.model.link import AttemptRef, OpenAside
from ares.model.state import TERMINAL, JobState
from ares.ports.clock import Rng

log = structlog.get_logger()

# How long an agent may take to open its stream for sessions.
_COME_S: Final = 10.0
_MEASURED_MAX: Final = 1000


class JobSessions:
    """One for a replica. `agents` are those that are connected to it."""

    def __init__(self, view: View, agents: Mapping[str, AgentSession], rng: Rng) -> None:
        self._view = view
        self._agents = agents
        self._rng = rng
        self._asides: dict[str, NodeAside] = {}
        # Streams that agents were asked for, by their keys, and by node and incarnation.
        self._awaited: dict[str, tuple[tuple[str, int], asyncio.Future[NodeAside]]] = {}
        self._coming: dict[tuple[str, int], asyncio.Future[NodeAside]] = {}

    # ---- what clients ask for

    async def open(
        self, who: Principal, job_id: str, session_id: SessionId, spec: SessionSpec
    ) -> SessionView | Refusal | None:
        """Asking again with the same id gives the same session."""
        if flaw := _flaw(spec):
            return Refusal(code="invalid", message=flaw)
        found = await self._found(who, job_id, spec.rank)
        if not isinstance(found, tuple):
            return found
        ref, aside = found
        answer = await aside.call(lambda call: OpenSession(call=call, id=session_id, ref=ref, spec=spec))
        if isinstance(answer, Refusal):
            return answer
        if answer.refused or not answer.sessions:
            return Refusal(code="session-refused", message=answer.refused)
        return answer.sessions[0]

    async def list(self, who: Principal, job_id: str) -> tuple[SessionView, ...] | Refusal | None:
        state = await self._state(who, job_id)
        if not isinstance(state, JobState):
            return state
        views = list[SessionView]()
        for node in dict.fromkeys(place.node for place in state.placements):
            aside = await self._aside(node)
            if isinstance(aside, Refusal):
                return aside
            ref = attempt_of(state)
            answer = await aside.call(lambda call, ref=ref: ListSessions(call=call, ref=ref))
            if isinstance(answer, Refusal):
                return answer
            views += answer.sessions
        return tuple(views)

    async def end(self, who: Principal, job_id: str, session_id: SessionId, rank: int) -> SessionId | Refusal | None:
        found = await self._found(who, job_id, rank)
        if not isinstance(found, tuple):
            return found
        ref, aside = found
        answer = await aside.call(lambda call: EndSession(call=call, id=session_id, ref=ref))
        if isinstance(answer, Refusal):
            return answer
        return None if answer.refused else session_id

    async def attach(
        self, who: Principal, job_id: str, session_id: SessionId, rank: int, offset: int
    ) -> SessionClient | Refusal | None:
        found = await self._found(who, job_id, rank)
        if not isinstance(found, tuple):
            return found
        ref, aside = found
        return await aside.attach(ref, session_id, offset)

    def granted(self, client: SessionClient) -> bool:
        """Whether the attempt that its session is in is still the current one."""
        entry = None if client.place is None else self._view.entries.get(client.place[0].job)
        return entry is not None and client.place is not None and grants(entry.state, *client.place)

    # ---- live use

    async def measure(self, states: "list[JobState]") -> tuple[tuple[AttemptUse, ...], tuple[str, ...]]:
        """What running jobs use now, and the nodes that could not be asked: they are connected elsewhere, or silent."""
        by_node: dict[str, list[tuple[AttemptRef, int]]] = {}
        for state in states:
            for place in state.placements:
                by_node.setdefault(place.node, []).append((attempt_of(state), place.rank))
        answers = await asyncio.gather(*(self._measured(node, held) for node, held in by_node.items()))
        uses = [use for answer in answers if not isinstance(answer, str) for use in answer]
        return tuple(uses), tuple(answer for answer in answers if isinstance(answer, str))

    async def _measured(self, node: str, held: "list[tuple[AttemptRef, int]]") -> tuple[AttemptUse, ...] | str:
        aside = await self._aside(node)
        if isinstance(aside, Refusal):
            return node
        some = tuple(dict.fromkeys(ref for ref, _ in held))[:_MEASURED_MAX]
        answer = await aside.call(lambda call: MeasureUse(call=call, refs=some))
        if isinstance(answer, Refusal):
            return node
        # An agent speaks for the ranks on its node, once for each, and for nothing else.
        heard = {(use.ref, use.rank): use for use in answer.uses}
        return tuple(heard[rank] for rank in dict.fromkeys(held) if rank in heard and rank[0] in some)

    # ---- finding the node

    async def _state(self, who: Principal, job_id: str) -> JobState | Refusal | None:
        await self._view.catch_up()
        array = self._view.arrays.get(job_id)
        if array is not None and array.tenant == who.tenant:
            return Refusal(code="not-allowed", message=f"{job_id} is an array; name a task, such as {job_id}_0")
        entry = self._view.entries.get(job_id)
        if entry is None or entry.state.tenant != who.tenant:
            return None
        state = entry.state
        if not reaches(who, "jobs:exec", state.tenant, state.submitted_by, state.submitter_id):
            return Refusal(
                code="not-yours", message=f"job {job_id} is of {state.submitted_by}; you may enter only your own"
            )
        if state.phase in TERMINAL:
            return Refusal(code="terminal", message=f"job {job_id} is {state.phase}; there is nothing to enter")
        if state.phase != "RUNNING":
            return Refusal(
                code="not-allowed",
                message=f"job {job_id} is {state.phase}, not RUNNING",
                fix=f"wait until it runs; `ares explain {job_id}` says what it waits for",
            )
        return state

    async def _found(self, who: Principal, job_id: str, rank: int) -> tuple[AttemptRef, NodeAside] | Refusal | None:
        state = await self._state(who, job_id)
        if not isinstance(state, JobState):
            return state
        place = place_of(state.placements, rank)
        if place is None or rank in state.ended_ranks:
            ranks = ", ".join(str(each.rank) for each in state.placements[:8] if each.rank not in state.ended_ranks)
            return Refusal(code="not-allowed", message=f"job {job_id} has no rank {rank} that runs; it has {ranks}")
        agent = self._agents.get(place.node)
        if agent is not None and agent.incarnation != place.incarnation:
            return Refusal(code="node-silent", message=f"node {place.node} was started anew; the job is being moved")
        aside = await self._aside(place.node)
        return aside if isinstance(aside, Refusal) else (attempt_of(state), aside)

    async def _aside(self, node: str) -> NodeAside | Refusal:
        """The node's stream for sessions; the agent is asked to open it if it has not."""
        agent = self._agents.get(node)
        if agent is None:
            lease = self._view.leases.get(node)
            at = "" if lease is None or not lease.lease.replica else f", but to replica {lease.lease.replica}"
            return Refusal(
                code="node-elsewhere", message=f"node {node} is not connected to this replica{at}", retry_after_s=1.0
            )
        aside = self._asides.get(node)
        if aside is not None and aside.incarnation == agent.incarnation:
            return aside
        if aside is not None:
            # Of an agent that was killed: that its stream broke is heard later, by a silence.
            aside.close()
        if not agent.enterable:
            return Refusal(
                code="session-refused", message=f"the agent of node {node} is of a version that opens no sessions"
            )
        asked = (node, agent.incarnation)
        coming = self._coming.get(asked)
        if coming is None:
            coming = self._coming[asked] = asyncio.get_running_loop().create_future()
            key = self._rng.token(16).hex()
            self._awaited[key] = (asked, coming)
            agent.send(OpenAside(key=key))
            self._clock_out(asked, key, coming)
        try:
            return await asyncio.shield(coming)
        except TimeoutError:
            return Refusal(code="node-silent", message=f"node {node} did not open a stream within {_COME_S:g} s")

    def _clock_out(self, asked: tuple[str, int], key: str, coming: "asyncio.Future[NodeAside]") -> None:
        def late() -> None:
            self._awaited.pop(key, None)
            self._coming.pop(asked, None)
            if not coming.done():
                coming.set_exception(TimeoutError())

        timer = asyncio.get_running_loop().call_later(_COME_S, late)
        coming.add_done_callback(lambda _: timer.cancel())

    # ---- agents' streams

    async def serve(self, who: Principal, messages: AsyncIterator[SideMessage]) -> AsyncGenerator[SideCommand, None]:
        """An agent's stream for sessions, from its hello until either side ends it."""
        hello = await anext(messages, None)
        if not isinstance(hello, SideHello) or hello.node != who.node:
            raise SessionRefused("the first message must be the hello of this very node", "not_granted")
        (node, incarnation), coming = self._awaited.pop(hello.key, (("", 0), None))
        if coming is None or node != who.node or coming.done():
            raise SessionRefused("no stream for sessions was asked for with this key", "not_granted")
        aside = NodeAside(node, incarnation)
        older = self._asides.pop(node, None)
        if older is not None:
            older.close()
        self._asides[node] = aside
        self._coming.pop((node, incarnation), None)
        coming.set_result(aside)
        reading = asyncio.create_task(_read(aside, messages))
        reading.add_done_callback(lambda _: aside.close())
        try:
            async for command in aside.outgoing():
                yield command
        finally:
            reading.cancel()
            aside.close()
            if self._asides.get(node) is aside:
                del self._asides[node]
            await asyncio.gather(reading, return_exceptions=True)
        if not reading.cancelled() and (error := reading.exception()) is not None:
            raise error


async def _read(aside: NodeAside, messages: AsyncIterator[SideMessage]) -> None:
    async for message in messages:
        if not aside.take(message):
            raise SessionRefused("the agent sends for sessions that no client is attached to", "malformed")


def _flaw(spec: SessionSpec) -> str:
    if spec.kind == "exec" and not spec.command:
        return "a command is needed"
    if spec.kind == "forward" and not spec.port:
        return "a port is needed"
    if spec.kind in ("copy-in", "copy-out") and not spec.path:
        return "a path is needed"
    return "only a command has a terminal" if spec.tty and spec.kind != "exec" else ""
