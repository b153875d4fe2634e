"""Lists of jobs: filters, order, pages, and why those wait that have not begun."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec.structs import replace

from ares.api.jobs import JobPage, Waiting
from ares.api.usage import Use
from ares.control.flow.waiting_reasons import WaitingReasons
from ares.control.scheduler.cluster_view import LiveCluster
from ares.control.scheduler.deadlines import Deadlines
from ares.control.state.cursors import Cursors
from ares.control.state.index import JobIndex, Place
from ares.control.state.pacing import LOOKED_AT, WORKED_ON, breathe
from ares.control.state.view import View
from ares.core import keys
from ares.core.lifecycle.updates import in_force
from ares.core.lifecycle.usage_report import use_of
from ares.core.refusal import Refusal
from ares.model.base import Record
from ares.model.job import JobSpec
from ares.model.state import BOUND, TERMINAL, ArrayRecord, JobState, Phase
from ares.ports.clock import Clock
from ares.ports.store import Store

# Up to this many live jobs are sorted for a list; beyond, walking all jobs finds some soon enough.
_LIVE_FEW = 2000
# Places that one page looks at: a rare find among many jobs takes several pages, some of them empty.
_LOOKED_MAX = 100_000
# Jobs are ordered by their commit. Clocks of replicas that wrote them may differ by this much.
_CLOCKS_APART_S = 3600.0


class JobQuery(Record, frozen=True):
    """What to list. Empty filters let everything through."""

    phases: frozenset[Phase] = frozenset()
    name: str | None = None
    labels: dict[str, str] = {}
    array: str | None = None
    node: str | None = None
    # Submitted by this user, and within these wall-clock times.
    user: str | None = None
    since: float | None = None
    until: float | None = None
    # Without what else can be said about each.
    bare: bool = False
    # "whole" lists an array once, as if it were one job; it is found when any of its tasks would be.
    arrays: Literal["tasks", "whole"] = "tasks"
    sort: Literal["submitted", "-submitted"] = "-submitted"
    limit: int = 100
    cursor: str = ""


class Listing:
    """Lists jobs from the view as it is. The caller has caught up before."""

    def __init__(
        self,
        store: Store,
        view: View,
        planner: LiveCluster,
        deadlines: Deadlines,
        reasons: WaitingReasons,
        cursors: Cursors,
        clock: Clock,
    ) -> None:
        self._reasons = reasons
        self._store = store
        self._view = view
        self._planner = planner
        self._deadlines = deadlines
        self._cursors = cursors
        self._clock = clock
        self._index = JobIndex(store, view)

    async def page(self, tenant: str, query: JobQuery) -> JobPage | Refusal:
        start = self._cursors.read(tenant, query.cursor)
        if isinstance(start, Refusal):
            return start
        order, wanted = await self._candidates(tenant, query), query.limit + 1
        rows: list[tuple[Place, Sequence[JobState]]] = []
        last, looked = self._beginning(order, query) if start is None else start, 0
        # The order moves on between two strides: each begins at the last place again.
        while len(rows) < wanted and (stride := _stride(order, last, query.sort)):
            for place in stride:
                if (row := self._row(place[1], query)) and self._fits(row, query):
                    rows.append((place, row))
                if len(rows) == wanted:
                    break
            last, looked = stride[-1], looked + len(stride)
            if self._beyond(last, query):
                break
            if looked >= _LOOKED_MAX and len(rows) < wanted:
                return await self._page([row for _, row in rows], query, self._cursors.make(tenant, last))
            await breathe()
        more = len(rows) == wanted
        cursor = self._cursors.make(tenant, rows[-2][0]) if more else ""
        return await self._page([row for _, row in (rows[:-1] if more else rows)], query, cursor)

    def _beginning(self, order: Sequence[Place], query: JobQuery) -> Place | None:
        """The place before the first that the query's times allow, found by halving."""
        if query.array is not None:
            return None
        if query.sort == "submitted" and query.since is not None:
            first = bisect_left(order, query.since - _CLOCKS_APART_S, key=self._submitted_at)
            return order[first - 1] if first else None
        if query.sort == "-submitted" and query.until is not None:
            end = bisect_right(order, query.until + _CLOCKS_APART_S, key=self._submitted_at)
            return order[end] if end < len(order) else None
        return None

    def _beyond(self, place: Place, query: JobQuery) -> bool:
        """Whether no later place of the list can be within the query's times."""
        at = self._submitted_at(place)
        if query.array is not None or not at:
            return False
        if query.sort == "submitted":
            return query.until is not None and at > query.until + _CLOCKS_APART_S
        return query.since is not None and at < query.since - _CLOCKS_APART_S

    def _submitted_at(self, place: Place) -> float:
        entry = self._view.entries.get(place[1])
        # The oldest are forgotten first.
        return 0.0 if entry is None else entry.state.submitted_at

    def _fits(self, row: Sequence[JobState], query: JobQuery) -> bool:
        if not any(_matches(state, query) for state in row):
            return False
        return not query.labels or self._index.has(row[0], query.labels)

    async def _page(self, rows: list[Sequence[JobState]], query: JobQuery, cursor: str) -> JobPage:
        if query.bare:
            return JobPage(jobs=tuple(row[0] for row in rows), cursor=cursor)
        jobs: list[JobState] = []
        waiting: dict[str, Waiting] = {}
        counts: dict[str, dict[Phase, int]] = {}
        used: dict[str, Use] = {}
        at_risk: list[str] = []
        mock: list[str] = []
        now, done = self._clock.wall(), 0
        for row in rows:
            array = self._array(row[0], query)
            state = self.shown(row[0]) if array is None else whole(array, row)
            jobs.append(state)
            if array is not None:
                counts[array.id] = count(row)
            elif state.attempt:
                used[state.id] = use_of((state,), now)
            if why := await self.waiting(row):
                waiting[state.id] = why
            if self._deadlines.at_risk(state):
                at_risk.append(state.id)
            if self.on_mock_gpus(row[0]):
                mock.append(state.id)
            done += len(row)
            if done >= WORKED_ON:
                done = 0
                await breathe()
        return JobPage(
            jobs=tuple(jobs), cursor=cursor, waiting=waiting, array_counts=counts, used=used, at_risk=tuple(at_risk),
            mock_gpus=tuple(mock),
        )  # fmt: skip

    def _row(self, job: str, query: JobQuery) -> Sequence[JobState]:
        """The job, or all tasks of the array whose place in the list it holds; nothing of one that is gone."""
        entry = self._view.entries.get(job)
        if entry is None:
            return ()
        array = self._array(entry.state, query)
        if array is None:
            return (entry.state,)
        return self.tasks(array) if self._head(job) == job else ()

    def _array(self, state: JobState, query: JobQuery) -> ArrayRecord | None:
        if query.arrays == "tasks" or state.array is None:
            return None
        return self._view.arrays.get(state.array)

    def shown(self, state: JobState) -> JobState:
        """The state as the tenant may see it: of the jobs preempted for it, only the tenant's own are named."""
        if not state.evicting:
            return state
        found = [self._view.entries.get(job) for job in state.evicting]
        mine = (entry.state.id for entry in found if entry is not None and entry.state.tenant == state.tenant)
        return replace(state, evicting=tuple(mine))

    def on_mock_gpus(self, state: JobState) -> bool:
        """Whether GPUs it holds or held are mock ones, as far as their nodes are known."""
        found = (self._view.nodes.get(place.node) for place in state.placements if place.gpus)
        return any(node is not None and any(gpu.vendor == "mock" for gpu in node.info.gpus) for node in found)

    def tasks(self, array: ArrayRecord) -> list[JobState]:
        return [self._view.entries[job].state for job in self._view.by_array.get(array.id, ())]

    async def waiting(self, tasks: Iterable[JobState]) -> Waiting | None:
        """Tasks of an array ask for the same: what holds back one holds back all that are pending."""
        tasks = tuple(tasks)
        first = next((task for task in tasks if task.phase in ("PENDING", "WAITING")), None)
        if first is None:
            # On a node it may wait for bytes.
            first = next((task for task in tasks if task.phase in BOUND and self._reasons.of(task, None)), None)
        if first is None:
            return None
        pending = first.phase == "PENDING"
        reason = self._planner.reason(first.id) if pending else self._reasons.of(first, self._view.spec(first))
        if reason is None:
            return None
        eta = await self._planner.eta(first.id) if pending else None
        return Waiting(code=reason.code, remedy=reason.remedy, message=reason.message, numbers=reason.numbers, eta=eta)

    async def _candidates(self, tenant: str, query: JobQuery) -> Sequence[Place]:
        """The tenant's jobs in order: those of an array, of a name or a label, the live ones if few, or all."""
        live = self._view.live.get(tenant, set())
        if query.array is not None:
            return self._in_order_of_index(tenant, query.array)
        if query.name is not None or query.labels or query.user is not None:
            named = None if query.name is None else self._index.named(tenant, query.name)
            labelled = await self._index.labelled(tenant, query.labels) if query.labels else None
            theirs = None if query.user is None else await self._index.submitted_by(tenant, query.user)
            return min((found for found in (named, labelled, theirs) if found is not None), key=len)
        if not query.phases or query.phases & TERMINAL or len(live) > _LIVE_FEW:
            return self._view.order.get(tenant, [])
        some = live if query.arrays == "tasks" else {self._head(job) for job in live}
        return sorted((self._view.entries[job].create_revision, job) for job in some)

    def _in_order_of_index(self, tenant: str, array_id: str) -> Sequence[tuple[int, str]]:
        array = self._view.arrays.get(array_id)
        if array is None or array.tenant != tenant:
            return ()
        return sorted((task.index or 0, task.id) for task in self.tasks(array))

    def _head(self, job: str) -> str:
        """The task that holds the place of its whole array in a list; any other job holds its own."""
        array, is_task, _ = job.partition("_")
        return self._view.by_array[array][0] if is_task else job

    async def spec(self, state: JobState) -> JobSpec | None:
        spec = self._view.spec(state)
        if spec is not None:
            return spec
        kv = await self._store.get(keys.job(state.tenant, state.array or state.id))
        return None if kv is None else in_force(self._view.decode_spec(kv.value), state)


