"""Routes of what the daily books tell: cost, budgets, charges, reports."""

from ares.api.books.costs import BudgetList, CostReport, FocusExport
from ares.api.books.reports import PeriodReport
from ares.edge.rest.answers import JSON
from ares.edge.rest.bodies import NoQuery
from ares.edge.rest.handlers import costs, reports
from ares.edge.rest.handlers.costs import CostQuery, DaysQuery
from ares.edge.rest.handlers.reports import ReportBody
from ares.edge.rest.http.operation import Body, Operation

_REPORT = "application/json, text/html, text/csv"

BOOK_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "getCost", "GET", "/cost", "jobs:read",
        "What days cost: useful, lost, running and idle GPU-hours and money, by day, tenant, team, pool or model.",
        costs.get_cost, {200: (JSON, CostReport)}, CostQuery, problems=("invalid",), tag="usage",
    ),
    Operation(
        "listBudgets", "GET", "/cost/budgets", "jobs:read",
        "What was spent this month, where that leads, and the budget.",
        costs.list_budgets, {200: (JSON, BudgetList)}, NoQuery, tag="usage",
    ),
    Operation(
        "listCharges", "GET", "/cost/focus", "jobs:read",
        "The same as charges of FOCUS, for programs that read bills.",
        costs.list_charges, {200: (JSON, FocusExport)}, DaysQuery, problems=("invalid",), tag="usage",
    ),
    Operation(
        "makeSlaReport", "POST", "/reports/sla", "jobs:read", "A report on promises kept and missed.",
        reports.make_sla, {200: (_REPORT, PeriodReport)}, NoQuery, Body(ReportBody, required=False), ("invalid",),
        tag="reports",
    ),
    Operation(
        "makeCostReport", "POST", "/reports/cost", "jobs:read", "A report on cost and energy.",
        reports.make_cost, {200: (_REPORT, PeriodReport)}, NoQuery, Body(ReportBody, required=False), ("invalid",),
        tag="reports",
    ),
    Operation(
        "makeComplianceReport", "POST", "/reports/compliance", "audit:read",
        "Evidence of who may do what, and did what.", reports.make_compliance, {200: (_REPORT, PeriodReport)}, NoQuery,
        Body(ReportBody, required=False), ("invalid",), tag="reports",
    ),
)  # fmt: skip
