"""What the edge for agents needs of the control plane."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Protocol

from ares.control.access.machines import Admitted
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.cluster_link import AskCommand, AskMessage, ClusterFrame, GlobalFrame
from ares.model.job_session import ChildAnswer, ChildCall, SideCommand, SideMessage
from ares.model.link import AgentFrame, FetchPiece, FetchRequest, JoinReply, JoinRequest, ServerFrame
from ares.model.node import Presented
from ares.model.telemetry.log_stream import LogAcks, LogMessage


class SessionService(Protocol):
    """What this edge needs of `control.execution.sessions.Sessions`."""

    async def join(self, request: JoinRequest) -> JoinReply | Refusal: ...

    def serve(self, who: Principal, frames: AsyncIterator[AgentFrame]) -> AsyncGenerator[ServerFrame, None]: ...


class LogService(Protocol):
    """What this edge needs of `control.execution.log_intake.LogStreams`."""

    def serve(self, who: Principal, messages: AsyncIterator[LogMessage]) -> AsyncGenerator[LogAcks, None]: ...


class StagingService(Protocol):
    """What this edge needs of `control.execution.staging.Staging`."""

    async def fetch(self, who: Principal, asked: FetchRequest) -> AsyncIterator[FetchPiece] | Refusal: ...


class ChildService(Protocol):
    """What this edge needs of `control.flow.children.Children`."""

    async def submit(self, node: Principal, call: ChildCall) -> ChildAnswer: ...


class AsideService(Protocol):
    """What this edge needs of `control.execution.job_sessions.JobSessions`."""

    def serve(self, who: Principal, messages: AsyncIterator[SideMessage]) -> AsyncGenerator[SideCommand, None]: ...


class ClusterService(Protocol):
    """What this edge needs of `control.federation.links.ClusterLinks`."""

    def serve(self, who: Principal, frames: AsyncIterator[ClusterFrame]) -> AsyncGenerator[GlobalFrame, None]: ...


class AskService(Protocol):
    """What this edge needs of `control.federation.asking.Asks`."""

    def serve(self, who: Principal, messages: AsyncIterator[AskMessage]) -> AsyncGenerator[AskCommand, None]: ...


class TokenChecks(Protocol):
    """What this edge needs of `control.access.tokens.Tokens`."""

    async def authenticate(self, presented: str) -> Principal | Refusal: ...


class MachineChecks(Protocol):
    """What this edge needs of `control.access.machines.MachineAuthority`."""

    def read(self, certificate: bytes) -> Presented | None: ...

    def identify(self, shown: Presented) -> Principal | Refusal: ...

    async def renew(self, shown: Presented, request: str) -> Admitted | Refusal: ...