def _stride(order: Sequence[Place], last: Place | None, sort: str) -> Sequence[Place]:
    """The next places after `last` in that direction."""
    if sort == "submitted":
        first = 0 if last is None else bisect_right(order, last)
        return order[first : first + LOOKED_AT]
    end = len(order) if last is None else bisect_left(order, last)
    return order[max(0, end - LOOKED_AT) : end][::-1]


def _matches(state: JobState, query: JobQuery) -> bool:
    if query.phases and state.phase not in query.phases:
        return False
    if query.name is not None and state.name != query.name:
        return False
    if query.array is not None and state.array != query.array:
        return False
    if query.user is not None and state.submitted_by != query.user:
        return False
    if query.since is not None and state.submitted_at < query.since:
        return False
    if query.until is not None and state.submitted_at > query.until:
        return False
    return query.node is None or any(p.node == query.node for p in state.placements)


def count(tasks: Iterable[JobState]) -> dict[Phase, int]:
    """How many tasks are in which phase."""
    return dict(Counter(task.phase for task in tasks))


def whole(array: ArrayRecord, tasks: Sequence[JobState]) -> JobState:
    """An array as if it were one job: it ends when its last task ends, as badly as its worst."""
    phase = _worst([task.phase for task in tasks], array.tasks)
    ended = (task.ended_at for task in tasks if task.ended_at is not None) if phase in TERMINAL else ()
    return JobState(
        id=array.id,
        tenant=array.tenant,
        name=array.name,
        phase=phase,
        submitted_by=array.submitted_by,
        submitter_id=array.submitter_id,
        trace=array.trace,
        submitted_at=array.submitted_at,
        queued_at=array.submitted_at,
        started_at=min((t.started_at for t in tasks if t.started_at is not None), default=None),
        ended_at=max(ended, default=None),
    )


_WORST_FIRST: tuple[Phase, ...] = ("UNKNOWN", "FAILED", "CANCELLED", "SKIPPED", "SUCCEEDED")


def _worst(phases: list[Phase], expected: int) -> Phase:
    ended = len(phases) == expected and all(phase in TERMINAL for phase in phases)
    if ended:
        return next(phase for phase in _WORST_FIRST if phase in phases)
    if phases and all(phase == "WAITING" for phase in phases):
        return "WAITING"
    return "PENDING" if all(phase in ("PENDING", "WAITING") for phase in phases) else "RUNNING"
