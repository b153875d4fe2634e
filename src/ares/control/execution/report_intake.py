"""Reports of agents, as they come from one session: files are looked at first, then the reports are committed."""

import structlog

from ares.control.execution.checkpoint_intake import CheckpointIntake
from ares.control.execution.log_intake import LogKeeper
from ares.control.execution.reports import Report, Reports
from ares.control.execution.rights import Rights
from ares.control.execution.session import AgentSession
from ares.control.execution.uploads import Uploads
from ares.model.checkpoint import Checkpointed, DamageFound
from ares.ports.clock import Clock
from ares.ports.store import StoreError

log = structlog.get_logger()

_STORE_PAUSE_S = 0.2


class ReportIntake:
    """One for all sessions of a replica."""

    def __init__(
        self,
        *,
        reports: Reports,
        rights: Rights,
        logs: LogKeeper,
        uploads: Uploads,
        checkpoints: CheckpointIntake,
        clock: Clock,
    ) -> None:
        self._reports = reports
        self._rights = rights
        self._logs = logs
        self._uploads = uploads
        self._checkpoints = checkpoints
        self._clock = clock

    async def run(self, session: AgentSession) -> None:
        """One of the session's loops: commits reports. Those that arrive during a commit go into the next one."""
        while True:
            await session.report_ready.wait()
            session.report_ready.clear()
            batch, session.reports = session.reports, []
            if any(isinstance(report.message, Checkpointed | DamageFound) for report in batch):
                batch = await self._take_checkpoints(session, batch)
            batch = self._logs.closed(session, await self._uploads.checked(session, batch))
            allowed = self._allowed(session, batch)
            for report in batch if len(allowed) < len(batch) else ():
                if self._rights.is_stale(session, report.ref, report.rank):
                    self._reports.refuse(report)
                if not self._rights.may_report(session, report.ref, report.rank):
                    self._rights.note(session, "reportAttempt", report.ref, report.rank)
            while batch:
                try:
                    await self._reports.commit(allowed)
                    break
                except StoreError as error:
                    log.warning("reports.delayed", node=session.node, count=len(batch), error=str(error))
                    await self._clock.sleep(_STORE_PAUSE_S)
                    allowed = self._allowed(session, batch)
            session.acknowledge(batch)

    async def _take_checkpoints(self, session: AgentSession, batch: list[Report]) -> list[Report]:
        """Before the other reports: a checkpoint is not lost by the end of its attempt. Returns the others."""
        while True:
            try:
                settled, others = await self._checkpoints.commit(session, batch)
                session.acknowledge(settled)
                return others
            except StoreError as error:
                log.warning("checkpoints.delayed", node=session.node, error=str(error))
                await self._clock.sleep(_STORE_PAUSE_S)

    def _allowed(self, session: AgentSession, batch: list[Report]) -> list[Report]:
        return [report for report in batch if self._rights.may_report(session, report.ref, report.rank)]
