"""Reading and steering workflows, always within the asker's tenant."""

from msgspec.structs import replace

from ares.api.flows import FlowDetail, FlowEdge, FlowJob
from ares.control.execution.transitions import JobChange, Transitions
from ares.control.flow.abandoned import AbandonedFlows
from ares.control.flow.child_index import ChildIndex
from ares.control.flow.flow_index import FlowIndex
from ares.control.flow.submission import AcceptedFlow, FlowRequest, FlowSubmission
from ares.control.state.pacing import WORKED_ON, breathe
from ares.control.state.view import View
from ares.core import keys
from ares.core.access.table import reaches, scope_of
from ares.core.lifecycle.inputs import Cancel
from ares.core.needs.standing import ParentStanding, standing, standing_of_array
from ares.core.needs.verdict import judge
from ares.core.needs.workflow import descendants, renamed
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.job import JobSpec, Need
from ares.model.state import TERMINAL, FlowRecord, JobState, Phase
from ares.ports.clock import Clock
from ares.ports.store import Store

# Which are cancelled first: what waits must not be released by the end of what runs. The last pass takes all that are
# left: an attempt that ended meanwhile has put its job back among those of the passes before.
_CANCELLED_FIRST: tuple[tuple[Phase, ...], ...] = (
    ("WAITING",), ("PENDING", "RETRYING", "PREEMPTED"),
    ("WAITING", "PENDING", "RETRYING", "PREEMPTED", "STAGING", "RUNNING"),
)  # fmt: skip


