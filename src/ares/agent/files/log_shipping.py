"""Attempts' output on its way to the control plane: what cannot be kept there waits here, and is sent again."""

from ares.agent.attempts.attempt import Attempt
from ares.agent.link.mailbox import Mailbox
from ares.model.link import LogAck
from ares.ports.clock import Clock


class Shipping:
    """`patience_s` is how long the end of an attempt waits for its output."""

    def __init__(self, mailbox: Mailbox, clock: Clock, patience_s: float) -> None:
        self._mailbox = mailbox
        self._clock = clock
        self._patience_s = patience_s

    def kept(self, attempt: Attempt, ack: LogAck) -> None:
        """The control plane's answer to a piece of output."""
        if ack.trouble:
            attempt.tail.rest(ack.offset, self._clock.monotonic())
            if attempt.final is not None:
                # Its end is not taken before its output, and goes out once more after that.
                self._mailbox.again(attempt.final)
            return
        attempt.tail.acked(ack.offset)
        if attempt.tail.poll():
            self._mailbox.output(attempt)

    def look(self, attempt: Attempt, *, leaving: bool) -> None:
        """What is new, and what has rested long enough."""
        tail = attempt.tail
        woken = tail.resting and tail.wake(self._clock.monotonic(), 0.0 if leaving else self._patience_s)
        if woken and tail.lost and attempt.final is not None:
            self._mailbox.outbox.amend(attempt.final, tail.lost)
        if woken or (attempt.running is not None and tail.poll()):
            self._mailbox.output(attempt)
