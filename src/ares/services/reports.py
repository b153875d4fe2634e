"""Turns agents' reports into transitions, many at a time."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from ares.core.run.inputs import Exit, Input, LeaseLost, Release
from ares.core.run.inputs import Start as Begin
from ares.model.link import AttemptRef, Exited, Fenced, Started
from ares.model.state import JobState
from ares.ports.telemetry import Telemetry
from ares.services.transitions import Change, Transitions, Written
from ares.services.view import View


@dataclass(frozen=True, slots=True)
class Report:
    """What an agent says happened to one attempt. `number` is None when nobody waits for an answer."""

    ref: AttemptRef
    message: Started | Exited | Fenced
    number: int | None
    final: bool

    @classmethod
    def of(cls, message: Started | Exited | Fenced) -> "Report":
        return cls(message.ref, message, message.number, not isinstance(message, Started))

    @classmethod
    def gone(cls, ref: AttemptRef) -> "Report":
        """The agent came back without this attempt: its processes no longer exist."""
        return cls(ref, Fenced(number=0, ref=ref, rank=0, reason="not running any more"), None, True)


class Reports:
    """`commit` returns when every report is durable or refused as stale: then it may be acknowledged."""

    def __init__(self, view: View, transitions: Transitions, telemetry: Telemetry) -> None:
        self._view = view
        self._transitions = transitions
        self._telemetry = telemetry

    async def commit(self, reports: Sequence[Report]) -> None:
        by_job: dict[str, list[Report]] = {}
        for report in reports:
            by_job.setdefault(report.ref.job, []).append(report)
        changes = [
            Change(job, said[0].ref.tenant, tuple(self._input(report) for report in said))
            for job, said in by_job.items()
        ]
        for outcome in await self._transitions.apply(changes):
            if isinstance(outcome, Written) and outcome.state.phase != outcome.before.phase:
                self._telemetry.count("ares_attempts_total", 1, outcome.state.phase)

    def _input(self, report: Report) -> Input:
        entry = self._view.entries.get(report.ref.job)
        lingering = entry is not None and _revoked(entry.state, report.ref)
        match report.message:
            case Started(ref=ref, rank=rank, at=at):
                return Begin(fence=ref.fence, rank=rank, at=at)
            case Exited(ref=ref) | Fenced(ref=ref) if lingering:
                return Release(fence=ref.fence)
            case Exited(ref=ref, rank=rank, exit=ended, value=value):
                return Exit(fence=ref.fence, exit=ended, rank=rank, value=msgspec.json.decode(value) if value else None)
            case Fenced(ref=ref, reason=reason):
                return LeaseLost(fence=ref.fence, reason=reason)


def _revoked(state: JobState, ref: AttemptRef) -> bool:
    return state.lingering and ref.fence < state.fence
