"""The jobs of each workflow, and how many of them have not ended; kept along with the view."""

from ares.control.state.view import Delta, View
from ares.model.state import TERMINAL, JobState


class FlowIndex:
    """A job of no workflow costs one look at its record."""

    def __init__(self, view: View) -> None:
        self._view = view
        # In the order in which the view heard of them.
        self._members: dict[str, dict[str, None]] = {}
        # Without those that run when the others have ended.
        self._open: dict[str, int] = {}
        view.subscribe(self._on_delta)

    def members(self, flow: str) -> tuple[str, ...]:
        return tuple(self._members.get(flow, ()))

    def size(self, flow: str) -> int:
        """How many of its jobs there are by now."""
        return len(self._members.get(flow, ()))

    def others_open(self, flow: str) -> int:
        """How many of its jobs have not ended, besides those that wait for that."""
        return self._open.get(flow, 0)

    def states(self, flow: str) -> list[JobState]:
        return [self._view.entries[job].state for job in self._members.get(flow, ())]

    def _on_delta(self, delta: Delta) -> None:
        if delta.relisted:
            self._members.clear()
            self._open.clear()
            for entry in self._view.entries.values():
                self._follow(None, entry.state)
            return
        for before, entry in delta.states:
            if entry.state.flow is not None:
                self._follow(before, entry.state)
        for state in delta.removed:
            if state.flow is not None:
                self._drop(state, state.flow)

    def _follow(self, before: JobState | None, state: JobState) -> None:
        if state.flow is None:
            return
        self._members.setdefault(state.flow, {})[state.id] = None
        if not state.is_finally:
            was = before is not None and before.phase not in TERMINAL
            self._open[state.flow] = self._open.get(state.flow, 0) + (state.phase not in TERMINAL) - was

    def _drop(self, state: JobState, flow: str) -> None:
        members = self._members.get(flow, {})
        members.pop(state.id, None)
        if not members:
            self._members.pop(flow, None)
            self._open.pop(flow, None)
