"""All of a replica's part in a federation: as a global plane, and as a cluster of one. Where it is neither, nothing is
kept and nothing runs."""

from collections.abc import Coroutine

from ares.control.access.machines import MachineAuthority
from ares.control.autoscale.prices import Prices
from ares.control.books.shelf import BookShelf
from ares.control.books.telling import BookNews
from ares.control.books.told import ToldBooks
from ares.control.execution.transitions import Transitions
from ares.control.federation.asking import AskStreams
from ares.control.federation.clusters import Clusters
from ares.control.federation.imports import Imports
from ares.control.federation.lending.allowances import Allowances
from ares.control.federation.lending.lender import Lender
from ares.control.federation.links import ClusterLinks
from ares.control.federation.membership import Membership
from ares.control.federation.owner_index import OwnerIndex
from ares.control.federation.reconcile import Reconcile
from ares.control.federation.router import Router
from ares.control.federation.routing.answers import RouteAnswers
from ares.control.federation.routing.routes import BudgetLeft, Routes
from ares.control.federation.standing_news import StandingNews
from ares.control.federation.standings import Standings
from ares.control.federation.taking import Taking
from ares.control.federation.uplink import Uplink
from ares.control.governance.alerts import Alerts
from ares.control.governance.audit import Audit
from ares.control.governance.lent_quotas import LentQuotas
from ares.control.governance.quota_usage import Counting
from ares.control.replica_terms import Ports
from ares.control.scheduler.cluster_view import LiveCluster
from ares.control.state.epoch_guard import Settling
from ares.control.state.view import View
from ares.control.submit.draft import Drafting
from ares.control.submit.projects import Projects
from ares.control.submit.quota_gate import Admissions
from ares.ports.clock import Clock
from ares.ports.store import Compare


class Federation:
    def __init__(
        self, ports: Ports, view: View, transitions: Transitions, authority: MachineAuthority, alerts: Alerts,
        audit: Audit, drafting: Drafting, projects: Projects, live: LiveCluster, settling: Settling,
        keeping: Clock, keep_s: float, budget_left: BudgetLeft, admissions: Admissions, counting: Counting,
        shelf: BookShelf, told: ToldBooks,
    ) -> None:  # fmt: skip
        # A clock that never runs ahead, and how long records are kept by it.
        self._keeping, self._keep_s = keeping, keep_s
        store, clock, telemetry, epoch = ports.store, ports.clock, ports.telemetry, transitions.epoch
        lent = LentQuotas(view, counting)
        # The global plane.
        index = OwnerIndex(view)
        self.clusters = Clusters(store, view, authority, index, clock, epoch, lent)
        self.routes = Routes(self.clusters, live, budget_left, clock, Prices(ports.prices, clock))
        self.router = Router(view, self.clusters, index, self.routes, transitions, clock)
        self.answers = live.elsewhere = RouteAnswers(store, view, self.routes, self.router, clock)
        reconcile = Reconcile(view, index, transitions, alerts)
        imports = Imports(store, view, transitions, alerts, clock)
        self.links = ClusterLinks(
            view,
            self.clusters,
            index,
            transitions,
            reconcile,
            imports,
            ports.logs,
            audit,
            Lender(view, admissions, counting, clock, epoch),
            clock,
            telemetry,
            told,
        )
        self.told = told
        told.age_of = self.clusters.age_s
        self.asks = AskStreams()
        # A cluster.
        self.membership = Membership(store, view, clock, ports.vault, ports.global_plane, epoch, lent)
        taking = Taking(store, view, drafting, projects, transitions, clock, telemetry, epoch)
        self.news = news = StandingNews(view, self.membership, taking, Standings(store, view, ports.logs))
        allowances = Allowances(view, self.membership, admissions, counting)
        self.uplink = Uplink(
            view, self.membership, taking, news, allowances, live, clock, ports.rng, telemetry, epoch,
            settling.is_settled, BookNews(shelf, view, clock),
        )  # fmt: skip

    def duties(self, guard: Compare) -> tuple[Coroutine[object, object, None], ...]:
        """What only the leader runs."""
        uplink = self.uplink
        return self.router.run(guard), uplink.run(), uplink.leases.run(), uplink.clean(self._keeping, self._keep_s)
