"""Both ends of the agent link over a real socket."""

import asyncio
import contextlib
import socket
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator

import pytest

from ares.adapters.clocks import SystemClock, SystemRng
from ares.adapters.links.grpc import GrpcLink, spread
from ares.adapters.store.memory import MemoryStore
from ares.adapters.telemetry.prometheus import PrometheusTelemetry
from ares.control.access.machines import MachineAuthority
from ares.control.execution.enrolment import SessionRefused
from ares.control.execution.job_sessions import JobSessions
from ares.control.execution.staging import Staging
from ares.control.governance.audit import Audit
from ares.control.state.view import View
from ares.core.access.tokens import denied
from ares.core.refusal import Refusal
from ares.edge.grpc.agents import AgentServer
from ares.model.access import Principal
from ares.model.job_session import ChildAnswer, ChildCall
from ares.model.link import (
    AgentFrame,
    AttemptRef,
    Hello,
    JoinReply,
    JoinRequest,
    LogAck,
    LogChunk,
    Renew,
    Renewed,
    ServerFrame,
    Welcome,
)
from ares.model.node import NodeInfo
from ares.model.state import Fence
from ares.model.telemetry.log_stream import LogAcks, LogFrame, LogHello, LogMessage
from ares.ports.link import LinkBroken, LinkRefused
from ares.sim.chaos.proxy import Proxy

NODE = Principal(token_id="a", tenant="t", role="node", node="n1")
HELLO = Hello(info=NodeInfo(name="n1", cpu_milli=1, memory_mib=1))


class FakeTokens:
    async def authenticate(self, presented: str) -> Principal | Refusal:
        known = {"good": NODE, "person": Principal(token_id="b", tenant="t", role="admin")}
        return known.get(presented) or denied("revoked" if presented == "old" else "unknown")


class FakeSessions:
    """Welcomes, then echoes the nonces of renewals; ends when a frame says so."""

    def __init__(self) -> None:
        self.frames: list[AgentFrame] = []
        self.ended = asyncio.Event()

    async def join(self, request: JoinRequest) -> JoinReply | Refusal:
        if request.token != "join-me":
            return denied("expired")
        return JoinReply(node=request.node, credential="good")

    async def serve(self, who: Principal, frames: AsyncIterator[AgentFrame]) -> AsyncGenerator[ServerFrame, None]:
        try:
            async for frame in frames:
                self.frames.append(frame)
                for message in frame.messages:
                    if isinstance(message, Hello):
                        if message.incarnation == 99:
                            raise SessionRefused("incarnation 99 was superseded")
                        yield ServerFrame(messages=(Welcome(incarnation=1, store_epoch=1),))
                    elif isinstance(message, Renew):
                        yield ServerFrame(messages=(Renewed(nonce=message.nonce),))
        finally:
            self.ended.set()


class FakeChildren:
    """Answers with what it was asked."""

    async def submit(self, node: Principal, call: ChildCall) -> ChildAnswer:
        return ChildAnswer(job=f"{node.node} {call.call} {call.spec.decode()}")


class EchoLogs:
    """Acknowledges what it is sent."""

    async def serve(self, who: Principal, messages: AsyncIterator[LogMessage]) -> AsyncGenerator[LogAcks, None]:
        hello = await anext(messages)
        if hello != LogHello(node=who.node or "", number=7):
            raise SessionRefused("of another session")
        async for message in messages:
            assert isinstance(message, LogFrame)
            yield LogAcks(
                acks=tuple(
                    LogAck(ref=chunk.ref, rank=chunk.rank, offset=chunk.offset + len(chunk.data))
                    for chunk in message.chunks
                )
            )


def _server(sessions: FakeSessions, logs: EchoLogs | None = None) -> AgentServer:
    clock, telemetry = SystemClock(), PrometheusTelemetry(SystemRng())
    view = View(store := MemoryStore(clock), clock)
    machines = MachineAuthority(store, view, clock, None)
    staging, asides = Staging(view, None, telemetry), JobSessions(view, {}, SystemRng())
    children = FakeChildren()
    return AgentServer(
        sessions, staging, asides, children, FakeTokens(), machines, Audit(None, clock, telemetry), telemetry,
        logs=logs,
    )  # fmt: skip


async def test_output_goes_by_a_connection_of_its_own(sessions: FakeSessions) -> None:
    server = _server(sessions, EchoLogs())
    session = await GrpcLink([f"127.0.0.1:{await server.start('127.0.0.1', 0)}"]).connect("good")
    chunk = LogChunk(
        ref=AttemptRef(job="j", tenant="t", fence=Fence(counter=2)), rank=0, attempt=1, offset=3, data=bytes(300_000)
    )
    line, other = await session.log_line(), await session.log_line()
    await line.send(LogHello(node="n1", number=7))
    answers = line.acks()
    for _ in range(20):
        await line.send(LogFrame(chunks=(chunk, chunk)))
        assert await anext(answers) == LogAcks(acks=(LogAck(ref=chunk.ref, rank=0, offset=300_003),) * 2)
    assert sessions.frames == [], "it went by the session"
    await other.send(LogHello(node="n1", number=8))
    with pytest.raises(LinkRefused, match="of another session"):
        await anext(other.acks())
    for stream in (line, other, session):
        await stream.close()
    await server.stop(0.0)


@pytest.mark.parametrize(("credential", "why"), [("old", "revoked"), ("nonsense", "unknown"), ("person", "admin")])
async def test_no_other_credential_opens_a_stream_for_output(credential: str, why: str) -> None:
    server = _server(FakeSessions(), EchoLogs())
    session = await GrpcLink([f"127.0.0.1:{await server.start('127.0.0.1', 0)}"]).connect(credential)
    line = await session.log_line()
    with contextlib.suppress(LinkRefused):
        await line.send(LogHello(node="n1", number=7))
    with pytest.raises(LinkRefused, match=why):
        await anext(line.acks())
    await line.close()
    await session.close()
    await server.stop(0.0)


