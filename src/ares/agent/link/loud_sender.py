"""The agent's side of the stream for output of loud attempts: open while there are some."""

import structlog

from ares.agent.link.mailbox import Mailbox
from ares.agent.link.workload import Workload
from ares.agent.loops import first_to_end
from ares.model.telemetry.log_stream import LogHello
from ares.ports.clock import Clock, Rng
from ares.ports.link import LinkBroken, LinkRefused, OutputLine, OutputLines

_log = structlog.get_logger(__name__)

_BACKOFF_BASE_S = 0.05
_BACKOFF_MAX_S = 5.0
# Without output for this long, the stream is closed.
_UNUSED_S = 30.0


class LoudSender:
    """One for a session. Whatever happens to its stream, the session goes on, and carries the output if it must."""

    def __init__(self, mailbox: Mailbox, attempts: Workload, clock: Clock, rng: Rng) -> None:
        self._mailbox = mailbox
        self._attempts = attempts
        self._clock = clock
        self._rng = rng
        self._used_at = clock.monotonic()

    async def run(self, link: OutputLines, hello: LogHello) -> None:
        """Ends only by cancellation, or where the control plane takes no such stream."""
        loud, failures = self._mailbox.loud, 0
        while loud.offered:
            await loud.waiting()
            self._used_at = began = self._clock.monotonic()
            line = None
            try:
                line = await link.log_line()
                await line.send(hello)
                await first_to_end(self._send(line), self._receive(line), self._until_unused())
                failures = 0
                # Nothing is under way: they are not loud any more.
                self._mailbox.hush()
            except LinkBroken as error:
                failures = 0 if self._clock.monotonic() - began > _BACKOFF_MAX_S else failures + 1
                _log.info("agent.log_stream_broken", why=str(error), failures=failures)
                await self._clock.sleep(
                    min(_BACKOFF_MAX_S, _BACKOFF_BASE_S * 2 ** min(failures, 10)) * self._rng.uniform()
                )
                loud.rewind()
            except LinkRefused as error:
                _log.info("agent.no_log_stream", why=str(error), next="output goes with everything else")
                loud.offered = False
                self._mailbox.hush()
            finally:
                if line is not None:
                    await line.close()

    async def _send(self, line: OutputLine) -> None:
        loud = self._mailbox.loud
        while True:
            await loud.waiting()
            # An agent that was frozen ends attempts without a lease before it sends anything about them.
            self._attempts.fence_expired()
            if (frame := loud.frame()) is not None:
                await line.send(frame)
                self._used_at = self._clock.monotonic()

    async def _receive(self, line: OutputLine) -> None:
        async for answer in line.acks():
            for ack in answer.acks:
                self._attempts.log_kept(ack)
        raise LinkBroken("the control plane closed the stream for output")

    async def _until_unused(self) -> None:
        while not self._mailbox.loud.idle or self._clock.monotonic() - self._used_at < _UNUSED_S:
            await self._clock.sleep(_UNUSED_S / 4)
