"""The number of jobs of each tenant: jobs that have not ended, with the future tasks of arrays, and all jobs that are
kept."""

from collections import Counter

from ares.control.state.view import Delta, View
from ares.core.quota.counts import is_live


class Population:
    """Follows the view. Queries are answered from memory."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._live: Counter[str] = Counter()
        # Future tasks, by array, with the tenant.
        self._to_come: dict[str, tuple[str, int]] = {}
        self._coming: Counter[str] = Counter()
        # Jobs of workflows that are being written, by workflow, with the tenant.
        self._unwhole: dict[str, tuple[str, int]] = {}
        self._flows: Counter[str] = Counter()
        self._count()
        view.subscribe(self._on_delta)

    def live(self, tenant: str) -> int:
        return self._live.get(tenant, 0) + self._to_be(tenant)

    def kept(self, tenant: str) -> int:
        return len(self._view.order.get(tenant, ())) + self._to_be(tenant)

    def _to_be(self, tenant: str) -> int:
        return self._coming.get(tenant, 0) + self._flows.get(tenant, 0)

    def _count(self) -> None:
        self._live = Counter(entry.state.tenant for entry in self._view.entries.values() if is_live(entry.state))
        self._to_come.clear()
        self._coming.clear()
        for array in self._view.arrays:
            self._put_array(array)
        self._unwhole.clear()
        self._flows.clear()
        for flow in self._view.kept.flows:
            self._put_flow(flow)

    def _put_flow(self, flow_id: str) -> None:
        """Its jobs that exist already count twice meanwhile."""
        tenant, before = self._unwhole.pop(flow_id, ("", 0))
        self._flows[tenant] -= before
        flow = self._view.kept.flows.get(flow_id)
        if flow is None or flow.whole or flow.abandoned:
            return
        self._unwhole[flow_id] = flow.tenant, flow.tasks
        self._flows[flow.tenant] += flow.tasks

    def _put_array(self, array_id: str) -> None:
        tenant, before = self._to_come.pop(array_id, ("", 0))
        self._coming[tenant] -= before
        array = self._view.arrays.get(array_id)
        if array is None or array.expanded:
            return
        left = max(0, array.tasks - len(self._view.by_array.get(array_id, ())))
        self._to_come[array_id] = array.tenant, left
        self._coming[array.tenant] += left

    def _on_delta(self, delta: Delta) -> None:
        if delta.relisted:
            self._count()
            return
        arrays = set(delta.arrays)
        for before, entry in delta.states:
            state = entry.state
            self._live[state.tenant] += is_live(state) - (before is not None and is_live(before))
            if before is None and state.array is not None:
                arrays.add(state.array)
        for state in delta.removed:
            self._live[state.tenant] -= is_live(state)
        for array_id in arrays:
            self._put_array(array_id)
        for flow_id in delta.flows:
            self._put_flow(flow_id)
