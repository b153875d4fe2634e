"""Bugs in taking requests in: one request, several jobs, or none."""
# pyright: reportPrivateUsage=false

from collections.abc import Sequence

import msgspec

from ares.control.submit.arrays import Expanding
from ares.control.submit.draft import Draft, begin_ops
from ares.control.submit.manual_retries import Retries
from ares.control.submit.submit import Rejected, Submit, Submitted
from ares.core import keys
from ares.core.lifecycle.inputs import Refused
from ares.model.job import JobSpec
from ares.model.state import ArrayRecord, JobState, RetryBudget
from ares.ports.store import Committed, Compare, Op, Put, StoreError, StoreUnavailable, Unknown
from ares.sim.mutants.mutant import Mutant
from ares.sim.mutants.patching import replace

_txn, _request = Submit._txn, keys.request
_EXPIRES_S = 3.0


async def _check_then_create(self: Submit, drafts: Sequence[Draft]) -> Committed | Unknown:
    if len(drafts) > 1 or drafts[0].request.request_id is None:
        return await _txn(self, drafts)
    (draft,) = drafts
    try:
        kv = await self._store.get(draft.compares[0].key)
        if kv is not None:
            return Committed(succeeded=False, revision=kv.mod_revision, gets=(kv,))
        return await self._store.txn([], draft.ops)
    except StoreError as error:
        return Unknown(str(error))


async def _with_expiry(self: Submit, drafts: Sequence[Draft]) -> Committed | Unknown:
    try:
        lease = await self._store.grant_lease(_EXPIRES_S)
    except StoreError as error:
        return Unknown(str(error))

    def expiring(op: Op) -> Op:
        return Put(op.key, op.value, lease) if isinstance(op, Put) and op.key.startswith(keys.REQUESTS) else op

    return await _txn(self, [msgspec.structs.replace(d, ops=tuple(expiring(op) for op in d.ops)) for d in drafts])


async def _acknowledge_anyway(self: Submit, draft: Draft, until: float) -> Submitted | Rejected | None:
    written = await self._txn([draft])
    if isinstance(written, Committed):
        return await self._settle(draft, written)
    return Submitted(job=draft.job, replayed=False)


def _for_all_tenants(tenant: str, request_id: str) -> str:
    return _request("any", request_id)


async def _expand_blindly(
    self: Expanding, array: ArrayRecord, unexpanded: Compare, spec: JobSpec, chunk: Sequence[int]
) -> None:
    begun = [self._begin_task(array, spec, index) for index in chunk]
    written = await self._store.txn([], [op for one in begun for op in begin_ops(one, self._encode)])
    if isinstance(written, Unknown):
        raise StoreUnavailable(written.why)


async def _write_nothing(self: Submit, drafts: Sequence[Draft]) -> Committed | Unknown:
    return Committed(succeeded=True, revision=1)


_spend = Retries.spend


async def _spend_again(self: Retries, state: JobState, request_id: str) -> tuple[RetryBudget, int] | Refused:
    return await _spend(self, state, "")


MUTANTS = {
    "canary": Mutant(
        "submissions are acknowledged and never written", ("E1",), replace(Submit, "_txn", _write_nothing), seeds=3
    ),
    "dedup-check-then-create": Mutant(
        "a request is looked up, then its job is created", ("E1",), replace(Submit, "_txn", _check_then_create)
    ),
    "dedup-expires": Mutant(
        f"a request is forgotten after {_EXPIRES_S:g} s", ("E1",), replace(Submit, "_txn", _with_expiry)
    ),
    "request-without-tenant": Mutant(
        "request ids of all tenants are one", ("E1",), replace(keys, "request", _for_all_tenants)
    ),
    "unknown-submit-acknowledged": Mutant(
        "a submission whose outcome is unknown is acknowledged",
        ("E1",),
        replace(Submit, "_write_alone", _acknowledge_anyway),
    ),
    "retry-without-its-id": Mutant(
        "a retry by hand does not look at its request id: a repeat makes another job",
        ("E1",),
        replace(Retries, "spend", _spend_again),
        case="repeated-retry",
    ),
    "array-expanded-twice": Mutant(
        "the tasks of an array are created without looking whether they exist",
        ("E2", "E3", "E15"),
        replace(Expanding, "_expand_chunk", _expand_blindly),
        case="late-array",
    ),
}
