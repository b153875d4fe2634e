"""A replica of the control plane: every service, wired to the others, on whatever ports it is given.

The platform runs it on real ones, the tests and the simulator on their own: there is no second assembly.
"""

import asyncio
import hashlib
from collections.abc import Coroutine

from ares.control.access.account_check import AccountCheck
from ares.control.access.browser_logins import BrowserLogins
from ares.control.access.logins import Logins
from ares.control.access.machines import MachineAuthority
from ares.control.access.tenants import Tenants
from ares.control.access.tokens import Tokens
from ares.control.access.users import Users
from ares.control.autoscale.autoscaler import Autoscaler
from ares.control.autoscale.standing import ScalingState
from ares.control.books.accounting import Accounting
from ares.control.books.desk import desk_of
from ares.control.books.shelf import BookShelf
from ares.control.books.told import ToldBooks
from ares.control.execution.checkpoint_intake import CheckpointIntake
from ares.control.execution.enrolment import Enrolment
from ares.control.execution.handover import Handover
from ares.control.execution.job_sessions import JobSessions
from ares.control.execution.log_intake import LogKeeper
from ares.control.execution.progress import ProgressBoard
from ares.control.execution.report_intake import ReportIntake
from ares.control.execution.reports import Reports
from ares.control.execution.restoring import Restoring
from ares.control.execution.rights import Rights
from ares.control.execution.sessions import Sessions
from ares.control.execution.staging import Staging
from ares.control.execution.transfers import RateLeases, TransferBoard
from ares.control.execution.transitions import Transitions
from ares.control.execution.uploads import Uploads
from ares.control.federation.federation import Federation
from ares.control.flow.child_index import ChildIndex
from ares.control.flow.children import ChildCancels, Children
from ares.control.flow.flow_index import FlowIndex
from ares.control.flow.releases import Releases
from ares.control.flow.submission import FlowSubmission
from ares.control.flow.waiting_reasons import WaitingReasons
from ares.control.flow.workflows import Workflows
from ares.control.governance.alert_delivery import Delivery
from ares.control.governance.alerts import Alerts
from ares.control.governance.audit import Audit
from ares.control.governance.audit_heads import AuditHeads
from ares.control.governance.audit_search import AuditSearch
from ares.control.governance.channels import Channels, Sealing
from ares.control.governance.download_meter import Meters
from ares.control.governance.policies import Policies
from ares.control.governance.policy_gate import Judging
from ares.control.governance.quota_usage import Counting, Recount
from ares.control.governance.quotas import Quotas
from ares.control.governance.secrets import Secrets
from ares.control.governance.watches import AsideWatch, AuditWatch, DiskWatch
from ares.control.queries.checkpoints import CheckpointReader
from ares.control.queries.events import EventStream
from ares.control.queries.explain import Explain
from ares.control.queries.health import Health
from ares.control.queries.jobs import Jobs
from ares.control.queries.logs import LogReader
from ares.control.queries.nodes import Nodes
from ares.control.queries.outputs import OutputReader
from ares.control.queries.overview import Overviews
from ares.control.queries.pending_metrics import PendingMetrics
from ares.control.queries.pools import Pools
from ares.control.queries.steering import Steering
from ares.control.queries.traces import Traces
from ares.control.queries.transfers import TransferList
from ares.control.queries.usage import Spending
from ares.control.replica_terms import Ports, ReplicaTerms
from ares.control.scheduler.budget_watch import BudgetWatch
from ares.control.scheduler.cluster_view import LiveCluster
from ares.control.scheduler.consolidate import Consolidate
from ares.control.scheduler.deadlines import Deadlines
from ares.control.scheduler.decisions import Decisions
from ares.control.scheduler.drain import Drain
from ares.control.scheduler.gaps import Gaps
from ares.control.scheduler.loop import SchedulerLoop
from ares.control.scheduler.monitor import Monitor
from ares.control.scheduler.plugins import Plugins
from ares.control.scheduler.predictions import Predictions
from ares.control.scheduler.profiles import Profiles
from ares.control.scheduler.proposer import Proposer
from ares.control.scheduler.quarantine import Quarantine
from ares.control.scheduler.reservation_windows import Book, Windows
from ares.control.scheduler.reservations import Reservations
from ares.control.scheduler.retries import Requeue
from ares.control.shadow.judging import ShadowJudging
from ares.control.state.blob_cleanup import Leftovers
from ares.control.state.checkpoint_cleanup import CheckpointCleanup
from ares.control.state.commit import Writer
from ares.control.state.cursors import Cursors
from ares.control.state.epoch_guard import Settling
from ares.control.state.leader import Leader, Reign
from ares.control.state.project_cleanup import ProjectCleanup
from ares.control.state.records import Records
from ares.control.state.retention import Retention
from ares.control.state.steady_time import Timekeeping
from ares.control.state.view import View
from ares.control.state.write_probe import WriteProbe
from ares.control.submit.arrays import Arrays, Expanding
from ares.control.submit.cron_loop import CronLoop
from ares.control.submit.crons import Crons
from ares.control.submit.datasets import Datasets
from ares.control.submit.draft import Drafting, Room
from ares.control.submit.estimates import Estimates
from ares.control.submit.oom_growth import OomGrowth
from ares.control.submit.projects import Projects
from ares.control.submit.quota_gate import Admissions
from ares.control.submit.restores import Restores
from ares.control.submit.submit import Submit
from ares.control.submit.updates import Updates
from ares.control.telemetry.gpu_readings import GpuReadings
from ares.control.telemetry.idle_watch import IdleWatch
from ares.control.telemetry.insights import Insights
from ares.control.telemetry.measures import Measures
from ares.control.telemetry.replica_roll import ReplicaRoll
from ares.control.telemetry.series_history import SeriesHistory
from ares.control.telemetry.status import StatusReport
from ares.ports.store import Compare


