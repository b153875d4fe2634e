"""The scheduling loop: runs the pure cycle when something changed and writes its bindings.

Leader only. It proposes; each binding is written by compare-and-swap together with the leader's
fence, and what was refused is simply seen again in the next snapshot.
"""

import structlog

from ares.core.run.inputs import Bind
from ares.core.schedule.cycle import cycle
from ares.core.schedule.plan import Placed
from ares.core.schedule.profile import Profile
from ares.ports.clock import Clock
from ares.ports.store import Compare, StoreError
from ares.ports.telemetry import Telemetry
from ares.services.planner import Planner
from ares.services.transitions import Change, Transitions, Unsettled, Written
from ares.services.view import View
from ares.services.waiting import happens

log = structlog.get_logger()

_IDLE_LOOK_S = 1.0
_LINGER_STEP_S = 0.003
_LINGER_MAX_S = 0.03
_LINGER_ENOUGH = 32
_STORE_PAUSE_S = 0.2


class Schedule:
    """Event-driven: an idle cluster starts a job in the time of two commits."""

    def __init__(
        self,
        view: View,
        planner: Planner,
        transitions: Transitions,
        clock: Clock,
        telemetry: Telemetry,
        profile: Profile,
        linger_s: float = _LINGER_MAX_S,
    ) -> None:
        self._view = view
        self._planner = planner
        self._transitions = transitions
        self._clock = clock
        self._telemetry = telemetry
        self._profile = profile
        self._linger_s = linger_s
        self._bound_at = -linger_s

    async def run(self, guard: Compare) -> None:
        """Schedules until cancelled; `guard` ties every binding to this leadership.

        Raises Unsettled when nobody can say whether a binding landed: with this leadership over, a binding
        that is still on its way is refused, and the next one begins with what is true then."""
        # Bindings of earlier leaders are older than the election: a view without them would give places away twice.
        await self._view.catch_up()
        self._planner.changed.set()
        while True:
            await self._wait()
            try:
                await self._round(guard)
            except Unsettled:
                raise
            except StoreError as error:
                log.warning("schedule.delayed", error=str(error))
                await self._clock.sleep(_STORE_PAUSE_S)
                self._planner.changed.set()

    async def _wait(self) -> None:
        await happens(self._planner.changed, self._clock, _IDLE_LOOK_S)
        if self._clock.monotonic() - self._bound_at < self._linger_s:
            await self._linger()
        self._planner.changed.clear()

    async def _linger(self) -> None:
        """Under load a round waits for company, as long as changes keep coming; after a pause it never does."""
        until = self._clock.monotonic() + self._linger_s
        first, seen = self._planner.news, -1
        while seen != self._planner.news < first + _LINGER_ENOUGH and self._clock.monotonic() < until:
            seen = self._planner.news
            await self._clock.sleep(_LINGER_STEP_S)

    async def _round(self, guard: Compare) -> None:
        cluster = self._planner.cluster
        self._telemetry.gauge("ares_queue_depth", cluster.pending)
        if not cluster.pending:
            return
        # A node that fell silent looks free: it must not be given what the monitor then takes away.
        self._planner.refresh_ready()
        began = self._clock.monotonic()
        plan = cycle(cluster.snapshot(), self._profile, self._clock.wall())
        self._planner.note(plan)
        self._telemetry.observe("ares_cycle_seconds", self._clock.monotonic() - began)
        if not plan.placed:
            return
        self._bound_at = self._clock.monotonic()
        bound = await self._bind(plan.placed, guard)
        if plan.more or not bound:
            self._planner.changed.set()

    async def _bind(self, placed: tuple[Placed, ...], guard: Compare) -> bool:
        """Whether every binding was written."""
        states = [self._view.entries[item.job].state for item in placed]
        changes = [
            Change(item.job, state.tenant, (Bind(placements=item.placements),), (guard,))
            for item, state in zip(placed, states, strict=True)
        ]
        now = self._clock.wall()
        outcomes = await self._transitions.apply(changes)
        if not any(isinstance(outcome, Written) for outcome in outcomes):
            # Every binding lost: our picture is behind, or another replica leads now.
            await self._clock.sleep(_STORE_PAUSE_S)
        for state, outcome in zip(states, outcomes, strict=True):
            if isinstance(outcome, Written):
                self._telemetry.observe("ares_scheduling_latency_seconds", max(0.0, now - state.queued_at))
                self._telemetry.count("ares_lease_acquisitions_total")
        return all(isinstance(outcome, Written) for outcome in outcomes)
