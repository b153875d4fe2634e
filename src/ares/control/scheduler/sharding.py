"""Several planners: which jobs wait with which of them, which nodes each fills first, and what each has promised.

A job waits with one planner: by the only pool it can run in, then by its tenant. Jobs of one tenant and pool are thus
planned for together, in their order. Where no job may pass another, all wait with the first.
"""

from collections import Counter
from collections.abc import Mapping

from msgspec.structs import replace

from ares.api.decisions import Promise
from ares.control.scheduler.cluster_view import LiveCluster
from ares.control.state.view import Delta, View
from ares.core.ask import Ask
from ares.core.capacity.node_table import POOL_LABEL
from ares.core.queue.order import job_of
from ares.core.queue.planners import chosen, deal
from ares.model.node import NodeRecord
from ares.model.state import JobState

# Kinds of jobs whose pool is remembered; any further one may go to any planner.
_ASKS_MAX = 65_536
# Where more kinds of jobs wait, every planner is asked rather than all looked at.
_CLASSES_MAX = 1_000


class Sharding:
    def __init__(self, planners: int, view: View, live: LiveCluster) -> None:
        self.planners = planners
        self._view = view
        self._live = live
        # Grows when jobs and nodes are dealt out anew: every planner is told everything then.
        self.dealt = 0
        self._pools: dict[str, str] = {}
        self._sizes: Counter[str] = Counter()
        self._size_dealt = 0
        self._planners_of: dict[str, tuple[int, ...]] = {}
        self._all = tuple(range(planners))
        self._pool_of: dict[Ask, str] = {}
        # By planner: starts that it promised and the leader accepted.
        self._promised: list[Mapping[str, Promise]] = [{} for _ in self._all]
        if planners > 1:
            view.subscribe(self._on_delta)

    def planner_of(self, state: JobState) -> int:
        """Whom a waiting job waits with."""
        if self.planners == 1 or "backfill" not in self._live.cluster.profile.actions:
            return 0
        found = self._live.cluster.waiting.class_of(state.id)
        ask = None if found is None else found.key.asks[0]
        if ask is not None and ask.reservation:
            # What is left of a reservation is known to one.
            return chosen(self._all, ask.reservation)
        among = self._all if ask is None else self._planners_of.get(self._pool(ask), self._all)
        return chosen(among, state.tenant)

    def home_of(self, record: NodeRecord) -> int:
        return chosen(self._planners_of.get(record.info.pool, self._all), record.info.name)

    def busy(self) -> list[bool]:
        """Of each planner, whether any job waits with it."""
        if self.planners == 1:
            return [True]
        active, found = self._live.cluster.waiting.active, [False] * self.planners
        if len(active) > _CLASSES_MAX:
            return [True] * self.planners
        for job_class in active.values():
            job = job_of(job_class.line.nth(0))
            if (entry := self._view.entries.get(job)) is not None:
                found[self.planner_of(entry.state)] = True
                if all(found):
                    break
        return found

    # ---- promises

    def promised(self, planner: int) -> dict[str, Promise]:
        """What it promised to jobs that still wait with it: one that was dealt to another planner begins anew there."""
        entries, waiting = self._view.entries, self._live.cluster.waiting
        return {
            job: promise
            for job, promise in self._promised[planner].items()
            if job in waiting and job in entries and self.planner_of(entries[job].state) == planner
        }

    def promise(self, planner: int, promises: Mapping[str, Promise]) -> None:
        self._promised[planner] = promises

    def claimed(self, planner: int) -> dict[str, Promise]:
        """What others than the planner promised to jobs that wait with them: from their start on. Room that a planner
        keeps free before that, for a start that slipped, is kept from its own jobs alone: two planners could wait for
        each other's room for ever."""
        if self.planners == 1:
            return {}
        return {
            job: promise if promise.held_from is None else replace(promise, held_from=None)
            for other in self._all
            if other != planner
            for job, promise in self.promised(other).items()
        }

    # ---- pools

    def _on_delta(self, delta: Delta) -> None:
        if delta.relisted:
            self._pools.clear()
            self._sizes.clear()
            self._promised = [{} for _ in self._all]
        for name in self._view.nodes if delta.relisted else delta.nodes:
            self._put(name)
        # Sizes that changed a little are no reason to tell every planner everything.
        total = len(self._pools)
        if self._sizes.keys() != self._planners_of.keys() or (len(self._sizes) > 1 and total > 2 * self._size_dealt):
            self._planners_of, self._size_dealt = deal(self._sizes, self.planners), total
            self._again()
        elif delta.profile:
            # Whether jobs may pass each other may be another matter now.
            self._again()

    def _again(self) -> None:
        self.dealt += 1
        self._pool_of.clear()

    def _put(self, name: str) -> None:
        before, record = self._pools.pop(name, None), self._view.nodes.get(name)
        if before is not None:
            self._sizes[before] -= 1
            if not self._sizes[before]:
                del self._sizes[before]
        if record is not None:
            self._pools[name] = record.info.pool
            self._sizes[record.info.pool] += 1

    def _pool(self, ask: Ask) -> str:
        """The only pool with nodes that the job could run on; nothing when there are several, or none."""
        if len(self._sizes) < 2 or not (ask.selector or ask.terms or ask.gpus or ask.devices):
            return ""
        named = dict(ask.selector).get(POOL_LABEL)
        found = self._pool_of.get(ask) if named is None else named
        if found is None and len(self._pool_of) < _ASKS_MAX:
            cluster = self._live.cluster
            possible = cluster.evaluations.possible(ask).nonzero()[0].tolist()
            records = (cluster.table.records[row] for row in possible)
            pools = {record.info.pool for record in records if record is not None}
            # Kept until jobs are dealt out anew: a job waits with one planner only.
            found = self._pool_of[ask] = pools.pop() if len(pools) == 1 else ""
        return found or ""
