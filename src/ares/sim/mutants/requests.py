"""Bugs in taking requests in: one request, several jobs, or none."""
# pyright: reportPrivateUsage=false

from collections.abc import Sequence

from ares.control.state.commit import Full, Writer
from ares.control.submit.arrays import Expanding
from ares.control.submit.draft import begin_ops
from ares.control.submit.manual_retries import Retries
from ares.core import keys
from ares.core.refusal import Refusal
from ares.model.job import JobSpec
from ares.model.state import ArrayRecord, JobState, RetryBudget
from ares.ports.store import Committed, Compare, Op, Put, StoreError, StoreUnavailable, Unknown
from ares.sim.mutants.mutant import Mutant
from ares.sim.mutants.patching import replace

_once, _until_known, _request = Writer.once, Writer.until_known, keys.request
_EXPIRES_S = 3.0


def _submits(compares: Sequence[Compare]) -> bool:
    """Whether it is a submission without a quota: its first compare is its own."""
    return compares[0].key.startswith((keys.REQUESTS, keys.JOBS))


async def _check_then_create(
    self: Writer, compares: Sequence[Compare], ops: Sequence[Op], otherwise: Sequence[Op] = ()
) -> Committed | Unknown:
    if not otherwise or not compares[0].key.startswith(keys.REQUESTS):
        return await _once(self, compares, ops, otherwise)
    kv = await self._store.get(compares[0].key)
    if kv is not None:
        return Committed(succeeded=False, revision=kv.mod_revision, gets=(kv,))
    return await self._store.txn([], ops)


async def _with_expiry(
    self: Writer, compares: Sequence[Compare], ops: Sequence[Op], otherwise: Sequence[Op] = ()
) -> Committed | Unknown:
    if not _submits(compares):
        return await _once(self, compares, ops, otherwise)
    lease = await self._store.grant_lease(_EXPIRES_S)

    def expiring(op: Op) -> Op:
        return Put(op.key, op.value, lease) if isinstance(op, Put) and op.key.startswith(keys.REQUESTS) else op

    return await _once(self, compares, [expiring(op) for op in ops], otherwise)


async def _acknowledge_anyway(
    self: Writer,
    compares: Sequence[Compare],
    ops: Sequence[Op],
    otherwise: Sequence[Op] = (),
    until: float | None = None,
    in_doubt: bool = False,
) -> Committed | Unknown | Full:
    if not _submits(compares):
        return await _until_known(self, compares, ops, otherwise, until, in_doubt)
    try:
        written = await self.once(compares, ops, otherwise)
    except StoreError as error:
        written = Unknown(str(error))
    return written if isinstance(written, Committed) else Committed(succeeded=True, revision=1)


def _for_all_tenants(tenant: str, request_id: str) -> str:
    return _request("any", request_id)


async def _expand_blindly(
    self: Expanding, array: ArrayRecord, unexpanded: Compare, spec: JobSpec, chunk: Sequence[int]
) -> None:
    begun = [self._begin_task(array, spec, index) for index in chunk]
    written = await self._store.txn([], [op for task in begun for op in begin_ops(task, self._encode)])
    if isinstance(written, Unknown):
        raise StoreUnavailable(written.why)


async def _write_nothing(
    self: Writer, compares: Sequence[Compare], ops: Sequence[Op], otherwise: Sequence[Op] = ()
) -> Committed | Unknown:
    if not _submits(compares):
        return await _once(self, compares, ops, otherwise)
    return Committed(succeeded=True, revision=1)


_spend = Retries.spend


async def _spend_again(self: Retries, state: JobState, request_id: str) -> tuple[RetryBudget, int] | Refusal:
    return await _spend(self, state, "")


MUTANTS = {
    "canary": Mutant(
        "submissions are acknowledged and never written", ("E1",), replace(Writer, "once", _write_nothing), seeds=3
    ),
    "dedup-check-then-create": Mutant(
        "a request is looked up, then its job is created", ("E1",), replace(Writer, "once", _check_then_create)
    ),
    "dedup-expires": Mutant(
        f"a request is forgotten after {_EXPIRES_S:g} s", ("E1",), replace(Writer, "once", _with_expiry)
    ),
    "request-without-tenant": Mutant(
        "request ids of all tenants are one", ("E1",), replace(keys, "request", _for_all_tenants)
    ),
    "unknown-submit-acknowledged": Mutant(
        "a submission whose outcome is unknown is acknowledged",
        ("E1",),
        replace(Writer, "until_known", _acknowledge_anyway),
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
