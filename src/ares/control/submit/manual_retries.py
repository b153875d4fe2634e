"""How often a finished job was run again by hand, and by which requests: counted before it is done."""

from collections.abc import Callable

import msgspec

from ares.core import keys
from ares.core.lifecycle.handlers import MANUAL_RETRIES_MAX
from ares.core.refusal import Refusal
from ares.model.state import JobState, RetryBudget
from ares.ports.store import Committed, Compare, Put, Store

# Requests that are remembered of those that made a waiting job go on.
_HURRIED_MAX = 32


class Retries:
    """One record for a job and all that came of it. A crash after counting costs a retry and never grants one; with a
    request id it costs nothing, for the repeat goes on where the first ended."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def spend(self, state: JobState, request_id: str) -> tuple[RetryBudget, int] | Refusal:
        """The number of the retry among those of its lineage: a new one, or that of the same request before."""

        def spent(budget: RetryBudget) -> RetryBudget | Refusal:
            if len(budget.jobs) >= MANUAL_RETRIES_MAX:
                many = f"job {budget.root} was retried {len(budget.jobs)} times by hand"
                return Refusal(code="budget-exhausted", message=f"{many}, the limit is {MANUAL_RETRIES_MAX}")
            # A version from before did not note requests.
            unnoted = ("",) * (len(budget.jobs) - len(budget.requests))
            return msgspec.structs.replace(
                budget, jobs=(*budget.jobs, state.id), requests=(*budget.requests, *unnoted, request_id)
            )

        while True:
            budget, revision = await self._read(state)
            if request_id and request_id in budget.requests:
                number = budget.requests.index(request_id) + 1
                return (budget, number) if budget.jobs[number - 1] == state.id else _used(request_id)
            changed = await self._write(budget, revision, state.tenant, spent)
            if isinstance(changed, Refusal):
                return changed
            if changed is not None:
                return changed, len(changed.jobs)

    async def hurried(self, state: JobState, request_id: str) -> bool:
        """Whether this request made the job go on before."""
        budget, _ = await self._read(state)
        return f"{request_id} {state.id}" in budget.hurried

    async def hurry(self, state: JobState, request_id: str) -> None:
        """Notes that it is about to."""
        name = f"{request_id} {state.id}"

        def noted(budget: RetryBudget) -> RetryBudget:
            return msgspec.structs.replace(budget, hurried=(*budget.hurried, name)[-_HURRIED_MAX:])

        while True:
            budget, revision = await self._read(state)
            if name in budget.hurried or await self._write(budget, revision, state.tenant, noted) is not None:
                return

    async def _read(self, state: JobState) -> tuple[RetryBudget, int]:
        root = state.retry_of or state.id
        kv = await self._store.get(keys.retry(state.tenant, root))
        return (RetryBudget(root=root), 0) if kv is None else (_decode(kv.value), kv.mod_revision)

    async def _write(
        self, budget: RetryBudget, revision: int, tenant: str, change: Callable[[RetryBudget], RetryBudget | Refusal]
    ) -> RetryBudget | Refusal | None:
        """None: another write came first, or the outcome is unknown; read the record again."""
        changed, key = change(budget), keys.retry(tenant, budget.root)
        if isinstance(changed, Refusal):
            return changed
        guard = Compare(key, "mod_revision", revision)
        written = await self._store.txn([guard], [Put(key, msgspec.json.encode(changed))])
        return changed if isinstance(written, Committed) and written.succeeded else None


def _decode(value: bytes) -> RetryBudget:
    return msgspec.json.decode(value, type=RetryBudget)


def _used(request_id: str) -> Refusal:
    return Refusal(code="request-conflict", message=f"the request id {request_id[:60]!r} retried another job before")
