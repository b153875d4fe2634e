"""What GPUs do by their drivers, asked of the agents every few seconds: of GPUs that a running job has alone."""

from typing import Final, NamedTuple

from ares.control.execution.job_sessions import JobSessions
from ares.control.state.pacing import LOOKED_AT, breathe
from ares.control.state.view import View
from ares.control.telemetry.looks import guarded
from ares.core.lifecycle.ranks import place_of
from ares.model.job_session import AttemptUse
from ares.model.state import JobState
from ares.ports.clock import Clock
from ares.ports.telemetry import Telemetry

_EVERY_S: Final = 10.0
# An older reading says nothing of now: its agent does not answer, or the job has ended.
_OLD_S: Final = 45.0
# Jobs that are asked about at once.
_JOBS_MAX: Final = 1000


class GpuLook(NamedTuple):
    """One reading, and when it was taken by this replica's steady clock."""

    busy: float
    memory_bytes: int
    at: float
    # None: its driver does not tell.
    watts: float | None = None
    celsius: int | None = None


class GpuReadings:
    """Every replica asks the agents that it holds a stream of. Without jobs on GPUs no agent is asked."""

    def __init__(self, view: View, sessions: JobSessions, clock: Clock, telemetry: Telemetry) -> None:
        self._view = view
        self._sessions = sessions
        self._clock = clock
        self._telemetry = telemetry
        # By node and GPU.
        self.known: dict[tuple[str, int], GpuLook] = {}

    async def run(self) -> None:
        while True:
            await self._clock.sleep(_EVERY_S)
            await guarded("gpus", self.look, self._telemetry)

    async def look(self) -> None:
        running = await self._running()
        uses, _ = await self._sessions.measure(running) if running else ((), ())
        now, by_id = self._clock.monotonic(), {state.id: state for state in running}
        self.known = {key: look for key, look in self.known.items() if now - look.at < _OLD_S}
        for use in uses:
            self._note(by_id[use.ref.job], use, now)

    async def _running(self) -> list[JobState]:
        found: dict[str, JobState] = {}
        looked_at = 0
        for node, jobs in tuple(self._view.by_node.items()):
            record = self._view.nodes.get(node)
            if record is None or not record.info.gpus:
                continue
            for job in tuple(jobs):
                looked_at += 1
                if looked_at % LOOKED_AT == 0:
                    await breathe()
                entry = self._view.entries.get(job)
                if entry is not None and entry.state.phase == "RUNNING" and _has_gpus(entry.state):
                    found[job] = entry.state
            if len(found) >= _JOBS_MAX:
                break
        return list(found.values())[:_JOBS_MAX]

    def _note(self, state: JobState, use: AttemptUse, now: float) -> None:
        place = place_of(state.placements, use.rank)
        for reading in use.gpus if place is not None else ():
            # An agent speaks for the GPUs of the rank that it was asked about.
            if place is not None and reading.index in place.gpus:
                told = (reading.watts, reading.celsius)
                look = GpuLook(reading.busy_percent / 100, reading.memory_mib << 20, now, *told)
                self._drew(place.node, self.known.get((place.node, reading.index)), look)
                self.known[place.node, reading.index] = look

    def _drew(self, node: str, before: GpuLook | None, look: GpuLook) -> None:
        """Counts what a GPU drew since the look before, by the mean of both: energy that was measured."""
        record = self._view.nodes.get(node)
        if record is None or before is None or before.watts is None or look.watts is None:
            return
        joules = (look.at - before.at) * (before.watts + look.watts) / 2
        self._telemetry.count("ares_energy_joules_total", joules, record.info.pool, "measured")

    def measure(self, telemetry: Telemetry) -> None:
        now = self._clock.monotonic()
        fresh = {(node, str(gpu)): look for (node, gpu), look in self.known.items() if now - look.at < _OLD_S}
        telemetry.gauges("ares_gpu_utilization", {key: look.busy for key, look in fresh.items()})
        telemetry.gauges("ares_gpu_memory_used_bytes", {key: look.memory_bytes for key, look in fresh.items()})
        watts = {key: look.watts for key, look in fresh.items() if look.watts is not None}
        telemetry.gauges("ares_gpu_power_watts", watts)
        celsius = {key: float(look.celsius) for key, look in fresh.items() if look.celsius is not None}
        telemetry.gauges("ares_gpu_temperature_celsius", celsius)
        ages = {(): max(now - look.at for look in fresh.values())} if fresh else {}
        telemetry.gauges("ares_gpu_readings_age_seconds", ages)


def _has_gpus(state: JobState) -> bool:
    return any(place.gpus for place in state.placements)
