"""Shipping of logs to the control plane. Output that it cannot store now waits on the node and is sent again."""

from typing import Protocol

from ares.agent.link.mailbox import Mailbox, Reporter
from ares.model.link import LogAck
from ares.ports.clock import Clock


class LogOwner(Reporter, Protocol):
    """One rank of an attempt whose log is sent."""

    @property
    def final(self) -> int | None: ...

    @property
    def writes(self) -> bool:
        """Whether more output may come."""
        ...


class Shipping:
    """Sends logs. `patience_s` is how long the report of an attempt's end waits for its log to be stored."""

    def __init__(self, mailbox: Mailbox, clock: Clock, patience_s: float) -> None:
        self._mailbox = mailbox
        self._clock = clock
        self._patience_s = patience_s

    def kept(self, attempt: LogOwner, ack: LogAck) -> None:
        """The control plane's answer to a piece of output."""
        if ack.trouble:
            attempt.tail.rest(ack.offset, self._clock.monotonic())
            if attempt.final is not None:
                # The control plane refuses a final report before the whole log: it is sent again after the log.
                self._mailbox.again(attempt.final)
            return
        attempt.tail.acked(ack.offset)
        if attempt.tail.poll():
            self._mailbox.output(attempt)
        elif attempt.final is not None:
            # The report of its end may have waited for this.
            self._mailbox.loud.output(attempt)

    def look(self, attempt: LogOwner, *, leaving: bool) -> None:
        """Sends new output, and output whose pause is over."""
        tail = attempt.tail
        woken = tail.resting and tail.wake(self._clock.monotonic(), 0.0 if leaving else self._patience_s)
        if woken and tail.lost and attempt.final is not None:
            self._mailbox.outbox.amend(attempt.final, tail.lost)
        if woken or (attempt.writes and tail.poll()):
            self._mailbox.output(attempt)
