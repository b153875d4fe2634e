"""Requests about sessions in running jobs, as values like those in `calls`."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from ares.api.job_sessions import LiveUse, SessionBody
from ares.edge.client.calls.answers import JobRef, job_id
from ares.edge.client.calls.calls import JSON, Call, Request, part
from ares.edge.client.sending import AsyncSends, Sends
from ares.model.job_session import SessionSpec, SessionView


@dataclass(frozen=True, slots=True)
class ExecResult:
    """What a command inside a job wrote, and how it ended."""

    code: int
    stdout: bytes
    stderr: bytes


def open_session(job: str, spec: SessionSpec, session_id: str) -> Call[SessionView]:
    """It carries the id of the session: sent twice, it opens one."""
    body = SessionBody(id=session_id, **msgspec.structs.asdict(spec))
    return Call(Request("POST", _path(job), (), msgspec.json.encode(body), JSON), SessionView)


def sessions(job: str) -> Call[tuple[SessionView, ...]]:
    return Call(Request("GET", _path(job)), tuple[SessionView, ...], "sessions")


def end_session(job: str, session_id: str, rank: int = 0) -> Call[None]:
    return Call(Request("DELETE", session_path(job, session_id), (("rank", str(rank)),)), None)


def use(job: str = "") -> Call[LiveUse]:
    """Of one job, or of all that run."""
    return Call(Request("GET", f"/v1/jobs/{part(job)}/use" if job else "/v1/use"), LiveUse)


def new_session_id() -> str:
    return secrets.token_hex(16)


def session_path(job: str, session_id: str) -> str:
    return f"{_path(job)}/{part(session_id)}"


def _path(job: str) -> str:
    return f"/v1/jobs/{part(job)}/sessions"


class AsyncJobSessionMethods(AsyncSends):
    """Sessions in running jobs, of the asynchronous client."""

    async def sessions(self, job: JobRef) -> tuple[SessionView, ...]:
        """The sessions in a running job."""
        return await self.send(sessions(job_id(job)))

    async def open_session(self, job: JobRef, spec: SessionSpec) -> SessionView:
        """Opens a session in a running job. It is taken up by `ares.edge.client.job_session.attached`."""
        return await self.send(open_session(job_id(job), spec, new_session_id()))

    async def end_session(self, job: JobRef, session: SessionView) -> None:
        """Ends a session with all its processes."""
        await self.send(end_session(job_id(job), session.id, session.rank))

    async def use(self, job: JobRef | None = None) -> LiveUse:
        """What a running job uses now, or all that run."""
        return await self.send(use("" if job is None else job_id(job)))

    async def exec(self, job: JobRef, command: Sequence[str], *, stdin: bytes = b"", rank: int = 0) -> ExecResult:
        """Runs a command inside a running job, and returns its output and exit code."""
        from ares.edge.client.job_session import AsyncExecution

        return await AsyncExecution(self.endpoint).run(job_id(job), command, stdin, rank)


class JobSessionMethods(Sends):
    """Sessions in running jobs, of the blocking client, generated."""

    def sessions(self, job: JobRef) -> tuple[SessionView, ...]:
        """The sessions in a running job."""
        return self.send(sessions(job_id(job)))

    def open_session(self, job: JobRef, spec: SessionSpec) -> SessionView:
        """Opens a session in a running job. It is taken up by `ares.edge.client.job_session.attached`."""
        return self.send(open_session(job_id(job), spec, new_session_id()))

    def end_session(self, job: JobRef, session: SessionView) -> None:
        """Ends a session with all its processes."""
        self.send(end_session(job_id(job), session.id, session.rank))

    def use(self, job: JobRef | None = None) -> LiveUse:
        """What a running job uses now, or all that run."""
        return self.send(use("" if job is None else job_id(job)))

    def exec(self, job: JobRef, command: Sequence[str], *, stdin: bytes = b"", rank: int = 0) -> ExecResult:
        """Runs a command inside a running job, and returns its output and exit code."""
        from ares.edge.client.job_session import Execution

        return Execution(self.endpoint).run(job_id(job), command, stdin, rank)
