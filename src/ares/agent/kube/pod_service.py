"""What the agent does for the helpers in its pods: leave to start, files of projects, and outputs taken over.

A pod that came back with a restored cluster, or that the control plane does not grant any more, gets no leave: its job
does not run again.
"""

import asyncio
import hmac
from collections.abc import AsyncIterator, Callable
from typing import Final

import msgspec

from ares.agent.kube.pod_attempt import PodAttempt
from ares.agent.kube.pods import PodAttempts
from ares.agent.staging.stager import StagingFailed
from ares.agent.staging.unpack import NotWanted
from ares.core.kube.ending import main_state, told_to_leave
from ares.core.kube.equipment import token_digest
from ares.core.project import parts_of
from ares.model.kube import ContainerEnd
from ares.model.state import ExitInfo
from ares.ports.kubernetes import NotYet, PodFile, PodLeave, PodPart, PodTask, Unwelcome

Held = tuple[PodAttempts, PodAttempt]
# A helper's question is answered after this time at the latest; it asks again.
_NEXT_S: Final = 20.0
# Attempts whose outputs are on the agent's disk at once.
_HANDING_OVER: Final = 8


class PodDesk:
    """A `PodService`. `find` says which attempt a pod of that name is for; None: it is not known. Raises NotYet."""

    def __init__(self, find: Callable[[str], Held | None]) -> None:
        self._find = find
        self._turns = asyncio.Semaphore(_HANDING_OVER)

    def admitted(self, pod: str, token: str) -> Held:
        held = self._find(pod)
        if held is None:
            raise Unwelcome(f"pod {pod[:80]} is of no attempt that is granted here")
        wanted = held[1].claim.token_sha256
        if not wanted or not hmac.compare_digest(token_digest(token), wanted):
            raise Unwelcome("its token is not the one of this pod")
        return held

    async def leave(self, pod: Held) -> PodLeave:
        attempts, attempt = pod
        if attempt.fenced or attempt.ended:
            return PodLeave(granted=False, why=attempt.fenced or "its attempt has ended")
        if attempt.reported:
            return PodLeave(granted=False, why="its job ran before")
        if not attempts.granted:
            raise NotYet("the control plane has not said yet whether it is wanted")
        return PodLeave(granted=True, project=bool(attempt.claim.project))

    async def parts(self, pod: Held) -> AsyncIterator[PodPart]:
        attempts, attempt = pod
        stager = attempts.stager()
        if stager is None:
            raise NotYet("the control plane cannot be reached")
        try:
            start, project = attempt.as_started(), attempt.claim.project
            async with stager.fetched(start, project, lambda: not attempt.fenced) as (manifest, cached):
                yield PodPart(msgspec.json.encode(manifest))
                for sha256 in dict(parts_of(manifest)):
                    yield PodPart(await asyncio.to_thread((cached / sha256).read_bytes), sha256)
        except StagingFailed as failed:
            attempt.unstaged = ExitInfo(failure="staging", message=str(failed), lasting=failed.lasting)
            raise Unwelcome(str(failed)) from None
        except NotWanted:
            raise Unwelcome(attempt.fenced) from None

    async def next(self, pod: Held) -> PodTask:
        attempts, attempt = pod
        try:
            async with asyncio.timeout(_NEXT_S):
                while (todo := _task(attempt)) == "wait":
                    attempt.turned.clear()
                    await attempt.turned.wait()
        except TimeoutError:
            return PodTask(todo="wait")
        if todo == "hand-over" and not attempts.outputs.bytes_max:
            raise NotYet("the control plane has not said yet how much it takes")
        return PodTask(todo="hand-over" if todo == "hand-over" else "leave", bytes_max=attempts.outputs.bytes_max)

    async def hand_over(self, pod: Held, files: AsyncIterator[PodFile]) -> None:
        attempts, attempt = pod
        if _task(attempt) != "hand-over":
            return
        async with self._turns:
            await attempts.outputs.take(attempt, files)


def _task(attempt: PodAttempt) -> str:
    if attempt.fenced or attempt.ended or attempt.unkept or attempt.kept_files is not None:
        return "leave"
    ended = None if attempt.pod is None else main_state(attempt.pod)[0]
    if ended is None or attempt.pod is None or attempt.upload is not None:
        return "wait"
    return "hand-over" if _succeeded(ended) and not told_to_leave(attempt.pod, 0.0) else "leave"


def _succeeded(ended: ContainerEnd) -> bool:
    return ended.exit_code == 0 and not ended.signal
