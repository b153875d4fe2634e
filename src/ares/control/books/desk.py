"""What is read from the books, as one part of a replica."""

from typing import NamedTuple

from ares.api.books.ages import ClusterAge
from ares.control.books.costs import Costs
from ares.control.books.reports import ReportMaker
from ares.control.books.shelf import BookShelf
from ares.control.books.told import ToldBooks
from ares.control.governance.audit_heads import AuditHeads
from ares.control.governance.audit_search import AuditSearch
from ares.control.governance.quotas import Quotas
from ares.control.queries.usage import Spending
from ares.control.state.view import View
from ares.ports.clock import Clock


class BookDesk(NamedTuple):
    costs: Costs
    reports: ReportMaker

    def ages(self) -> tuple[ClusterAge, ...]:
        """How old what is known of clusters is; nothing where this is no global plane."""
        return self.costs.told.ages()


def desk_of(
    view: View,
    shelf: BookShelf,
    told: ToldBooks,
    quotas: Quotas,
    spending: Spending,
    search: AuditSearch,
    heads: AuditHeads | None,
    clock: Clock,
) -> BookDesk:
    costs = Costs(view, shelf, told, quotas, spending, clock)
    return BookDesk(costs, ReportMaker(view, shelf, costs, search, heads))
