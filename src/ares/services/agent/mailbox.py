"""Everything that waits to be sent, put into frames: renewals, output, progress, then reports."""

import asyncio
from collections.abc import Iterable

from ares.model.link import AgentFrame, AgentMessage, Leave, LogChunk, Progress, Renew, Started
from ares.services.agent.attempt import Attempt
from ares.services.agent.outbox import Key, Outbox, Report, key_of

FRAME_LOG_BYTES = 1024 * 1024
FRAME_REPORTS = 1000
# A stream carries 16 MiB at once, and a frame that is refused would be refused again after every reconnect.
FRAME_RESULT_BYTES = 4 * 1024 * 1024


class Mailbox:
    def __init__(self) -> None:
        self.outbox = Outbox()
        self._attempts: dict[Key, Attempt] = {}
        self._renewals: list[Renew] = []
        self._progress: dict[Key, Progress] = {}
        # Attempts with output to send, in the order their turn comes.
        self._talking: dict[Key, Attempt] = {}
        self._wake = asyncio.Event()
        # Something waits that is more than the news of a start.
        self.urgent = asyncio.Event()
        # Counts what was ever put in: who waits can see whether more keeps coming.
        self.news = 0
        self._leaving = False
        self._said_leaving = False

    def _rouse(self, *, urgent: bool = True) -> None:
        self.news += 1
        self._wake.set()
        if urgent:
            self.urgent.set()

    def leave(self) -> None:
        """Tells the control plane, and each it connects to from now on, to send nothing new."""
        self._leaving = True
        self._rouse()

    def watch(self, attempt: Attempt) -> None:
        self._attempts[attempt.key] = attempt

    def forget(self, attempt: Attempt) -> None:
        self._attempts.pop(attempt.key, None)
        self._talking.pop(attempt.key, None)
        self._progress.pop(attempt.key, None)

    def renew(self, renew: Renew) -> None:
        self._renewals.append(renew)
        self._rouse()

    def progress(self, progress: Progress) -> None:
        self._progress[(progress.ref, progress.rank)] = progress
        self._rouse()

    def output(self, attempt: Attempt) -> None:
        self._talking[attempt.key] = attempt
        self._rouse()

    def report(self, report: Report) -> None:
        self.outbox.add(report)
        self._rouse(urgent=not isinstance(report, Started))

    def again(self, number: int) -> None:
        self.outbox.resend(number)
        self._rouse()

    def rewind(self) -> None:
        """A new session begins: what was not acknowledged goes out again."""
        self._renewals.clear()
        self._said_leaving = False
        self.outbox.rewind()
        for attempt in self._attempts.values():
            attempt.tail.rewind()
            if attempt.tail.poll():
                self._talking[attempt.key] = attempt
        self._rouse()

    async def wait(self) -> None:
        await self._wake.wait()

    def frame(self) -> AgentFrame | None:
        """The next frame, None when nothing may be sent now."""
        self._wake.clear()
        self.urgent.clear()
        messages: list[AgentMessage] = [*self._renewals]
        self._renewals.clear()
        if self._leaving and not self._said_leaving:
            messages.append(Leave())
            self._said_leaving = True
        messages += self._logs()
        messages += self._progress.values()
        self._progress.clear()
        reports = self.outbox.take(FRAME_REPORTS, FRAME_RESULT_BYTES, self._may_go)
        messages += reports
        if (reports and self.outbox.waiting) or self._talking:
            self._rouse()
        return AgentFrame(messages=tuple(messages)) if messages else None

    def _may_go(self, report: Report) -> bool:
        """What an attempt wrote goes ahead of the news of its end."""
        if isinstance(report, Started):
            return True
        attempt = self._attempts.get(key_of(report))
        return attempt is None or attempt.tail.drained

    def _logs(self) -> Iterable[LogChunk]:
        left = FRAME_LOG_BYTES
        for key, attempt in list(self._talking.items()):
            if left <= 0:
                break
            # To the end of the queue, or out of it while its window is full or nothing is new.
            del self._talking[key]
            if (piece := attempt.tail.chunk()) is not None:
                self._talking[key] = attempt
                left -= len(piece[1])
                yield LogChunk(
                    ref=attempt.start.ref,
                    rank=attempt.start.placement.rank,
                    attempt=attempt.start.attempt,
                    offset=piece[0],
                    data=piece[1],
                )
