"""What a mutant is."""

from dataclasses import dataclass

from ares.sim.mutants.patching import Patch


@dataclass(frozen=True, slots=True)
class Mutant:
    """`patch` changes the real code while it is entered. One of `caught_by` must notice within `seeds` seeds, and in
    the directed case at once, where there is one. What no world shows is judged by the checker of replayed traces."""

    what: str
    caught_by: tuple[str, ...]
    patch: Patch
    seeds: int = 2000
    # The scripted world that brings the situation about, for what chance seldom does.
    case: str = ""
    # The trace whose replay shows it, for what takes hours of jobs to come about.
    trace: str = ""
    # It shows in worlds of several clusters.
    federation: bool = False

    @property
    def shown_by(self) -> str:
        return self.case or self.trace
