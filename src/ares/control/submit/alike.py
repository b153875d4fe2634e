"""Requests of a batch that ask for the same. What is found for the first of them holds for the others while no other
task has its turn: nothing that it was found by can have changed. After that it is found anew."""

from typing import NamedTuple

from msgspec.structs import replace

from ares.api.deadlines import DeadlineSeen
from ares.control.state.view import View
from ares.control.submit.draft import Checked, Draft, Drafting, SubmitRequest, kept_digest
from ares.control.submit.estimates import Estimated
from ares.core import keys
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.job import JobSpec
from ares.model.state import JobState, LedgerEvent
from ares.ports.clock import Clock
from ares.ports.store import Put
from ares.ports.telemetry import Telemetry


class LikeJob(NamedTuple):
    """A job that was drafted, as far as the next one like it does not differ."""

    # As policies left it, which is as it is kept, and its bytes.
    spec: JobSpec
    encoded: bytes
    estimated: Estimated
    # Of what the client sent under a request id, and of what is kept where that differs.
    digest: str
    kept_digest: str
    # Of a job without id, request id and trace.
    state: JobState
    event: LedgerEvent
    # So many jobs of the tenant there may be still.
    left: int

    def holds_for(self, checked: Checked, before: int) -> bool:
        """`before`: jobs that come before it."""
        named = checked.request.request_id is not None
        return checked.judged.spec is self.spec and bool(self.digest) is named and before < self.left


class Alike:
    """What was found until now, by the object of the specification: requests with equal bytes share one
    (`StrictDecoder`), and the caller holds them all. It makes a new one of these after each pause."""

    def __init__(self, drafting: Drafting, view: View, clock: Clock, telemetry: Telemetry) -> None:
        self._drafting = drafting
        self._view = view
        self._clock = clock
        self._telemetry = telemetry
        self._checked: dict[int, Checked] = {}
        self._drafted: dict[int, LikeJob] = {}

    def anew(self) -> "Alike":
        """For the time after a pause."""
        return Alike(self._drafting, self._view, self._clock, self._telemetry)

    def check(self, who: Principal, request: SubmitRequest) -> Checked | Refusal:
        like = self._checked.get(id(request.spec))
        if like is not None and request.retry_of is None:
            return like._replace(request=request)
        found = self._drafting.check(who, request)
        if isinstance(found, Checked) and request.retry_of is None and not self._drafting.is_judged(who.tenant):
            self._checked[id(request.spec)] = found
        return found

    def draft(
        self, checked: Checked, before: int, deadline: DeadlineSeen | None, number: int, of: int
    ) -> Draft | Refusal:
        plain = deadline is None and _is_plain(checked)
        like = self._drafted.get(id(checked.request.spec)) if plain else None
        if like is not None and like.holds_for(checked, before):
            return self._draft_as(like, checked, number, of)
        drafted = self._drafting.draft(checked, before, deadline, number, of)
        if plain and isinstance(drafted, Draft) and drafted.spec is checked.judged.spec:
            self._drafted[id(checked.request.spec)] = self._like(drafted)
        return drafted

    def _like(self, draft: Draft) -> LikeJob:
        checked, spec, drafting = draft.checked, draft.spec, self._drafting
        begun = drafting.begun(checked, spec, draft.estimated, "", "")
        return LikeJob(
            spec, drafting.known.of(spec).encoded, draft.estimated, draft.digest, kept_digest(checked.request, spec),
            begun.state, begun.events[0], drafting.room.left(checked.who.tenant),
        )  # fmt: skip

    def _draft_as(self, like: LikeJob, checked: Checked, number: int, of: int) -> Draft:
        drafting, request, tenant, now = self._drafting, checked.request, checked.who.tenant, self._clock.wall()
        new_id = drafting.new_id(number, of)
        spec_op = Put(keys.job(tenant, new_id), like.encoded)
        compares, request_ops = drafting.claim(tenant, request.request_id, like.digest, new_id, like.kept_digest)
        trace = self._telemetry.new_trace(request.trace)
        state = replace(
            like.state, id=new_id, request_id=request.request_id, trace=trace, submitted_at=now, queued_at=now
        )
        state_op = Put(keys.state(tenant, new_id), drafting.encode(state))
        event_op = Put(keys.event(tenant, new_id, 1), drafting.encode(replace(like.event, job=new_id, at=now)))
        self._view.decoded.expect(state, state_op.value, like.spec, spec_op.value, self._view.kept.isolation(tenant))
        ops = (*request_ops, spec_op, state_op, event_op)
        return Draft(ops, compares, checked, like.spec, like.estimated, like.digest, new_id)


def _is_plain(checked: Checked) -> bool:
    """Whether nothing but its specification tells it from others of its submitter."""
    request = checked.request
    return (
        checked.indices is None and checked.restores is None and not request.spec.needs and not request.note
        and request.child_of is None and request.retry_of is None and not request.manual_retries
    )  # fmt: skip
