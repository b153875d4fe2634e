"""The stream between an agent and the control plane, as the agent sees it."""

from collections.abc import AsyncIterator
from typing import Protocol

from ares.model.link import AgentFrame, JoinReply, JoinRequest, ServerFrame


class LinkBroken(Exception):
    """The stream ended or could not be opened: reconnect with backoff."""


class LinkRefused(Exception):
    """The control plane refused this agent: trying again will not help."""


class Session(Protocol):
    """One open stream. Ends by LinkBroken."""

    async def send(self, frame: AgentFrame) -> None: ...

    def frames(self) -> AsyncIterator[ServerFrame]: ...

    async def close(self) -> None: ...


class Link(Protocol):
    async def join(self, request: JoinRequest) -> JoinReply: ...

    async def connect(self, credential: str) -> Session: ...

    async def close(self) -> None: ...
