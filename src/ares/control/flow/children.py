"""Jobs that running jobs submit.

A job has no credential. Its agent passes its calls on; the node proves itself, and the job's record says whether the
attempt is the current one, whose job it is and what it may do. The creating transaction compares that record, so an
attempt that lost its fence makes no job. The request id is the parent's id and the call's number: a repeated attempt
gets the jobs of the one before.
"""

import asyncio

import msgspec
import structlog
from msgspec.structs import replace

from ares.control.access.account_check import AccountCheck
from ares.control.execution.commands import grants
from ares.control.execution.transitions import JobChange, Transitions
from ares.control.flow.child_index import ChildIndex
from ares.control.governance.audit import Audit
from ares.control.state.view import Delta, StateEntry, View
from ares.control.submit.draft import AcceptedJob, SubmitRequest
from ares.control.submit.submit import Submit
from ares.core.access.table import scope_of
from ares.core.access.tokens import denied
from ares.core.admit.children import adopted, too_deep
from ares.core.lifecycle.inputs import Cancel
from ares.core.lifecycle.ranks import place_of
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.audit import AuditDraft
from ares.model.job import JobSpec
from ares.model.job_session import ChildAnswer, ChildCall
from ares.model.state import TERMINAL, ChildOf, JobState
from ares.ports.clock import Clock
from ares.ports.store import StoreError

log = structlog.get_logger()

# The parent's record may change while the child is written: its start is noted, its time limit is changed.
_TRIES = 8
_STORE_PAUSE_S = 0.5
_decode = msgspec.json.Decoder(JobSpec).decode
_STALE = Refusal(
    code="stale-fence",
    message="this attempt is not the current one of its job any more: it can submit nothing",
    fix="let the attempt end; the next one gets the jobs that this one submitted",
)


def request_id(parent: str, call: int) -> str:
    """One for each call of a job, whichever attempt makes it. No client's id has a space in it, so none can take it."""
    return f"child {parent}/{call}"


class Children:
    def __init__(self, view: View, submit: Submit, standing: AccountCheck, audit: Audit, clock: Clock) -> None:
        self._view = view
        self._submit = submit
        self._standing = standing
        self._audit = audit
        self._clock = clock

    async def submit(self, node: Principal, call: ChildCall) -> ChildAnswer:
        """The job that this call makes, or made in an attempt before."""
        try:
            done = await self._made(node, call)
        except StoreError:
            message = "the store did not answer, so the job was not acknowledged; it may exist"
            done = Refusal(code="store-unavailable", message=message, fix="make the same call again")
        if isinstance(done, Refusal):
            self._note(node, call, done.code)
            return ChildAnswer(code=done.code, message=done.message, fix=done.fix)
        self._note(node, call, "", done.job)
        return ChildAnswer(job=done.job, replayed=done.replayed)

    async def _made(self, node: Principal, call: ChildCall) -> AcceptedJob | Refusal:
        try:
            spec = _decode(call.spec)
        except (ValueError, RecursionError) as error:
            return Refusal(code="invalid", message=f"the job cannot be read: {str(error)[:300]}")
        if self._granted(node, call) is None:
            # The grant may have come to another replica a moment ago.
            await self._view.catch_up()
        done: AcceptedJob | Refusal = _STALE
        for _ in range(_TRIES):
            entry = self._granted(node, call)
            if entry is None:
                return _STALE
            done = await self._attempt(entry, call, spec)
            if isinstance(done, AcceptedJob) or done.code != "stale-fence":
                return done
        return replace(done, code="store-unavailable", fix="make the same call again")

    def _granted(self, node: Principal, call: ChildCall) -> StateEntry | None:
        """The job as the view has it, if the attempt is the current one and its first rank is on the caller's node."""
        entry = self._view.entries.get(call.ref.job)
        if entry is None or not entry.state.placements:
            return None
        first = entry.state.placements[0].rank
        place = place_of(entry.state.placements, first)
        current = grants(entry.state, call.ref, first) and place is not None and place.node == node.node
        return entry if current else None

    async def _attempt(self, entry: StateEntry, call: ChildCall, asked: JobSpec) -> AcceptedJob | Refusal:
        state = entry.state
        # As it was submitted: what it is changed to later must not change what a repeated call asks for.
        raw = self._view.specs.get(state.array or state.id)
        parent = None if raw is None else self._view.decode_spec(raw)
        if parent is None or call.call > parent.children:
            most = 0 if parent is None else parent.children
            message = f"job {state.id} may submit {most} jobs, and this is call {call.call}"
            return Refusal(code="not-allowed", message=message, fix="submit it with more: --children N")
        depth = 1 if state.child_of is None else state.child_of.depth + 1
        spec = too_deep(depth) or adopted(parent, asked)
        if isinstance(spec, Refusal):
            return spec
        who = await self._submitter(state)
        if isinstance(who, Refusal):
            message = f"the submitter of job {state.id} may not submit jobs any more ({who.reason or who.code})"
            return Refusal(code="forbidden", message=message, fix="have another user submit the job again")
        made_by = ChildOf(job=state.id, call=call.call, fence=state.fence, depth=depth, detached=call.detached)
        request = SubmitRequest(
            spec=spec, request_id=request_id(state.id, call.call), trace=state.trace, child_of=made_by,
            parent_revision=entry.mod_revision,
        )  # fmt: skip
        (done,) = await self._submit.submit(who, [request])
        if isinstance(done, Refusal) and done.code == "request-conflict":
            message = f"call {call.call} of job {state.id} submitted another job in an earlier attempt"
            fix = "number the calls yourself: submit(..., call=N), each job by its own number in every attempt"
            return replace(done, message=message, fix=fix)
        return done

    async def _submitter(self, state: JobState) -> Principal | Refusal:
        """The account that the parent is counted for, as it stands by now, with the right to submit and no other."""
        if state.submitter_id:
            known = self._view.kept.users.get(f"{state.tenant}/{state.submitted_by}")
            role = "submitter" if known is None else known.role
            who = Principal(token_id="", tenant=state.tenant, role=role, user=state.submitted_by)
        else:
            token = self._view.tokens.get(state.submitted_by)
            over = token is None or token.revoked
            if token is None or over or (token.expires_at is not None and token.expires_at <= self._clock.wall()):
                return denied("revoked", "token_gone")
            who = Principal(
                token_id=state.submitted_by, tenant=state.tenant, role=token.role, permissions=token.permissions
            )
        checked = await self._standing.of(who, state.submitter_id)
        if isinstance(checked, Refusal):
            return checked
        if scope_of(checked, "jobs:submit") is None:
            return denied("revoked", "role")
        return replace(checked, permissions=("jobs:submit",))

    def _note(self, node: Principal, call: ChildCall, refused: str, made: str = "") -> None:
        entry = self._view.entries.get(call.ref.job)
        if entry is None:
            return
        self._audit.tell(
            AuditDraft(
                operation="submitChild", outcome="DENY" if refused else "ALLOW", reason=refused, user=node.node or "",
                role="node", tenant=entry.state.tenant, object=f"jobs/{entry.state.id}",
                made=(f"jobs/{made}",) if made else (),
            )
        )  # fmt: skip