class Workflows:
    """Another tenant's workflow and one that does not exist are the same answer: None."""

    def __init__(
        self,
        store: Store,
        view: View,
        index: FlowIndex,
        children: ChildIndex,
        submission: FlowSubmission,
        transitions: Transitions,
        clock: Clock,
    ) -> None:
        self.abandoned = AbandonedFlows(store, view, index, clock)
        self._store = store
        self._view = view
        self._index = index
        self._children = children
        self._submission = submission
        self._transitions = transitions

    async def submit(self, who: Principal, request: FlowRequest) -> AcceptedFlow | Refusal:
        return await self._submission.submit(who, request)

    async def get(self, who: Principal, flow_id: str) -> FlowDetail | None:
        await self._view.catch_up()
        record = self._mine(who, flow_id)
        return None if record is None else await self._detail(who, record)

    async def cancel(self, who: Principal, flow_id: str, reason: str = "") -> FlowDetail | Refusal | None:
        """Ends all its jobs but those that run when the others have ended."""
        await self._view.catch_up()
        record = self._mine(who, flow_id)
        if record is None:
            return None
        if not reaches(who, "jobs:cancel", record.tenant, record.submitted_by, record.submitter_id):
            return _not_yours(flow_id)
        what = Cancel(by=who.subject, reason=reason or f"workflow {flow_id} was cancelled by {who.subject}")
        for phases in _CANCELLED_FIRST:
            states = [s for s in self._index.states(flow_id) if s.phase in phases and not s.is_finally]
            await self._transitions.apply([JobChange(state.id, state.tenant, (what,)) for state in states])
        await self._view.catch_up()
        return await self._detail(who, record)

    async def retry(
        self, who: Principal, flow_id: str, first: tuple[str, ...], request_id: str | None
    ) -> AcceptedFlow | Refusal | None:
        """A new workflow of these jobs and all that come after them; without names, of all that did not succeed."""
        await self._view.catch_up()
        record = self._mine(who, flow_id)
        if record is None:
            return None
        if not reaches(who, "jobs:retry", record.tenant, record.submitted_by, record.submitter_id):
            return _not_yours(flow_id)
        specs, states = await self._jobs(record)
        names = {job: spec.name for job, spec in specs.items()}
        jobs = {spec.name: replace(spec, needs=renamed(spec, names)) for spec in specs.values()}
        unknown = [name for name in first if name not in jobs]
        if unknown:
            message = f"workflow {flow_id} has no job {unknown[0]!r}"
            return Refusal(code="flow-invalid", message=message, fix=f"see its jobs with `ares flow show {flow_id}`")
        chosen = first or tuple(specs[job].name for job, ended in states.items() if ended != "SUCCEEDED")
        if not chosen:
            message = f"all jobs of workflow {flow_id} have succeeded"
            return Refusal(code="not-allowed", message=message, fix="name the jobs to run again: --from NAME")
        again = descendants(jobs, chosen)
        open_ = [names[job] for job, ended in states.items() if names[job] in again and ended not in TERMINAL]
        if open_:
            message = f"job {open_[0]!r} of workflow {flow_id} has not ended ({len(open_)} have not)"
            return Refusal(code="not-allowed", message=message, fix=f"wait, or `ares flow cancel {flow_id}` first")
        kept = {
            name: self._freed(jobs[name], again, {names[job]: job for job in names}) for name in jobs if name in again
        }
        request = FlowRequest(jobs=kept, name=record.name, request_id=request_id, retry_of=record.id)
        return await self._submission.submit(who, request)

    def _freed(self, spec: JobSpec, again: set[str], ids: dict[str, str]) -> JobSpec:
        """Without needs that were met by jobs that do not run again; others go on by these jobs' ids."""
        outside = {name: ids[name] for name in ids if name not in again}
        needs: list[Need] = []
        for need in spec.needs:
            inside = [name for name in need.parents if name in again]
            (renamed_need,) = renamed(replace(spec, needs=(need,)), outside)
            alone = replace(spec, needs=(renamed_need,))
            if inside or judge(alone, None, self._standing).verdict != "met":
                needs.append(renamed_need)
        # Its deadline may be over by now.
        return replace(spec, needs=tuple(needs), deadline_at=None, start_by_at=None, begin_at=None, held=False)

    def _standing(self, parent: str) -> ParentStanding | None:
        entry, array = self._view.entries.get(parent), self._view.arrays.get(parent)
        if entry is not None:
            return standing(entry.state)
        tasks = self._view.by_array.get(parent, ())
        return None if array is None else standing_of_array(array.tasks, [self._view.entries[t].state for t in tasks])

    # ---- reading

    def _mine(self, who: Principal, flow_id: str) -> FlowRecord | None:
        record = self._view.kept.flows.get(flow_id)
        return None if record is None or record.tenant != who.tenant else record

    async def _jobs(self, record: FlowRecord) -> tuple[dict[str, JobSpec], dict[str, Phase]]:
        """Specifications and phases by id; an array is one job."""
        rows: dict[str, list[JobState]] = {}
        for state in self._index.states(record.id):
            rows.setdefault(state.array or state.id, []).append(state)
        specs: dict[str, JobSpec] = {}
        for place, (job, states) in enumerate(rows.items()):
            if place % WORKED_ON == WORKED_ON - 1:
                await breathe()
            spec = self._view.spec(states[0])
            if spec is None:
                kv = await self._store.get(keys.job(record.tenant, job))
                spec = None if kv is None else self._view.decode_spec(kv.value)
            if spec is not None:
                specs[job] = spec
        return specs, {job: _phase(rows[job]) for job in specs}

    async def _detail(self, who: Principal, record: FlowRecord) -> FlowDetail:
        specs, phases = await self._jobs(record)
        facts = scope_of(who, "jobs:read") == "facts"
        jobs: list[FlowJob] = []
        for job, spec in specs.items():
            entry = self._view.entries.get(job)
            state = None if entry is None else entry.state
            edges = tuple(
                FlowEdge(job=specs[parent].name if parent in specs else parent, on=need.on)
                for need in spec.needs
                for parent in need.parents
            )
            jobs.append(
                FlowJob(
                    name=spec.name,
                    id=job,
                    phase=phases[job],
                    tasks=len(self._view.by_array.get(job, ())) if state is None else 1,
                    needs=edges,
                    is_finally=spec.finally_,
                    reason="" if state is None or facts else state.reason,
                    started_at=None if state is None else state.started_at,
                    ended_at=None if state is None else state.ended_at,
                    child_counts=_counts(self._children.children(job)),
                )
            )
        counts = _counts(self._index.states(record.id))
        return FlowDetail(
            id=record.id, name=record.name, submitted_by=record.submitted_by, submitted_at=record.submitted_at,
            whole=record.whole, retry_of=record.retry_of, counts=counts, jobs=tuple(jobs),
        )  # fmt: skip


def _counts(states: list[JobState]) -> dict[Phase, int]:
    counts: dict[Phase, int] = {}
    for state in states:
        counts[state.phase] = counts.get(state.phase, 0) + 1
    return counts


def _phase(states: list[JobState]) -> Phase:
    """Of a job, or of an array as a whole: its worst end, or what it does now."""
    if len(states) == 1:
        return states[0].phase
    phases = {state.phase for state in states}
    order: tuple[Phase, ...] = (
        "RUNNING", "STAGING", "RETRYING", "PREEMPTED", "PENDING", "WAITING",
        "UNKNOWN", "FAILED", "CANCELLED", "SKIPPED", "SUCCEEDED",
    )  # fmt: skip
    return next(phase for phase in order if phase in phases)


def _not_yours(flow_id: str) -> Refusal:
    return Refusal(code="not-yours", message=f"workflow {flow_id} is another user's; ask them or a tenant-admin")