async def test_a_control_plane_without_such_a_stream_says_so(address: str) -> None:
    session = await GrpcLink([address]).connect("good")
    line = await session.log_line()
    # The stream may be refused before or after its first message is written.
    with contextlib.suppress(LinkRefused):
        await line.send(LogHello(node="n1", number=7))
    with pytest.raises(LinkRefused):
        await anext(line.acks())
    await line.close()
    await session.close()


@pytest.fixture
def sessions() -> FakeSessions:
    return FakeSessions()


@pytest.fixture
async def address(sessions: FakeSessions) -> AsyncIterator[str]:
    server = _server(sessions)
    port = await server.start("127.0.0.1", 0)
    yield f"127.0.0.1:{port}"
    await server.stop(0.0)


async def test_join_trades_a_token(address: str) -> None:
    link = GrpcLink([address])
    assert await link.join(JoinRequest(token="join-me", node="n1")) == JoinReply(node="n1", credential="good")
    with pytest.raises(LinkRefused, match="expired"):
        await link.join(JoinRequest(token="other", node="n1"))


async def test_a_job_of_an_attempt_is_submitted_by_the_nodes_own_link(address: str) -> None:
    call = ChildCall(ref=AttemptRef(job="j", tenant="t", fence=Fence(counter=2)), call=3, spec=b"{}")
    assert await GrpcLink([address]).submit_child("good", call) == ChildAnswer(job="n1 3 {}")
    with pytest.raises(LinkRefused):
        await GrpcLink([address]).submit_child("bad", call)


async def test_frames_go_both_ways_and_keep_their_types(address: str, sessions: FakeSessions) -> None:
    session = await GrpcLink([address]).connect("good")
    frames = session.frames()
    chunk = LogChunk(
        ref=AttemptRef(job="j", tenant="t", fence=Fence(counter=2)), rank=0, attempt=1, offset=3, data=bytes(300_000)
    )
    await session.send(AgentFrame(messages=(HELLO, Renew(nonce=7), chunk)))
    assert await anext(frames) == ServerFrame(messages=(Welcome(incarnation=1, store_epoch=1),))
    assert await anext(frames) == ServerFrame(messages=(Renewed(nonce=7),))
    assert sessions.frames == [AgentFrame(messages=(HELLO, Renew(nonce=7), chunk))]
    await session.close()
    await asyncio.wait_for(sessions.ended.wait(), 20)


@pytest.mark.parametrize(("credential", "why"), [("old", "revoked"), ("nonsense", "unknown"), ("person", "admin")])
async def test_other_credentials_are_refused_for_good(
    address: str, sessions: FakeSessions, credential: str, why: str
) -> None:
    session = await GrpcLink([address]).connect(credential)
    with pytest.raises(LinkRefused, match=why):
        await anext(session.frames())
    await session.close()
    assert not sessions.frames


async def test_a_refused_session_says_why(address: str) -> None:
    session = await GrpcLink([address]).connect("good")
    await session.send(AgentFrame(messages=(Hello(info=HELLO.info, incarnation=99),)))
    with pytest.raises(LinkRefused, match="superseded"):
        await anext(session.frames())
    await session.close()


async def test_the_next_address_is_tried_when_one_is_dead(address: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        link = GrpcLink([f"127.0.0.1:{unused.getsockname()[1]}", address])
        with pytest.raises(LinkBroken):
            await link.connect("good")
        session = await link.connect("good")
    await session.close()


async def test_a_server_that_stops_breaks_the_link(sessions: FakeSessions) -> None:
    server = _server(sessions)
    port = await server.start("127.0.0.1", 0)
    session = await GrpcLink([f"127.0.0.1:{port}"]).connect("good")
    await session.send(AgentFrame(messages=(HELLO,)))
    frames = session.frames()
    await anext(frames)
    await server.stop(0.0)
    with pytest.raises(LinkBroken):
        await anext(frames)
    with pytest.raises(LinkBroken):
        await session.send(AgentFrame(messages=(Renew(nonce=1),)))
    await session.close()


async def test_connecting_again_is_a_new_connection_whatever_became_of_the_old_one(address: str) -> None:
    """The library would hand out the old one, dead or not, to every channel to the same address."""
    with Proxy(address) as proxy:
        link = GrpcLink([proxy.address])
        first = await link.connect("good")
        await first.send(AgentFrame(messages=(HELLO,)))
        assert await anext(first.frames())
        await asyncio.to_thread(proxy.half_open)
        await first.close()
        second = await link.connect("good")
        await second.send(AgentFrame(messages=(HELLO,)))
        async with asyncio.timeout(20):
            assert await anext(second.frames())
        await second.close()


def test_nodes_spread_over_the_replicas_and_those_of_a_lost_one_over_the_others() -> None:
    servers, nodes = ("10.0.0.1:8643", "10.0.0.2:8643", "10.0.0.3:8643"), [f"node-{n}" for n in range(300)]
    orders = {node: spread(servers, node) for node in nodes}
    assert all(sorted(order) == sorted(servers) for order in orders.values())
    assert min(Counter(order[0] for order in orders.values()).values()) > 70
    lost = Counter(order[1] for order in orders.values() if order[0] == servers[0])
    assert min(lost[server] for server in servers[1:]) > 25
    # What is left of the list gives the other nodes the replica they have.
    for node, order in orders.items():
        if order[0] != servers[0]:
            assert spread(servers[1:], node)[0] == order[0]