class Replica:
    """Pure assembly: nothing runs before `loops` and `reign` are."""

    def __init__(self, ports: Ports, terms: ReplicaTerms) -> None:
        store, clock, rng, telemetry = ports.store, ports.clock, ports.rng, ports.telemetry
        self.name = terms.replica
        self._store, self._clock, self._telemetry = store, clock, telemetry
        self.view = view = View(store, clock)
        self._telling(ports, terms)
        self.time = Timekeeping(store, clock, self.alerts.raise_, terms.replica)
        self._audit(ports, terms)
        self._identities(ports, terms)
        self.planner = planner = LiveCluster(view, clock)
        self.proposer = Proposer(ports.planning, view, planner, self.alerts, clock, telemetry, terms.pace)
        self.predictions = Predictions(store, view, planner, clock, telemetry)
        self.decisions = Decisions(clock, rng, ports.decisions)
        self.transitions = Transitions(store, view, clock, rng, telemetry, terms.epoch)
        self.deadlines = Deadlines(view, planner, clock, terms.cluster)
        shared = None if terms.exclusive else store
        self.leases = RateLeases(view, clock, TransferBoard(view, clock, telemetry, shared, terms.replica))
        self.transfer_list = TransferList(view, self.leases)
        self.submit = self._submission(ports, terms)
        self.progress = ProgressBoard(store, view, clock)
        self.leader = Leader(
            store, view, clock,
            cluster=terms.cluster, replica=terms.replica, exclusive=terms.exclusive, timing=terms.timing,
        )  # fmt: skip
        self.nodes = Nodes(store, view, clock)
        self._reading(ports, terms)
        self.sessions = self._agents(ports, terms)
        self.job_sessions = JobSessions(view, self.sessions.by_node, rng)
        self.gpu_readings = readings = GpuReadings(view, self.job_sessions, clock, telemetry)
        self.idle_watch = IdleWatch(view, readings, self.alerts, self.transitions, clock, telemetry)
        self.roll = None if shared is None else ReplicaRoll(shared, view, clock, terms.replica)
        self.status = StatusReport(view, self.health, clock, terms.replica, terms.cluster, ports.backed_up, self.roll)
        self.measures = Measures(view, planner, self.leader, self.health, self.deadlines, self.gpu_readings, clock)
        self._scheduling(ports, terms)
        self.arrays, self.crons = Arrays(view, self.expanding, clock), Crons(store, view, self.projects, clock)
        self.cron_loop = CronLoop(store, view, self.submit, self.transitions, self._standing, self.alerts, clock)
        self.project_cleanup = ProjectCleanup(ports.projects, store, view, clock)
        known = (self.transitions, self.authority, self.alerts, self.audit, self._drafting, self.projects, planner)
        kept = (self.settling, self.time.keeping, terms.keep_s, self.budget_watch.left, *self._counted)
        self.federation = Federation(ports, view, *known, *kept, self._shelf, self._told)
        self.retention = Retention(
            store, view, ports.logs, ports.blobs, self.time.keeping, terms.keep_s,
            awaited=lambda job: self.releases.awaited(job) or self.federation.news.is_untold(job),
            members=self.flow_index.members,
        )  # fmt: skip

    def _identities(self, ports: Ports, terms: ReplicaTerms) -> None:
        store, view, clock = ports.store, self.view, ports.clock
        self.tenants = Tenants(store, view, clock)
        self.users = Users(store, view, clock, ports.rng)
        self._standing = standing = AccountCheck(store, view)
        self.logins = Logins(self.users, standing, terms.providers, ports.provider_keys)
        self.tokens = Tokens(store, view, self.time.ending, ports.rng, standing, self.logins, self.time.keeping)
        self.browser_logins = BrowserLogins(store, view, self.logins, ports.provider_codes, self.time.ending, ports.rng)
        self.authority = MachineAuthority(store, view, self.time.ending, ports.issuer, terms.certificate_s)

    def _reading(self, ports: Ports, terms: ReplicaTerms) -> None:
        store, view, clock, planner = ports.store, self.view, ports.clock, self.planner
        reasons = WaitingReasons(view, self.flow_index, clock, self.leases.board.waits_for)
        self.jobs = Jobs(
            store, view, self.transitions, self.submit, self.expanding, planner, self.deadlines, reasons, self._cursors,
            clock, self._growth, self.child_index,
        )  # fmt: skip
        changes = (self.transitions, self.updates, self.expanding)
        self.steering = Steering(view, Records(store, view), self.jobs.listing, *changes)
        self.events, self.logs = EventStream(store, view), LogReader(view, ports.logs, clock)
        self.outputs, self.checkpoints = OutputReader(store, view, ports.blobs), CheckpointReader(store, view)
        self.pools = Pools(view, self.nodes, planner, clock)
        self.health = Health(
            view, self.leader, clock, WriteProbe(store, clock, terms.replica), ports.disk, terms.plugins.refused,
            self.disk_watch, self.proposer.cut, self.proposer.facts, ports.object_store,
        )  # fmt: skip
        self.explain = Explain(store, view, planner, self.decisions, reasons, clock)
        self.traces = Traces(store, view, self.decisions, ports.logs, clock, terms.cluster)
        self.spending = Spending(view, clock, terms.cluster)
        self._shelf = BookShelf(store, view, clock, terms.cluster, terms.epoch)
        self._told = ToldBooks(store, view, clock, terms.cluster)
        books, found = (self._shelf, self._told), (self.audit_search, self.audit_heads)
        self.books = desk_of(view, *books, self.quotas, self.spending, *found, clock)
        kept = (*books, clock, self.time.keeping, terms.replica)
        self.accounting = Accounting(store, view, *kept) if terms.books else None
        self.overviews = Overviews(view, planner, self.deadlines, clock)
        self.plugins = Plugins(view, terms.plugins, self.proposer)

    def _agents(self, ports: Ports, terms: ReplicaTerms) -> Sessions:
        store, view, clock, telemetry, logs = ports.store, self.view, ports.clock, ports.telemetry, ports.logs
        self.secrets = Secrets(store, view, clock, ports.vault, hashlib.sha256(terms.store_id.encode()).digest())
        self.checkpoint_cleanup = CheckpointCleanup(store, view, ports.blobs, clock)
        self.leftovers = Leftovers(store, view, ports.blobs, clock, self.checkpoint_cleanup)
        rights = Rights(view, self.audit, self.alerts, telemetry)
        restoring = Restoring(store, view, ports.blobs, telemetry, ports.signed)
        self.staging = Staging(view, ports.projects, telemetry, restoring, ports.signed, self.secrets, clock)
        uploads = Uploads(
            rights=rights, blobs=ports.blobs, leftovers=self.leftovers, telemetry=telemetry,
            bytes_max=terms.output_bytes_max,
        )  # fmt: skip
        checkpoints = CheckpointIntake(
            store=store, view=view, rights=rights, blobs=ports.blobs, transitions=self.transitions,
            cleanup=self.checkpoint_cleanup, telemetry=telemetry, bytes_max=terms.output_bytes_max,
        )  # fmt: skip
        keeper = LogKeeper(view=view, rights=rights, logs=logs, telemetry=telemetry, bytes_max=terms.log_bytes_max)
        return Sessions(
            view=view, enrolment=Enrolment(store, clock, terms.replica, terms.timing),
            reports=ReportIntake(
                reports=Reports(self.transitions, telemetry), rights=rights, logs=keeper, uploads=uploads,
                checkpoints=checkpoints, clock=clock, alerts=self.alerts,
            ), rights=rights, timing=terms.timing,
            progress=self.progress, tokens=self.tokens, logs=keeper, uploads=uploads, secrets=self.secrets, clock=clock,
            handover=Handover(view, self.transitions, clock, telemetry), leases=self.leases,
            telemetry=telemetry, epoch=terms.epoch, ack_within_s=terms.ack_within_s, store_lock=terms.store_lock,
        )  # fmt: skip

    def _scheduling(self, ports: Ports, terms: ReplicaTerms) -> None:
        store, view, clock, telemetry = ports.store, self.view, ports.clock, ports.telemetry
        planner, transitions = self.planner, self.transitions
        self.monitor = Monitor(view, transitions, clock, telemetry, terms.timing)
        self.quarantine = Quarantine(store, view, clock, self.alerts)
        self.monitor.noted = self.quarantine.note
        self.requeue = Requeue(view, transitions, clock, self.alerts, terms.retries_per_minute, self._growth.grow)
        self.releases = Releases(view, self.flow_index, transitions, clock)
        self.child_cancels = ChildCancels(view, self.child_index, transitions, clock)
        self.settling = Settling(store, clock, terms.timing, terms.epoch)
        self.schedule = SchedulerLoop(
            view, planner, self.proposer, transitions, self.decisions, clock, telemetry, linger_s=terms.linger_s,
            unpaid=self.budget_watch.unpaid,
        )  # fmt: skip
        self.profiles = Profiles(store, view, clock, telemetry)
        self.shadow = ShadowJudging(store, view, self.profiles, self.alerts, self.audit, ports.judging, clock)
        self.drain = Drain(view, planner, transitions, clock, telemetry)
        self.consolidate = Consolidate(view, planner, transitions, clock, telemetry)
        self.book, self.gaps = Book(store, view), Gaps(view, planner, transitions, clock, telemetry)
        kept = (terms.keep_s, self.time.keeping)
        self.windows = Windows(store, self.book, view, planner, transitions, clock, telemetry, *kept)
        booked = (self.book, Records(store, view), view, planner, self.windows)
        self.reservations = Reservations(*booked, clock, ports.rng, telemetry)
        self.tally = PendingMetrics(planner, clock, telemetry)
        self.scaling = ScalingState(store, view, planner, clock, terms.scaling, ports.prices)
        joining = (self.nodes, self.tokens, ports.providers, terms.agent_servers)
        self.autoscaler = Autoscaler(store, view, self.scaling, *joining, clock, ports.rng, telemetry)

    def _telling(self, ports: Ports, terms: ReplicaTerms) -> None:
        store, clock, telemetry = ports.store, ports.clock, ports.telemetry
        self.alerts = Alerts(store, self.view, clock, telemetry)
        self.aside_watch = AsideWatch(self.view.aside, self.alerts, clock)
        reserves = ports.reserves
        self.disk_watch = None if reserves is None else DiskWatch(reserves, self.alerts, clock, terms.replica)
        sealing = Sealing(ports.vault)
        self.channels = Channels(store, self.view, clock, ports.rng, ports.notifier, sealing)
        self.delivery = Delivery(store, self.view, clock, telemetry, ports.notifier, sealing)

    def _submission(self, ports: Ports, terms: ReplicaTerms) -> Submit:
        store, clock, telemetry, view, deadlines = ports.store, ports.clock, ports.telemetry, self.view, self.deadlines
        judging = Judging(view, clock, ports.rules)
        self.policies = Policies(store, view, clock, judging)
        counting = Counting(view, lambda: self.planner.cluster.holdings, self.time.ending)
        self.budget_watch = BudgetWatch(view, counting, self.transitions, self.alerts, clock)
        writer = Writer(store, clock, telemetry, "submit")
        admissions = Admissions(writer, view, counting, clock, ports.rng, telemetry, terms.epoch)
        self._counted = (admissions, counting)
        self.meters = Meters(store, view, clock, terms.replica)
        self.quotas = Quotas(store, view, counting, self.meters, self.leases.board.rate, clock)
        self.recount = Recount(store, view, counting, self.alerts, clock, telemetry)
        self._drafting = drafting = Drafting(
            view, deadlines, clock, ports.rng, telemetry, terms.epoch,
            Room(terms.jobs_max, terms.tenant_records_max, terms.tenant_jobs_max), judging,
            Estimates(view, self.planner), self.quotas,
        )  # fmt: skip
        self.expanding = Expanding(store, view, terms.epoch)
        self.updates = Updates(view, self.transitions, drafting, deadlines, admissions, clock)
        self._growth = OomGrowth(view, self.updates)
        self.projects = Projects(ports.projects, telemetry, terms.project_bytes_max)
        self.datasets = Datasets(
            store, view, ports.projects, self.projects, counting, clock, ports.rng, terms.dataset_bytes_max
        )
        submit = Submit(
            store, writer, view, deadlines, drafting, self.expanding, admissions, self.projects, self.alerts, telemetry,
            clock, Restores(store, view, ports.blobs),
        )  # fmt: skip
        self.flow_index = FlowIndex(view)
        self.child_index = ChildIndex(view)
        self.children = Children(view, submit, self._standing, self.audit, clock)
        flows = FlowSubmission(
            store, view, submit, drafting, self.expanding, self.projects, clock, ports.rng, telemetry, terms.epoch
        )
        self.workflows = Workflows(store, view, self.flow_index, self.child_index, flows, self.transitions, clock)
        return submit

    def _audit(self, ports: Ports, terms: ReplicaTerms) -> None:
        self._cursors = Cursors(hashlib.sha256(terms.store_id.encode()).digest())
        chain, clock = None if ports.audit is None else ports.audit.chain, ports.clock
        seal = None if ports.audit is None else ports.audit.signer.seal
        self.audit = Audit(chain, clock, ports.telemetry, required=terms.audit_required, seal=seal)
        self.audit.heed = AuditWatch(self.alerts, clock).heed
        self.audit_search = AuditSearch(chain, self.view, self._cursors)
        self.audit_heads = None if ports.audit is None else AuditHeads(
            self.audit, ports.audit, ports.store, self.view, clock, self.alerts,
            keep_s=terms.audit_keep_s, keeping=self.time.keeping,
        )  # fmt: skip

    def insights(self, history: SeriesHistory) -> Insights:
        """What watches the numbers that this replica remembers."""
        return Insights(self._store, self.view, history, self.alerts, self._telemetry, self._clock, self.name)

    async def open_audit(self) -> None:
        """Once the view has caught up, and before any request is served."""
        await self.audit.open()
        if self.audit_heads is not None:
            await self.audit_heads.open()

    async def close_audit(self) -> None:
        """After the last request."""
        await self.audit.settle()
        if self.audit_heads is not None:
            await self.audit_heads.close()
        await self.audit.close()

    def loops(self, reign: Reign | None = None) -> dict[str, Coroutine[object, object, None]]:
        """What every replica runs once its view has caught up; the view's own loop comes before."""
        return {
            "progress": self.progress.run(),
            "predictions": self.predictions.run(),
            "leftovers": self.leftovers.run(),
            "checkpoints": self.checkpoint_cleanup.run(),
            "alerts": self.alerts.run(),
            "time": self.time.run(),
            "aside": self.aside_watch.run(),
            **({} if self.disk_watch is None else {"disk": self.disk_watch.run()}),
            "leader": self.leader.run(reign or self.reign),
            "recount": self.recount.run(),
            "meters": self.meters.run(),
            "transfers": self.leases.run(self.sessions.by_node),
            **({} if self.audit_heads is None else {"audit": self.audit.run(), "heads": self.audit_heads.run()}),
        }

    async def reign(self, guard: Compare) -> None:
        """What only the leader runs."""
        async with asyncio.TaskGroup() as loops:
            for loop in self.duties(guard):
                loops.create_task(loop)

    async def _grant(self, guard: Compare) -> None:
        await self.settling.wait(guard)
        await self.schedule.run(guard)

    def duties(self, guard: Compare) -> tuple[Coroutine[object, object, None], ...]:
        return (
            self._grant(guard),
            self.drain.run(guard),
            self.windows.run(guard),
            self.gaps.run(guard),
            self.predictions.lead(guard),
            self.monitor.run(),
            self.requeue.run(),
            self.releases.run(),
            self.child_cancels.run(),
            self.workflows.abandoned.run(),
            self.quarantine.run(),
            self.tally.run(),
            self.shadow.run(guard),
            self.arrays.run(),
            self.cron_loop.run(),
            self.retention.run(),
            self.project_cleanup.run(),
            self.time.lead(guard),
            self.budget_watch.run(),
            self.delivery.run(guard),
            self.autoscaler.run(guard),
            *(() if self.accounting is None else (self.accounting.run(guard),)),
            *self.federation.duties(guard),
        )
