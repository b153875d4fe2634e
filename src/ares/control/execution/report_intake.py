"""Reports of agents, as they come from one session: files are looked at first, then the reports are committed."""

import structlog
from msgspec.structs import replace

from ares.control.execution.checkpoint_intake import CheckpointIntake
from ares.control.execution.log_intake import LogKeeper
from ares.control.execution.reports import Report, Reports
from ares.control.execution.rights import Rights
from ares.control.execution.session import AgentSession
from ares.control.execution.uploads import Uploads
from ares.control.governance.alerts import Alerts
from ares.model.checkpoint import Checkpointed, DamageFound
from ares.model.link import Exited, Fenced
from ares.ports.clock import Clock, happens
from ares.ports.store import StoreError, StoreRefused

log = structlog.get_logger()

_STORE_PAUSE_S = 0.2
# How often a report that the store refused is tried again.
_ASIDE_AGAIN_S = 60.0
_WORDS_MAX = 1000


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
        alerts: Alerts,
    ) -> None:
        self._reports = reports
        self._rights = rights
        self._logs = logs
        self._uploads = uploads
        self._checkpoints = checkpoints
        self._clock = clock
        self._alerts = alerts

    async def run(self, session: AgentSession) -> None:
        """One of the session's loops: commits reports. Those that arrive during a commit go into the next one."""
        aside = list[Report]()
        while True:
            if aside:
                await happens(session.report_ready, self._clock, _ASIDE_AGAIN_S)
            else:
                await session.report_ready.wait()
            fresh, session.reports = session.reports, []
            if aside and not session.report_ready.is_set():
                fresh, aside = [*aside, *fresh], []
            session.report_ready.clear()
            aside += await self._take(session, fresh)

    async def _take(self, session: AgentSession, batch: list[Report]) -> list[Report]:
        """Returns the reports that the store refuses."""
        if any(isinstance(report.message, Checkpointed | DamageFound) for report in batch):
            batch = await self._take_checkpoints(session, batch)
        batch = self._logs.closed(session, await self._uploads.checked(session, batch))
        allowed = self._allowed(session, batch)
        for report in batch if len(allowed) < len(batch) else ():
            if self._rights.is_stale(session, report.ref, report.rank):
                self._reports.refuse(report)
            if not self._rights.may_report(session, report.ref, report.rank):
                self._rights.note(session, "reportAttempt", report.ref, report.rank)
        why = await self._unwritten(session, batch, allowed)
        if not why:
            session.acknowledge(batch)
            return []
        if len(batch) == 1:
            return await self._without(session, batch[0], why)
        # Those that can be written are not to wait for one that cannot.
        return [refused for report in batch for refused in await self._take(session, [report])]

    async def _unwritten(self, session: AgentSession, batch: list[Report], allowed: list[Report]) -> str:
        """Empty once all are durable or refused as stale; else why the store will never take them."""
        while batch:
            try:
                await self._reports.commit(allowed)
                break
            except StoreRefused as error:
                return str(error)
            except StoreError as error:
                log.warning("reports.delayed", node=session.node, count=len(batch), error=str(error))
                await self._clock.sleep(_STORE_PAUSE_S)
                allowed = self._allowed(session, batch)
        return ""

    async def _without(self, session: AgentSession, report: Report, why: str) -> list[Report]:
        """Of an end that cannot be written as it was told, at least that it ended: a job must not run for ever. A start
        is tried again until the attempt ends, since an operator may mend what is in its way."""
        said = report.message
        await self._tell(session, report, why)
        message = f"what it reported cannot be written: {why}"[:_WORDS_MAX]
        if isinstance(said, Exited):
            ended = replace(said.exit, failure=said.exit.failure or "exit", message=message)
            bare = [replace(report, message=replace(said, exit=ended, value=b"", outputs=()))]
        elif isinstance(said, Fenced):
            bare = [replace(report, message=replace(said, reason=message))]
        else:
            return [report]
        if await self._unwritten(session, bare, self._allowed(session, bare)):
            return [report]
        session.acknowledge([report])
        return []

    async def _tell(self, session: AgentSession, report: Report, why: str) -> None:
        job = report.ref.job
        text = f"the store does not take a report of node {session.node} about job {job}, rank {report.rank}: {why}"
        await self._alerts.raise_("report-set-aside", "", f"jobs/{job}", text, severity="critical")

    async def _take_checkpoints(self, session: AgentSession, batch: list[Report]) -> list[Report]:
        """Before the other reports: a checkpoint is not lost by the end of its attempt. Returns the others."""
        while True:
            try:
                settled, others = await self._checkpoints.commit(session, batch)
                session.acknowledge(settled)
                return others
            except StoreRefused as error:
                saved = [report for report in batch if isinstance(report.message, Checkpointed | DamageFound)]
                if len(saved) == 1:
                    # It will never be written. The next attempt finds the damage again.
                    await self._tell(session, saved[0], str(error))
                    session.acknowledge(saved)
                else:
                    for report in saved:
                        await self._take_checkpoints(session, [report])
                return [report for report in batch if report not in saved]
            except StoreError as error:
                log.warning("checkpoints.delayed", node=session.node, error=str(error))
                await self._clock.sleep(_STORE_PAUSE_S)

    def _allowed(self, session: AgentSession, batch: list[Report]) -> list[Report]:
        return [report for report in batch if self._rights.may_report(session, report.ref, report.rank)]
