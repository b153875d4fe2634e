"""Finds jobs that hold GPUs and do not use them, by what drivers say; tells their tenant, and stops them where the
profile asks for that. Every replica looks at the GPUs of agents that it holds the streams of."""

from collections import deque
from typing import Final

import structlog

from ares.control.execution.transitions import JobChange, Transitions
from ares.control.governance.alerts import Alerts
from ares.control.state.pacing import LOOKED_AT, breathe
from ares.control.state.view import View
from ares.control.telemetry.gpu_readings import GpuReadings
from ares.control.telemetry.looks import guarded
from ares.core import keys
from ares.core.idle import GpuUse, due, unused
from ares.core.lifecycle.inputs import Cancel
from ares.core.lifecycle.usage_report import use_of
from ares.model.profile import IdlePolicy
from ares.model.state import Fence, JobState
from ares.ports.clock import Clock
from ares.ports.store import Compare
from ares.ports.telemetry import Telemetry

log = structlog.get_logger()

_EVERY_S: Final = 30.0
_HOUR_S: Final = 3600.0
BY: Final = "idle GPUs"


class IdleWatch:
    """A job is judged when all of its GPUs have readings: of GPUs it shares, and of mock ones, there are none."""

    def __init__(
        self, view: View, readings: GpuReadings, alerts: Alerts, transitions: Transitions, clock: Clock,
        telemetry: Telemetry,
    ) -> None:  # fmt: skip
        self._view = view
        self._readings = readings
        self._alerts = alerts
        self._transitions = transitions
        self._clock = clock
        self._telemetry = telemetry
        # Since when the GPUs of an attempt are unused, by the steady clock; when it was told, and whether also that it
        # is going to be stopped.
        self._since: dict[tuple[str, Fence], float] = {}
        self._told: dict[tuple[str, Fence], tuple[float, bool]] = {}
        self._stops: deque[float] = deque()

    async def run(self) -> None:
        while True:
            await self._clock.sleep(_EVERY_S)
            await guarded("idle", self.look, self._telemetry)

    async def look(self) -> None:
        policy, now = self._view.profile.profile.idle, self._clock.monotonic()
        idle: dict[tuple[str, Fence], JobState] = {}
        for number, node in enumerate({node for node, _ in self._readings.known}):
            for job in tuple(self._view.by_node.get(node, ())):
                entry = self._view.entries.get(job)
                if entry is not None and entry.state.phase == "RUNNING" and unused(policy, self._looks(entry.state)):
                    idle[job, entry.state.fence] = entry.state
            if number % LOOKED_AT == LOOKED_AT - 1:
                await breathe()
        self._since = {attempt: self._since.get(attempt, now) for attempt in idle}
        self._told = {attempt: told for attempt, told in self._told.items() if attempt in idle}
        for attempt, state in idle.items():
            await self._judge(policy, attempt, state, now - self._since[attempt])

    def _looks(self, state: JobState) -> list[GpuUse]:
        """Of all its GPUs, or nothing where one is not known."""
        found: list[GpuUse] = []
        for place in state.placements:
            record = self._view.nodes.get(place.node)
            sizes = {} if record is None else {gpu.index: gpu.memory_mib << 20 for gpu in record.info.gpus}
            for gpu in place.gpus:
                look = self._readings.known.get((place.node, gpu))
                if look is None or not sizes.get(gpu):
                    return []
                found.append(GpuUse(look.busy, look.memory_bytes / sizes[gpu]))
        return found

    async def _judge(self, policy: IdlePolicy, attempt: tuple[str, Fence], state: JobState, idle_s: float) -> None:
        ran_s = self._clock.wall() - (state.started_at or self._clock.wall())
        told_at, warned = self._told.get(attempt, (0.0, False))
        known = attempt in self._told and (warned or not policy.stop_after_s)
        what = due(policy, ran_s, idle_s, self._clock.monotonic() - told_at if known else None)
        if not what:
            return
        gpus = sum(len(place.gpus) for place in state.placements)
        per_hour = use_of((state,), self._clock.wall()).per_hour
        text = f"{state.id} ({state.name}) has held {gpus} GPUs for {idle_s / 60:.0f} min without using them"
        costs = f", at {per_hour:,.2f} an hour" if per_hour else ""
        if what == "tell":
            numbers = {"gpus": float(gpus), "idleS": round(idle_s), "perHour": per_hour}
            stops = f"; it is stopped in {policy.stop_after_s / 60:.0f} min" if policy.stop_after_s else ""
            await self._alerts.raise_("gpu-idle", state.tenant, state.id, f"{text}{costs}{stops}", numbers)
            self._told[attempt] = (self._clock.monotonic(), bool(policy.stop_after_s))
            return
        entry = self._view.entries.get(state.id)
        # Others were judged before it: by now it may have ended, or run as another attempt that was not looked at.
        if entry is None or entry.state.phase != "RUNNING" or entry.state.fence != state.fence:
            return
        if self._may_stop(policy):
            reason = f"{text}: the profile's idle.stop_after_s stops such jobs"
            as_seen = Compare(keys.state(state.tenant, state.id), "mod_revision", entry.mod_revision)
            log.warning("idle.stopped", job=state.id, tenant=state.tenant, gpus=gpus, idle_s=round(idle_s))
            change = JobChange(state.id, state.tenant, (Cancel(by=BY, reason=reason),), (as_seen,))
            await self._transitions.apply([change])

    def _may_stop(self, policy: IdlePolicy) -> bool:
        """So many an hour: what makes readings wrong makes them wrong for many jobs at once."""
        now = self._clock.monotonic()
        while self._stops and now - self._stops[0] >= _HOUR_S:
            self._stops.popleft()
        if len(self._stops) >= policy.stops_per_hour:
            return False
        self._stops.append(now)
        return True
