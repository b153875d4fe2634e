"""Bugs in how jobs that wait for jobs are released: twice, too early, or never."""
# pyright: reportPrivateUsage=false

from typing import Any

from msgspec.structs import replace as changed

from ares.control.execution.transitions import JobChange, Transitions
from ares.control.flow import children
from ares.control.flow.flow_index import FlowIndex
from ares.control.flow.releases import Releases
from ares.control.state.commit import WriteDraft
from ares.control.state.view import StateEntry
from ares.control.submit.draft import Checked, Draft, Drafting
from ares.control.submit.parents import ParentChecks
from ares.core.lifecycle.inputs import Input, NeedsMet, NeedsOverdue, NeedsUnmet
from ares.core.needs import verdict as needs_verdict
from ares.core.needs.standing import ParentStanding, Verdict, verdict
from ares.core.needs.verdict import NeedsVerdict
from ares.core.refusal import Refusal
from ares.model.job import JobSpec, NeedCondition
from ares.model.state import TERMINAL, JobState
from ares.ports.store import Compare
from ares.sim.mutants.mutant import Mutant
from ares.sim.mutants.patching import replace, together

_draft, _tell_children, _drafted = Transitions._draft, Releases._tell_children, Drafting.draft
_needs = Releases._needs
_NUMBERS = iter(range(1, 1 << 30))


def _uncompared(
    self: Transitions,
    change: JobChange,
    entry: StateEntry | None,
    spec: JobSpec | None = None,
    now: float | None = None,
) -> Any:
    """A release is written whatever became of the job meanwhile."""
    drafted = _draft(self, change, entry, spec, now)
    released = any(isinstance(what, NeedsMet | NeedsUnmet) for what in change.inputs)
    return changed(drafted, compares=()) if released and isinstance(drafted, WriteDraft) else drafted


def _no_compares(self: ParentChecks, tenant: str, spec: JobSpec) -> tuple[Compare, ...] | Refusal:
    return ()


def _known(self: ParentChecks, tenant: str, spec: JobSpec) -> bool:
    return True


def _only_news(self: Releases) -> None:
    """A new leader looks at what changes from then on."""


def _skips_are_no_news(self: Releases, state: JobState) -> None:
    if state.phase != "SKIPPED":
        _tell_children(self, state)


def _counts_all(self: FlowIndex, flow: str) -> int:
    """The last job waits for itself as well."""
    return sum(state.phase not in TERMINAL for state in self.states(flow))


def _by_wall_clock(self: Releases, entry: StateEntry, spec: JobSpec, found: NeedsVerdict) -> Input | None:
    timeout, state = spec.needs_timeout, entry.state
    if found.verdict == "open" and timeout is not None and not state.needs_overdue:
        late = self._clock.wall() - state.submitted_at >= timeout.after_s
        return NeedsOverdue(reason=found.message) if late else None
    return _needs(self, entry, spec, found)


def _by_what_it_knew(self: Releases, entry: StateEntry, spec: JobSpec, found: NeedsVerdict) -> Input | None:
    """The second step judges by the view that it has, which may lag behind the first."""
    timeout = spec.needs_timeout
    if found.verdict == "open" and timeout is not None and entry.state.needs_overdue:
        return NeedsUnmet(reason=found.message, then=timeout.then)
    return _needs(self, entry, spec, found)


def _any_end(on: NeedCondition, parent: ParentStanding | None, at_step: int | None = None) -> Verdict:
    """A job that failed lets those go on that need its success."""
    found = verdict(on, parent, at_step)
    return "met" if found == "impossible" and parent is not None else found


def _unfenced(
    self: Drafting, checked: Checked, before: int, deadline: Any, number: int = 0, of: int = 1
) -> Draft | Refusal:
    """A child is written whatever became of the attempt that submits it."""
    drafted = _drafted(self, checked, before, deadline, number, of)
    if not isinstance(drafted, Draft) or checked.request.child_of is None:
        return drafted
    return changed(drafted, compares=drafted.compares[:1])


def _by_try(parent: str, call: int) -> str:
    return f"child {parent}/{call}-{next(_NUMBERS)}"


MUTANTS: dict[str, Mutant] = {
    "release-uncompared": Mutant(
        "a release is written without comparing the job's record",
        ("E19", "E15", "E2", "E3", "E4", "E18"),
        replace(Transitions, "_draft", _uncompared),
        case="late-release",
    ),
    "child-without-parent": Mutant(
        "a job is made to wait for one that is not kept",
        ("E19",),
        together(replace(ParentChecks, "compares", _no_compares), replace(ParentChecks, "known", _known)),
        case="unknown-parent",
    ),
    "release-lost": Mutant(
        "a new leader does not look at what waits already",
        ("E19", "E11"),
        replace(Releases, "_begin", _only_news),
        case="release-lost",
    ),
    "skip-untold": Mutant(
        "what waits for a skipped job is never told",
        ("E19", "E11"),
        replace(Releases, "_tell_children", _skips_are_no_news),
        case="skipped-chain",
    ),
    "last-job-never": Mutant(
        "the last job of a workflow is never run",
        ("E19",),
        replace(FlowIndex, "others_open", _counts_all),
        case="last-job",
    ),
    "timeout-by-wall-clock": Mutant(
        "needs are given up by a clock that can be set",
        ("E19",),
        replace(Releases, "_needs", _by_wall_clock),
        case="set-clock",
    ),
    "timeout-by-old-view": Mutant(
        "needs are given up by what the leader knew before their time was over",
        ("E19",),
        replace(Releases, "_needs", _by_what_it_knew),
        case="late-timeout",
    ),
    "released-by-any-end": Mutant(
        "a failed parent releases what needs its success",
        ("E19",),
        replace(needs_verdict, "verdict", _any_end),
        case="skipped-chain",
    ),
    "child-without-fence": Mutant(
        "an attempt that is over submits a job all the same",
        ("E26",),
        replace(Drafting, "draft", _unfenced),
        case="late-child",
    ),
    "call-made-twice": Mutant(
        "the next attempt's call makes another job",
        ("E26",),
        replace(children, "request_id", _by_try),
        case="repeated-call",
    ),
}
