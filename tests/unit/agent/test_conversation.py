"""The agent's side of the stream while the other side fails it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

from ares.agent.attempts.attempts import Attempts
from ares.agent.attempts.workspace import Workspace
from ares.agent.entry.entrance import Entrance
from ares.agent.link.mailbox import Mailbox
from ares.agent.link.run_right import RunRight
from ares.agent.link.session import Conversation
from ares.agent.settings import AgentSettings
from ares.agent.transfer.rates import LeasedRates
from ares.agent.transfer.transfers import Transfers
from ares.model.link import AgentFrame, JoinReply, JoinRequest, Renew, Renewed, ServerFrame, Welcome
from ares.model.node import NodeInfo
from ares.ports.executor import Executor
from ares.ports.link import LinkBroken
from tests.clocks import ManualClock, SeededRng

INFO = NodeInfo(name="n1", cpu_milli=1000, memory_mib=1024)


class BreaksAfterWelcome:
    """`ports.link.Link` and its session in one: welcomes, then breaks before anything is renewed."""

    def __init__(self) -> None:
        self.sessions = 0

    async def join(self, request: JoinRequest) -> JoinReply:
        raise AssertionError("it has a credential and need not join")

    async def connect(self, credential: str) -> "BreaksAfterWelcome":
        self.sessions += 1
        return self

    async def send(self, frame: AgentFrame) -> None: ...

    async def frames(self) -> AsyncIterator[ServerFrame]:
        yield ServerFrame(messages=(Welcome(incarnation=1, store_epoch=1),))
        raise LinkBroken("again")

    async def close(self) -> None: ...


async def test_sessions_that_break_after_their_welcome_are_tried_ever_more_slowly(tmp_path: Path) -> None:
    clock, rng, mailbox, link = ManualClock(), SeededRng(), Mailbox(), BreaksAfterWelcome()
    rng.fixed = 1.0
    run_right = RunRight(clock)
    attempts = Attempts(
        info=INFO,
        executor=cast("Executor", None),
        clock=clock,
        run_right=run_right,
        mailbox=mailbox,
        workspace=Workspace(tmp_path),
        settings=AgentSettings(),
        transfers=Transfers(clock),
    )
    conversation = Conversation(
        boot=1,
        info=INFO,
        link=link,
        credential="c",
        clock=clock,
        rng=rng,
        run_right=run_right,
        mailbox=mailbox,
        attempts=attempts,
        entrance=Entrance(INFO, attempts, AgentSettings(), clock),
        rates=LeasedRates(Transfers(clock)),
    )
    talking = asyncio.create_task(conversation.run())
    await clock.advance(60)
    talking.cancel()
    await asyncio.gather(talking, return_exceptions=True)
    assert 10 < link.sessions < 60


class ServesInTurn:
    """Welcomes late, and answers each renewal late: a control plane that everybody came back to at once."""

    def __init__(self, clock: ManualClock, *, welcome_s: float, answer_s: float) -> None:
        self.sessions = 0
        self.answer_s = answer_s
        self._clock = clock
        self._welcome_s = welcome_s
        self._sent: asyncio.Queue[tuple[int, float]] = asyncio.Queue()

    async def join(self, request: JoinRequest) -> JoinReply:
        raise AssertionError("it has a credential and need not join")

    async def connect(self, credential: str) -> "ServesInTurn":
        self.sessions += 1
        self._sent = asyncio.Queue()
        return self

    async def send(self, frame: AgentFrame) -> None:
        for message in frame.messages:
            if isinstance(message, Renew):
                self._sent.put_nowait((message.nonce, self._clock.monotonic()))

    async def frames(self) -> AsyncIterator[ServerFrame]:
        await self._clock.sleep(self._welcome_s)
        yield ServerFrame(messages=(Welcome(incarnation=1, store_epoch=1),))
        welcomed = self._clock.monotonic()
        while True:
            nonce, sent = await self._sent.get()
            await self._clock.sleep(max(0.0, max(sent, welcomed) + self.answer_s - self._clock.monotonic()))
            yield ServerFrame(messages=(Renewed(nonce=nonce),))

    async def close(self) -> None: ...


async def talk_to(link: ServesInTurn, clock: ManualClock, directory: Path) -> "asyncio.Task[None]":
    mailbox, run_right = Mailbox(), RunRight(clock)
    attempts = Attempts(
        info=INFO, executor=cast("Executor", None), clock=clock, run_right=run_right, mailbox=mailbox,
        workspace=Workspace(directory), settings=AgentSettings(), transfers=Transfers(clock),
    )  # fmt: skip
    conversation = Conversation(
        boot=1, info=INFO, link=link, credential="c", clock=clock, rng=SeededRng(), run_right=run_right,
        mailbox=mailbox, attempts=attempts, entrance=Entrance(INFO, attempts, AgentSettings(), clock),
        rates=LeasedRates(Transfers(clock)),
    )  # fmt: skip
    return asyncio.create_task(conversation.run())


async def test_who_waited_for_its_welcome_does_not_leave_at_once(tmp_path: Path) -> None:
    clock = ManualClock()
    link = ServesInTurn(clock, welcome_s=5.0, answer_s=0.1)
    talking = await talk_to(link, clock, tmp_path)
    await clock.advance(120)
    talking.cancel()
    await asyncio.gather(talking, return_exceptions=True)
    assert link.sessions == 1


async def test_a_control_plane_that_is_slow_is_not_called_again_and_again(tmp_path: Path) -> None:
    """It answers later than an agent likes to wait, and goes on to do so: the agent learns to wait, once."""
    clock = ManualClock()
    link = ServesInTurn(clock, welcome_s=0.0, answer_s=3.0)
    talking = await talk_to(link, clock, tmp_path)
    await clock.advance(300)
    slow = link.sessions
    link.answer_s = 0.01
    await clock.advance(60)
    # Quick again, and then silent: whoever was taught to wait has unlearned it, and tries elsewhere in time.
    link.answer_s = 1000.0
    await clock.advance(20)
    talking.cancel()
    await asyncio.gather(talking, return_exceptions=True)
    assert slow <= 3
    assert link.sessions > slow
