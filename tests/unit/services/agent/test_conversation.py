"""The agent's side of the stream while the other side fails it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

from ares.model.link import AgentFrame, JoinReply, JoinRequest, ServerFrame, Welcome
from ares.model.node import NodeInfo
from ares.ports.executor import Executor
from ares.ports.link import LinkBroken
from ares.services.agent.attempts import Attempts
from ares.services.agent.leash import Leash
from ares.services.agent.mailbox import Mailbox
from ares.services.agent.session import Conversation
from ares.services.agent.settings import Settings
from ares.services.agent.workspace import Workspace
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
    leash = Leash(clock)
    attempts = Attempts(
        info=INFO,
        executor=cast("Executor", None),
        clock=clock,
        leash=leash,
        mailbox=mailbox,
        workspace=Workspace(tmp_path),
        settings=Settings(),
    )
    conversation = Conversation(
        boot=1,
        info=INFO,
        link=link,
        credential="c",
        clock=clock,
        rng=rng,
        leash=leash,
        mailbox=mailbox,
        attempts=attempts,
    )
    talking = asyncio.create_task(conversation.run())
    await clock.advance(60)
    talking.cancel()
    await asyncio.gather(talking, return_exceptions=True)
    assert 10 < link.sessions < 60
