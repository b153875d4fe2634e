"""Bugs in writing down what attempts did."""
# pyright: reportPrivateUsage=false

from collections.abc import Sequence
from typing import Any

import msgspec

from ares.control.execution.report_intake import ReportIntake
from ares.control.execution.reports import Report, Reports
from ares.control.execution.rights import Rights
from ares.control.execution.session import AgentSession
from ares.control.execution.transitions import JobChange, Outcome, SteppedDraft, Transitions, Written
from ares.core import keys
from ares.core.lifecycle import endings, graph, outputs
from ares.core.lifecycle.graph import TRANSITIONS, Transition
from ares.core.lifecycle.inputs import Exit, Input, Stepped
from ares.model.link import AttemptRef, Exited
from ares.model.state import Result
from ares.ports.store import Committed, Op, Put, StoreError, Unknown
from ares.sim.mutants.mutant import Mutant
from ares.sim.mutants.patching import entry, replace, together

_apply_pack, _commit, _ops = Transitions._apply_pack, Reports.commit, Transitions._ops

_WITHOUT_EXIT = tuple(kind for kind in graph._FENCED if kind is not Exit)


# ---- the answer that did not come


async def _unanswered_is_failed(self: Transitions, pack: list[tuple[int, SteppedDraft]]) -> dict[int, Outcome]:
    """What was not acknowledged was not written, they think: the attempt failed, and that is written instead."""
    if len(pack) > 1 or not any(_succeeded(what) for what in pack[0][1].change.inputs):
        return await _apply_pack(self, pack)
    (place, draft), *_ = pack
    written = await self._write([draft])
    if isinstance(written, Committed) and written.succeeded:
        return {place: Written(draft.entry.state, draft.state, draft.refused)}
    if isinstance(written, Unknown):
        _, spec = await self._read(draft.change)
        again = self._draft(_failed(draft.change), draft.entry, spec)
        if isinstance(again, SteppedDraft):
            await self._store.txn(again.change.guards, again.ops)
            return {place: Written(again.entry.state, again.state, again.refused)}
    return {place: await self._apply_alone(draft.change)}


def _succeeded(what: Input) -> bool:
    return isinstance(what, Exit) and what.exit.failure is None


def _failed(change: JobChange) -> JobChange:
    def failed(what: Input) -> Input:
        if not isinstance(what, Exit):
            return what
        ended = msgspec.structs.replace(what.exit, failure="exit", message="its end was not acknowledged")
        return msgspec.structs.replace(what, exit=ended)

    return msgspec.structs.replace(change, inputs=tuple(failed(what) for what in change.inputs))


# ---- the order of things


async def _publish_first(self: Reports, reports: Sequence[Report]) -> None:
    for report in reports:
        said = report.message
        if isinstance(said, Exited) and said.exit.failure is None:
            value: Any = outputs.decode_result(said.value) if said.value else None
            early = Result(
                job=said.ref.job, fence=said.ref.fence, attempt=1, exit=said.exit, committed_at=0.0, value=value
            )
            put = Put(keys.result(said.ref.tenant, said.ref.job), msgspec.json.encode(early))
            await self._transitions._store.txn([], [put])
    await _commit(self, reports)


async def _acknowledge_first(self: ReportIntake, session: AgentSession) -> None:
    while True:
        await session.report_ready.wait()
        session.report_ready.clear()
        batch, session.reports = session.reports, []
        session.acknowledge(batch)
        allowed = [report for report in batch if self._rights.may_report(session, report.ref, report.rank)]
        try:
            await self._reports.commit(allowed)
        except StoreError:
            continue


async def _one_by_one(self: Reports, reports: Sequence[Report]) -> None:
    for report in reports:
        await _commit(self, [report])


def _of_any_job(self: Rights, session: AgentSession, ref: AttemptRef, rank: int) -> bool:
    return ref.job in self._view.entries


def _last_entry_only(self: Transitions, stepped: Stepped) -> list[Op]:
    return _ops(self, msgspec.structs.replace(stepped, events=stepped.events[-1:]))


MUTANTS = {
    "commit-without-fence": Mutant(
        "an end is accepted of any attempt, as long as the job runs",
        ("E4", "E5"),
        replace(graph, "_FENCED", _WITHOUT_EXIT),
        case="zombie",
    ),
    "lost-reply-is-failure": Mutant(
        "an end whose commit was not acknowledged is written as a failure",
        ("E2", "E4", "E5", "E15"),
        replace(Transitions, "_apply_pack", _unanswered_is_failed),
        case="lost-reply",
    ),
    "publish-before-commit": Mutant(
        "a result can be seen before its job has ended", ("E5",), replace(Reports, "commit", _publish_first)
    ),
    "report-acknowledged-first": Mutant(
        "a report is acknowledged before it is durable",
        ("E11", "E4"),
        replace(ReportIntake, "run", _acknowledge_first),
        case="refused-commit",
    ),
    "second-result-accepted": Mutant(
        "a second report of the same end counts again",
        ("E2", "E5"),
        together(
            entry(TRANSITIONS, ("SUCCEEDED", Exit), Transition(endings.finish, frozenset({"SUCCEEDED"}))),
            replace(Reports, "commit", _one_by_one),
            replace(Rights, "may_report", _of_any_job),
        ),
        case="doubled",
    ),
    "ledger-entry-skipped": Mutant(
        "of several entries of one step only the last is written",
        ("E15",),
        replace(Transitions, "_ops", _last_entry_only),
    ),
}
