"""E24: what an attempt is given is what its job asks for."""

from ares.check.invariants.books import CommittedStep
from ares.check.invariants.records import BOUND, Place, Resources, Spec, State
from ares.check.invariants.rule import Rule


class AsAsked(Rule):
    """Every rank of a job that was updated is granted exactly what the job asks for at that commit.
    While an attempt has its place, what the job asks for stays, so a result is of an attempt that had what was asked;
    each change is in the ledger, once."""

    id = "E24"
    title = "an attempt has what its job asked for when it was granted"

    def step(self, step: CommittedStep) -> None:
        before, after = step.before, step.after
        if after is None or not step.wrote:
            return
        spec = self.books.spec_of(after)
        if spec is not None and after.updates:
            for place in step.added:
                self._granted(step.job, after, spec, place)
        changes = after.updates - (0 if before is None else before.updates)
        told = sum(entry.kind == "updated" for entry in step.entries)
        if not changes and not told and (before is None or before.update == after.update):
            return
        self.tested += 1
        if changes != told:
            self.blame(step.job, f"update {after.updates} of its record has {told} entries in its ledger")
        if before is not None and before.phase in BOUND and spec is not None and after.phase in BOUND:
            had, has = asked(spec, before), asked(spec, after)
            if had != has:
                self.blame(step.job, f"asks for {has} while it has its place for {had}")

    def _granted(self, job: str, state: State, spec: Spec, place: Place) -> None:
        wants = asked(spec, state)
        if state.alternative:
            wants = spec.alternatives[state.alternative - 1]
        self.tested += 1
        given = Resources(cpu_milli=place.cpu_milli, memory_mib=place.memory_mib, gpus=len(place.gpus))
        if given != Resources(cpu_milli=wants.cpu_milli, memory_mib=wants.memory_mib, gpus=wants.gpus):
            self.blame(job, f"asks for {wants} by update {state.updates}, and was granted {given}")


def asked(spec: Spec, state: State) -> Resources:
    changed = None if state.update is None else state.update.resources
    return spec.resources if changed is None else changed