class ChildCancels:
    """Cancels what a cancelled job submitted, unless it was detached. Leader only.

    Nothing is only in memory: a new leader looks at all children. A child that comes while its parent is cancelled
    is not written: the parent's record has changed.
    """

    def __init__(self, view: View, index: ChildIndex, transitions: Transitions, clock: Clock) -> None:
        self._view = view
        self._index = index
        self._transitions = transitions
        self._clock = clock
        self._cancelled: dict[str, None] = {}
        self._wake = asyncio.Event()
        self._leading = False
        view.subscribe(self._on_delta)

    def _on_delta(self, delta: Delta) -> None:
        if not self._leading or not self._index.parents:
            return
        if delta.relisted:
            self._begin()
            return
        for _, entry in delta.states:
            self._look(entry.state)

    def _look(self, state: JobState) -> None:
        if state.phase == "CANCELLED" and state.id in self._index.parents:
            self._cancelled[state.id] = None
            self._wake.set()

    def _begin(self) -> None:
        for parent in self._index.parents:
            entry = self._view.entries.get(parent)
            if entry is not None:
                self._look(entry.state)

    async def run(self) -> None:
        self._leading = True
        try:
            self._begin()
            while True:
                await self._wake.wait()
                self._wake.clear()
                parents, self._cancelled = tuple(self._cancelled), {}
                await self._cancel(parents)
        finally:
            self._leading = False
            self._cancelled.clear()

    async def _cancel(self, parents: tuple[str, ...]) -> None:
        changes = [
            JobChange(child.id, child.tenant, (Cancel(by="controller", reason=f"job {parent} was cancelled"),))
            for parent in parents
            for child in self._index.children(parent)
            if child.phase not in TERMINAL and child.child_of is not None and not child.child_of.detached
        ]
        if not changes:
            return
        try:
            await self._transitions.apply(changes)
        except StoreError as error:
            log.warning("children.delayed", count=len(changes), error=str(error))
            await self._clock.sleep(_STORE_PAUSE_S)
            self._cancelled.update(dict.fromkeys(parents))
            self._wake.set()
