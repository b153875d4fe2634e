"""E23: what a program wrote is in its log, or the log says that it is not."""

from ares.check.invariants.history import Event, LogSeen
from ares.check.invariants.rule import Rule


class WholeLog(Rule):
    """The log of an attempt that has ended has every byte its process wrote and no other, or says what is missing."""

    id = "E23"
    title = "a log is whole, or says what is missing"
    hears = (LogSeen,)

    def hear(self, event: Event) -> None:
        assert isinstance(event, LogSeen), "it hears of nothing else"
        self.tested += 1
        if event.kept != event.written and not event.told:
            self.blame(event.job, f"wrote {event.written} bytes, its log has {event.kept} and does not say so")
