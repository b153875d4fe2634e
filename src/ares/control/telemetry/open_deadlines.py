"""Jobs whose deadline is neither met nor missed, followed through the view: few, whatever the number of jobs."""

from ares.control.state.view import Delta, View
from ares.core.lifecycle.deadline import outcome
from ares.model.state import TERMINAL, JobState


class OpenDeadlines:
    def __init__(self, view: View) -> None:
        self._view = view
        self._jobs: set[str] = set()
        self._list()
        view.subscribe(self._on_delta)

    def states(self) -> list[JobState]:
        """As they are now."""
        return [entry.state for job in self._jobs if (entry := self._view.entries.get(job)) is not None]

    def _list(self) -> None:
        self._jobs = {job for job, entry in self._view.entries.items() if is_open(entry.state)}

    def _on_delta(self, delta: Delta) -> None:
        if delta.relisted:
            self._list()
            return
        for _, entry in delta.states:
            state = entry.state
            if state.deadline_at is None and state.start_by_at is None:
                # An update may have taken it away.
                if self._jobs:
                    self._jobs.discard(state.id)
            elif is_open(state):
                self._jobs.add(state.id)
            else:
                self._jobs.discard(state.id)
        if self._jobs:
            self._jobs.difference_update(state.id for state in delta.removed)


def is_open(state: JobState) -> bool:
    """Whether the job has a deadline that is not decided."""
    if state.deadline_at is None and state.start_by_at is None:
        return False
    return state.phase not in TERMINAL and outcome(state) is None
