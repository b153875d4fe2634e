"""Requests about cost, as values like those in `calls`, and what they are answered."""

from ares.api.books.costs import BudgetProjection, CostBy, CostReport, FocusExport
from ares.api.usage import By, UsageReport
from ares.edge.client.calls.calls import Call, Request, query
from ares.edge.client.sending import AsyncSends, Sends
from ares.edge.client.units import seconds


def usage(by: By, since_s: float | None, limit: int) -> Call[UsageReport]:
    """What jobs used."""
    return Call(Request("GET", "/v1/usage", query({"by": by, "sinceS": since_s, "limit": limit})), UsageReport)


def cost(
    by: CostBy = "day", first: str | None = None, last: str | None = None, pool: str | None = None, limit: int = 1000
) -> Call[CostReport]:
    asked = {"by": by, "first": first, "last": last, "pool": pool, "limit": limit}
    return Call(Request("GET", "/v1/cost", query(asked)), CostReport)


def budgets() -> Call[tuple[BudgetProjection, ...]]:
    return Call(Request("GET", "/v1/cost/budgets"), tuple[BudgetProjection, ...], "budgets")


def charges(first: str | None = None, last: str | None = None) -> Call[FocusExport]:
    return Call(Request("GET", "/v1/cost/focus", query({"first": first, "last": last})), FocusExport)


class AsyncCostMethods(AsyncSends):
    """What jobs used and what the platform costs, of the asynchronous client."""

    async def usage(self, by: By = "tenant", *, since: str | float | None = None, limit: int = 1000) -> UsageReport:
        """What jobs used and what it cost; `since` is a duration such as "7d", without it all known jobs count."""
        return await self.send(usage(by, None if since is None else seconds(since), limit))

    async def cost(
        self, by: CostBy = "day", *, first: str | None = None, last: str | None = None, pool: str | None = None
    ) -> CostReport:
        """What days cost, from the first to the last (as in "2026-11-17"); without them the last seven."""
        return await self.send(cost(by, first, last, pool))

    async def budgets(self) -> tuple[BudgetProjection, ...]:
        """What was spent this month, where that leads, and the budget."""
        return await self.send(budgets())


class CostMethods(Sends):
    """What jobs used and what the platform costs, of the blocking client, generated."""

    def usage(self, by: By = "tenant", *, since: str | float | None = None, limit: int = 1000) -> UsageReport:
        """What jobs used and what it cost; `since` is a duration such as "7d", without it all known jobs count."""
        return self.send(usage(by, None if since is None else seconds(since), limit))

    def cost(
        self, by: CostBy = "day", *, first: str | None = None, last: str | None = None, pool: str | None = None
    ) -> CostReport:
        """What days cost, from the first to the last (as in "2026-11-17"); without them the last seven."""
        return self.send(cost(by, first, last, pool))

    def budgets(self) -> tuple[BudgetProjection, ...]:
        """What was spent this month, where that leads, and the budget."""
        return self.send(budgets())
