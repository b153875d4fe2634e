"""Changes of the view that the planner does not know yet: the latest state of each record that changed.

A planner that is new, or too far behind, gets every record.
"""

from collections.abc import Callable, Iterable
from itertools import islice

from ares.api.decisions import Promise
from ares.control.planner.messages import JobNews, News, PlannerRules
from ares.control.scheduler.cluster_view import LiveCluster
from ares.control.scheduler.sharding import Sharding
from ares.control.state.view import Delta, View
from ares.core import keys
from ares.core.lifecycle.ranks import holds
from ares.core.queue.order import account_of
from ares.model.isolation import Isolation
from ares.model.node import NodeRecord
from ares.model.reservation import BOOKED, Reservation
from ares.model.state import BOUND, TERMINAL, JobState

# Jobs and nodes of one frame: few enough that requests are not slowed down.
AT_ONCE = 250
# A planner that lacks so many jobs gets every record instead, when it is asked again.
_BEHIND_MAX = 50_000


class Feed:
    """What one planner of several is told. `cut` has the plugins that are disabled, with the reason."""

    def __init__(
        self,
        view: View,
        planner: LiveCluster,
        wall: Callable[[], float],
        sharding: Sharding,
        number: int,
        cut: dict[str, str],
    ) -> None:
        self._view = view
        self._planner = planner
        self._wall = wall
        self._sharding = sharding
        self._number = number
        self.cut = cut
        # Counts changes of the planner's input other than records of jobs and nodes.
        self.rules = 0
        self._isolation: dict[str, Isolation] = {}
        self.restart()
        view.subscribe(self._on_delta)

    def restart(self) -> None:
        """The planner is new: it gets every record."""
        self._new = True
        self._jobs: dict[str, None] = {}
        self._nodes: dict[str, None] = {}
        self._reservations: dict[str, None] = {}
        # Arrays that the planner takes for throttled, and by how much.
        self._throttles: dict[str, int] = {}
        # Jobs whose specification the planner has, and nodes it takes for ready.
        self._known: set[str] = set()
        self._ready: frozenset[str] = frozenset()
        # What the planner takes for promised by others, and since when jobs and nodes are dealt out as they are.
        self._claimed: dict[str, Promise] = {}
        self._dealt = self._sharding.dealt
        self._last = False

    @property
    def more(self) -> bool:
        """Whether one frame is not enough for all that is new."""
        return self._new or max(len(self._jobs), len(self._nodes), len(self._reservations)) > AT_ONCE

    def rules_changed(self) -> None:
        """The planner's input changed: its earlier plans do not count."""
        self.rules += 1
        self.restart()

    def _on_delta(self, delta: Delta) -> None:
        isolation = self._isolation_now() if keys.TENANTS in delta.kept else self._isolation
        if delta.profile:
            # The operator may have changed the profile because of the plugin: it is tried again.
            self.cut.clear()
        if delta.relisted or delta.profile or isolation != self._isolation:
            self.rules_changed()
        if delta.reservations:
            self.rules += 1
        if self._dealt != self._sharding.dealt:
            self.restart()
        if self._new:
            return
        self._jobs.update(dict.fromkeys(entry.state.id for _, entry in delta.states))
        self._jobs.update(dict.fromkeys(state.id for state in delta.removed))
        self._nodes.update(dict.fromkeys(sorted(delta.nodes)))
        self._reservations.update(dict.fromkeys(sorted(delta.reservations)))
        if len(self._jobs) + len(self._nodes) > _BEHIND_MAX:
            self.restart()

    def take(self) -> News:
        """Takes the next part of the changes."""
        rules = self._begin() if self._new else None
        records = [(name, self._view.nodes.get(name)) for name in _taken(self._nodes)]
        # Jobs and bookings are sent after the nodes that they name.
        told_nodes = not self._nodes
        booked = [(name, self._booked(name)) for name in (_taken(self._reservations) if told_nodes else ())]
        jobs = _taken(self._jobs) if told_nodes else []
        if self._sharding.planners > 1:
            jobs = [job for job in jobs if self._concerns(job)]
        specs: dict[str, bytes] = {}
        told = tuple(promise for job in jobs if (promise := self._told(job, specs)) is not None)
        used, typical, promises, earlier = None, None, None, tuple[Promise, ...]()
        if self._last and not (self._jobs or self._nodes or self._reservations):
            self._last = False
            cluster = self._planner.cluster
            used, typical, promises = cluster.usage.data, cluster.typicals.data, tuple(cluster.promises.values())
            earlier = tuple(promise for job, promise in cluster.told.items() if job not in cluster.promises)
        return News(
            now=self._wall(),
            rules=rules,
            nodes=tuple(record for _, record in records if record is not None),
            nodes_gone=tuple(name for name, record in records if record is None),
            ready=self._readied() if told_nodes else {},
            specs=specs,
            throttles=self._throttled(),
            jobs=told,
            jobs_gone=tuple(job for job in jobs if job not in self._view.entries),
            reservations=tuple(reservation for _, reservation in booked if reservation is not None),
            reservations_gone=tuple(name for name, reservation in booked if reservation is None),
            promises=promises,
            told=earlier,
            used=used,
            typical=typical,
            homes=self._homes(record for _, record in records if record is not None),
            claimed=self._claims() if told_nodes else {},
        )

    def _begin(self) -> PlannerRules:
        view = self._view
        self._new, self._last = False, True
        live = {job for jobs in view.live.values() for job in jobs}
        live.update(job for jobs in view.by_node.values() for job in jobs)
        self._jobs = dict.fromkeys(sorted(live, key=lambda job: view.entries[job].create_revision))
        self._nodes = dict.fromkeys(sorted(view.nodes))
        self._reservations = dict.fromkeys(sorted(view.reservations))
        self._isolation = self._isolation_now()
        sharding = self._sharding
        return PlannerRules(view.profile.profile, self._isolation, dict(self.cut), self._number, sharding.planners)

    # ---- of several planners

    def _concerns(self, job: str) -> bool:
        """Jobs that wait with another planner are left out, unless they hold something or did when they were told."""
        entry = self._view.entries.get(job)
        if entry is None or job in self._known:
            return True
        state = entry.state
        waits = state.phase not in BOUND and state.phase not in TERMINAL and not holds(state) and not state.hold
        return not waits or self._sharding.planner_of(state) == self._number

    def _homes(self, records: Iterable[NodeRecord]) -> dict[str, int]:
        sharding = self._sharding
        if sharding.planners == 1:
            return {}
        return {record.info.name: sharding.home_of(record) for record in records}

    def _claims(self) -> dict[str, Promise | None]:
        """Starts that other planners promised: what changed since this one was last told."""
        now = self._sharding.claimed(self._number)
        if now == self._claimed:
            return {}
        before, self._claimed = self._claimed, now
        return {job: now.get(job) for job in sorted(now.keys() | before) if now.get(job) != before.get(job)}

    def _told(self, job: str, specs: dict[str, bytes]) -> JobNews | None:
        entry = self._view.entries.get(job)
        if entry is None:
            self._known.discard(job)
            return None
        state, estimate = entry.state, None
        spec = self._view.spec(state)
        if state.phase == "PENDING" and spec is not None:
            estimate = self._planner.predictor.met(job, spec, account_of(state))
        if job not in self._known:
            self._send_spec(state, specs)
        if state.phase in TERMINAL and not holds(state):
            self._known.discard(job)
        foreign = state.phase == "PENDING" and self._sharding.planner_of(state) != self._number
        return JobNews(state, estimate, foreign)

    def _send_spec(self, state: JobState, specs: dict[str, bytes]) -> None:
        name = state.array or state.id
        raw = specs.get(name) or self._view.specs.get(name)
        if raw is not None:
            specs[name] = raw
            self._known.add(state.id)

    def _booked(self, name: str) -> Reservation | None:
        reservation, _ = self._view.reservations.get(name, (None, 0))
        return reservation if reservation is not None and reservation.state in BOOKED else None

    def _throttled(self) -> dict[str, int | None]:
        """What changed since the planner was last told."""
        now = self._planner.cluster.waiting.throttles
        if now == self._throttles:
            return {}
        before, self._throttles = self._throttles, dict(now)
        return {array: now.get(array) for array in now.keys() | before if now.get(array) != before.get(array)}

    def _readied(self) -> dict[str, bool]:
        now = frozenset(self._planner.cluster.ready_nodes)
        changed, self._ready = now ^ self._ready, now
        return {name: name in now for name in sorted(changed)}

    def _isolation_now(self) -> dict[str, Isolation]:
        tenants: Iterable[tuple[str, Isolation]] = (
            (name, tenant.isolation) for name, tenant in self._view.kept.tenants.items()
        )
        return {name: isolation for name, isolation in tenants if isolation != "any"}


def _taken(waiting: dict[str, None]) -> list[str]:
    """Takes the first of them out."""
    taken = list(islice(waiting, AT_ONCE))
    for name in taken:
        del waiting[name]
    return taken
