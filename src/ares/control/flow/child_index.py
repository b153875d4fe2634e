"""Which jobs a job submitted while it ran; kept along with the view."""

from ares.control.state.view import Delta, View
from ares.model.state import JobState


class ChildIndex:
    """A job that no other job submitted costs one look at its record."""

    def __init__(self, view: View) -> None:
        self._view = view
        # By parent, in the order in which the view heard of them. A parent may be forgotten before its children.
        self.parents: dict[str, dict[str, None]] = {}
        view.subscribe(self._on_delta)

    def children(self, parent: str) -> list[JobState]:
        return [self._view.entries[job].state for job in self.parents.get(parent, ())]

    def _on_delta(self, delta: Delta) -> None:
        if delta.relisted:
            self.parents.clear()
            for entry in self._view.entries.values():
                self._follow(entry.state)
            return
        for before, entry in delta.states:
            if before is None:
                self._follow(entry.state)
        for state in delta.removed:
            if state.child_of is not None and (siblings := self.parents.get(state.child_of.job)) is not None:
                siblings.pop(state.id, None)
                if not siblings:
                    del self.parents[state.child_of.job]

    def _follow(self, state: JobState) -> None:
        if state.child_of is not None:
            self.parents.setdefault(state.child_of.job, {})[state.id] = None
