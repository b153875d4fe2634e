"""Bugs in keeping what programs write."""
# pyright: reportPrivateUsage=false

from ares.control.execution.log_intake import LogKeeper
from ares.control.execution.reports import Report
from ares.control.execution.rights import Rights
from ares.control.execution.session import AgentSession
from ares.model.link import LogAck, LogChunk
from ares.sim.mutants.mutant import Mutant
from ares.sim.mutants.patching import replace

_keep = LogKeeper._keep


def _all_kept(self: LogKeeper, session: AgentSession, chunk: LogChunk) -> LogAck:
    ack = _keep(self, session, chunk)
    session.unkept_logs.pop((chunk.ref, chunk.rank), None)
    return LogAck(ref=ack.ref, rank=ack.rank, offset=chunk.offset + len(chunk.data)) if ack.trouble else ack


def _say_nothing(self: LogKeeper, report: Report, attempt: int, sent: int, why: str) -> str:
    return ""


def _of_anybody(self: Rights, session: AgentSession, chunk: LogChunk) -> bool:
    return chunk.ref.job in self._view.entries


MUTANTS = {
    "foreign-log-accepted": Mutant(
        "a node's word is taken for output of attempts that it does not have",
        ("E23",),
        replace(Rights, "may_log", _of_anybody),
        case="foreign-log",
    ),
    "log-acknowledged-unwritten": Mutant(
        "output is acknowledged though it could not be written",
        ("E23",),
        replace(LogKeeper, "_keep", _all_kept),
        case="full-logs",
    ),
    "log-gap-untold": Mutant(
        "output that was given up is missing from its log without a word",
        ("E23",),
        replace(LogKeeper, "_tell", _say_nothing),
        case="full-logs-long",
    ),
}
