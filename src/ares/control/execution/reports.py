"""Turns agents' reports into transitions, many at a time."""

from collections.abc import Sequence

import msgspec
import structlog

from ares.control.execution.transitions import JobChange, Outcome, Transitions, Written
from ares.core.lifecycle import outputs
from ares.core.lifecycle.inputs import Exit, Input, LeaseLost, Preempt, Release
from ares.core.lifecycle.inputs import RankStarted as Begin
from ares.core.refusal import Refusal
from ares.model.checkpoint import Checkpointed, DamageFound
from ares.model.link import AttemptRef, Exited, Fenced, Started
from ares.ports.telemetry import Telemetry

log = structlog.get_logger()

# Agents send at most half of this.
_VALUE_BYTES_MAX = 128 * 1024
# The length of an agent's message that is stored.
_WORDS_MAX = 4000
# Reports of one gang in one step: each may make two ledger entries, and a transaction takes only so many.
_REPORTS_MAX = 25


# The rule of a preemption because the node goes away.
LEAVING = "leaving"


def taken_back(ref: AttemptRef, node: str, why: str = "") -> Preempt:
    """A preemption because the node is drained, or why else it takes its room back: it costs no retry. A job that
    cannot be preempted refuses it."""
    record = {"rule": LEAVING, "why": "moved because its node goes away", "for": {"operator": f"of node {node}"}}
    reason = why or f"the agent of node {node} was told to stop"
    return Preempt(fence=ref.fence, by=f"agent {node}", reason=reason, record=record)


class Report(msgspec.Struct, frozen=True, gc=False):
    """What an agent says happened to one rank. `number` is None when the agent expects no acknowledgement."""

    ref: AttemptRef
    rank: int
    message: Started | Exited | Fenced | Checkpointed | DamageFound
    number: int | None
    final: bool
    # The node, when its agent was told to stop or its room was taken back: an attempt that ends then costs no retry.
    leaving: str = ""

    @classmethod
    def of(cls, message: Started | Exited | Fenced | Checkpointed | DamageFound, leaving: str = "") -> "Report":
        return cls(message.ref, message.rank, message, message.number, isinstance(message, Exited | Fenced), leaving)

    @classmethod
    def gone(cls, ref: AttemptRef, rank: int) -> "Report":
        """The agent came back without this rank: its processes no longer exist."""
        return cls(ref, rank, Fenced(number=0, ref=ref, rank=rank, reason="not running any more"), None, True)


class Reports:
    """`commit` returns when every report is durable or refused as stale: then it may be acknowledged."""

    def __init__(self, transitions: Transitions, telemetry: Telemetry) -> None:
        self._transitions = transitions
        self._telemetry = telemetry

    async def commit(self, reports: Sequence[Report]) -> None:
        by_job: dict[str, list[Report]] = {}
        for report in reports:
            by_job.setdefault(report.ref.job, []).append(report)
        while by_job:
            now = {job: said[:_REPORTS_MAX] for job, said in by_job.items()}
            by_job = {job: said[_REPORTS_MAX:] for job, said in by_job.items() if len(said) > _REPORTS_MAX}
            changes = [
                JobChange(job, said[0].ref.tenant, tuple(what for report in said for what in _inputs(report)))
                for job, said in now.items()
            ]
            outcomes = await self._transitions.apply(changes)
            for said, outcome in zip(now.values(), outcomes, strict=True):
                for report in said:
                    if _came_late(report, outcome):
                        self.refuse(report)
            written = [outcome for outcome in outcomes if isinstance(outcome, Written)]
            moved = [outcome.state.phase for outcome in written if outcome.state.phase != outcome.before.phase]
            for phase in dict.fromkeys(moved):
                self._telemetry.count("ares_attempts_total", moved.count(phase), phase.lower())

    def refuse(self, report: Report) -> None:
        """Logs a report of an attempt that was revoked before."""
        if isinstance(report.message, Fenced):
            # The report only says that the attempt has stopped.
            return
        kind = "exited" if report.final else "started"
        log.warning("report.refused", kind=kind, job=report.ref.job, fence=str(report.ref.fence), rank=report.rank)
        self._telemetry.count("ares_stale_reports_total", 1, kind)


def _came_late(report: Report, outcome: Outcome) -> bool:
    if isinstance(outcome, Written):
        return report.ref.fence < outcome.before.fence
    return isinstance(outcome, Refusal) and outcome.code == "stale-fence"


def _inputs(report: Report) -> tuple[Input, ...]:
    """A final report ends a current attempt, or releases a revoked one. Which of the two is decided at the write: a
    cancel may have landed that this replica has not seen."""
    match report.message:
        case Started(ref=ref, rank=rank, at=at, secrets=secrets, note=note):
            return (Begin(fence=ref.fence, rank=rank, at=at, secrets=secrets, note=_words(note)),)
        case Exited(ref=ref, rank=rank) as exited:
            return (_exit(exited), Release(fence=ref.fence, ranks=(rank,)))
        case Fenced(ref=ref, rank=rank, reason=reason):
            release, why = Release(fence=ref.fence, ranks=(rank,)), _words(reason)
            back = taken_back(ref, report.leaving, why if report.message.evicted else "")
            return (
                *((back, release) if report.leaving else ()),
                LeaseLost(fence=ref.fence, reason=why, ranks=(rank,)),
                release,
            )
        case Checkpointed() | DamageFound():
            raise AssertionError("checkpoints are taken by CheckpointIntake")


def _exit(report: Exited) -> Exit:
    """A result that cannot be kept fails the attempt: calling it a success would lose it silently."""
    value, trouble = None, ""
    if len(report.value) > _VALUE_BYTES_MAX:
        trouble = f"the result takes {len(report.value):,} bytes, at most {_VALUE_BYTES_MAX:,} are kept"
    elif report.value:
        try:
            value = outputs.decode_result(report.value)
        except ValueError as error:
            trouble = f"the result cannot be kept: {error}"
    ended = msgspec.structs.replace(report.exit, message=_words(report.exit.message))
    if trouble and ended.failure is None:
        ended = msgspec.structs.replace(ended, failure="exit", message=trouble)
    return Exit(
        fence=report.ref.fence, exit=ended, rank=report.rank, value=value, outputs=report.outputs, at=report.at,
        blames=report.blames,
    )  # fmt: skip


def _words(text: str) -> str:
    """The text, short enough for a record and without terminal control characters."""
    if len(text) <= _WORDS_MAX and text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else " " for letter in text[:_WORDS_MAX])
