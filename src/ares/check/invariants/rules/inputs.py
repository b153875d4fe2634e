"""E27: a process finds the data that its job was given, whole."""

from ares.check.invariants.history import Event, ProcessStarted
from ares.check.invariants.rule import Rule


class GivenData(Rule):
    """A process that starts has every input that its job names, byte for byte the version that was written into the
    job's specification when it was accepted, whatever was published since and however it was fetched."""

    id = "E27"
    title = "a process has the data its job was given"
    hears = (ProcessStarted,)

    def hear(self, event: Event) -> None:
        assert isinstance(event, ProcessStarted), "it hears of nothing else"
        state = self.books.states.get(event.job)
        spec = None if state is None else self.books.spec_of(state)
        if spec is None or not (spec.inputs or event.inputs):
            return
        self.tested += 1
        given = {given.name: given.digest for given in spec.inputs if given.from_}
        if event.inputs != given:
            self.blame(event.job, f"attempt {event.fence} was given {given}, and finds {event.inputs}")
