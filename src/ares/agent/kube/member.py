"""One node of Kubernetes as a node of Ares: its session, its attempts, and what it has."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import structlog

from ares.agent.kube.ends import Surroundings
from ares.agent.kube.pods import PodAttempts
from ares.agent.link.mailbox import Mailbox
from ares.agent.link.run_right import RunRight
from ares.agent.link.session import Conversation
from ares.agent.staging.cache import NodeCache
from ares.agent.staging.stager import Stager
from ares.model.node import NodeInfo
from ares.ports.clock import Clock, Rng
from ares.ports.kubernetes import PodApi
from ares.ports.link import FileLink, Link, LinkRefused

_log = structlog.get_logger(__name__)

_JOIN_AGAIN_S: Final = 30.0
_FAREWELL_S: Final = 5.0


class MemberTransport(Link, FileLink, Protocol):
    """A session and files."""


class MemberLink(NamedTuple):
    """By what a node talks to the control plane."""

    link: MemberTransport
    credential: str
    boot: int


# Joins the node of this name, or finds what it joined by. With True, it joins anew: the old way was refused.
Join = Callable[[str, bool], Awaitable[MemberLink]]


class KubeMember:
    def __init__(
        self, kube_node: str, info: NodeInfo, around: Surroundings, api: PodApi, clock: Clock, rng: Rng, logs: Path,
        cache: NodeCache,
    ) -> None:  # fmt: skip
        self._info, self._clock, self._rng = info, clock, rng
        self._mailbox = Mailbox()
        self._cache = cache
        self._stager: Stager | None = None
        self.attempts = PodAttempts(kube_node, around, api, clock, self._mailbox, logs, lambda: self._stager)
        self._conversation: Conversation | None = None
        self._tasks: list[asyncio.Task[Any]] = []

    def open(self, join: Join) -> None:
        self._tasks = [asyncio.create_task(self._talk(join)), asyncio.create_task(self.attempts.look())]

    async def _talk(self, join: Join) -> None:
        """A session for ever. A node that is refused joins anew, after a while."""
        anew = False
        while True:
            joined: MemberLink | None = None
            try:
                joined = await join(self._info.name, anew)
                self._stager = Stager(self._cache, partial(joined.link.fetch, joined.credential), self._clock)
                self._conversation = Conversation(
                    info=self._info,
                    link=joined.link,
                    credential=joined.credential,
                    boot=joined.boot,
                    clock=self._clock,
                    rng=self._rng,
                    run_right=RunRight(self._clock),
                    mailbox=self._mailbox,
                    attempts=self.attempts,
                )
                await self._conversation.run()
            except LinkRefused as refusal:
                anew = True
                _log.error("kube.node_refused", node=self._info.name, why=str(refusal), next="it joins anew")
            except Exception as error:
                # A full disk, for one: the node's jobs go on, and are told of when it is mended.
                _log.error("kube.session_failed", node=self._info.name, error=repr(error), again_after_s=_JOIN_AGAIN_S)
            finally:
                self._conversation = self._stager = None
                if joined is not None:
                    await joined.link.close()
            await self._clock.sleep(_JOIN_AGAIN_S)

    def describe(self, info: NodeInfo) -> None:
        self._info = info
        if self._conversation is not None:
            self._conversation.describe(info)

    def greet_again(self) -> None:
        """It holds an attempt that this session has not named: the control plane says whether it is granted."""
        self.attempts.ungreeted()
        if self._conversation is not None:
            self._conversation.again()

    async def leave(self) -> None:
        """The node is gone, and all of its attempts are told."""
        self._mailbox.leave()
        until = self._clock.monotonic() + _FAREWELL_S
        while len(self._mailbox.outbox) and self._clock.monotonic() < until:
            await self._clock.sleep(0.05)
        await self.close()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.attempts.close()
