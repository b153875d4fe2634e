"""How jobs stand that others wait for, from the view."""

from collections.abc import Callable

from ares.control.state.view import View
from ares.core.dataset import PREFIX, parse_ref
from ares.core.needs.standing import ParentStanding, standing, standing_of_array
from ares.model.state import JobState


class ParentStandings:
    """Of arrays that are asked for again and again the counts are kept: each change of a task is counted once.

    Invariant: all changes that the view has are followed before anything is asked for.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        self._arrays: dict[str, ParentStanding] = {}
        self._wanted: set[str] = set()
        # The job that was asked for last: of one that many wait for, each of them asks.
        self._last: tuple[JobState, ParentStanding] | None = None

    def seen_by(self, tenant: str) -> Callable[[str], ParentStanding | None]:
        """As `of`, with the tenant's own data."""

        def of(parent: str) -> ParentStanding | None:
            if not parent.startswith(PREFIX):
                return self.of(parent)
            ref = parse_ref(parent)
            record = self._view.kept.datasets.get(f"{tenant}/{ref.name}")
            there = record is not None and (not ref.sha256 or record.version(ref.sha256) is not None)
            return ParentStanding(ended=1, succeeded=1) if there else ParentStanding()

        return of

    def of(self, parent: str) -> ParentStanding | None:
        """None when the job is no longer kept."""
        entry = self._view.entries.get(parent)
        if entry is not None:
            if self._last is None or self._last[0] is not entry.state:
                self._last = (entry.state, standing(entry.state))
            return self._last[1]
        kept = self._arrays.get(parent)
        if kept is not None:
            return kept
        found = self._counted(parent)
        if found is None:
            return self._to_come(parent)
        if parent in self._wanted:
            self._arrays[parent] = found
        return found

    def _to_come(self, parent: str) -> ParentStanding | None:
        """Of a task that is not there because its array is still being written."""
        array = self._view.arrays.get(parent.rpartition("_")[0])
        return None if array is None or array.expanded else ParentStanding()

    def _counted(self, array_id: str) -> ParentStanding | None:
        array = self._view.arrays.get(array_id)
        if array is None:
            return None
        entries, tasks = self._view.entries, self._view.by_array.get(array_id, ())
        return standing_of_array(array.tasks, (entries[task].state for task in tasks))

    def keep(self, array_id: str) -> None:
        """Counts along from when it is first asked for: the array may come after what waits for it."""
        self._wanted.add(array_id)

    def forget(self, array_id: str) -> None:
        self._wanted.discard(array_id)
        self._arrays.pop(array_id, None)

    def clear(self) -> None:
        self._wanted.clear()
        self._arrays.clear()

    def follow(self, before: JobState | None, after: JobState | None) -> None:
        """A task changed."""
        state = after or before
        array = None if state is None else state.array
        kept = None if array is None else self._arrays.get(array)
        if kept is None or array is None:
            return
        if before is not None:
            kept = kept.plus(standing(before), -1)
        self._arrays[array] = kept if after is None else kept.plus(standing(after))
