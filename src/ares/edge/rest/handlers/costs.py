"""Cost by day, budgets, and charges for programs that read bills."""

from typing import Annotated

from litestar.types import ASGIApp
from msgspec import UNSET, Meta, UnsetType

from ares.api.books.costs import CostBy
from ares.edge.rest.answers import answer
from ares.edge.rest.bodies import NoQuery, given
from ares.edge.rest.http.operation import RequestCall
from ares.model.base import Name, Record

DayText = Annotated[str, Meta(max_length=10, pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$(?!\n)")]


class DaysQuery(Record, frozen=True):
    """Days by UTC, both included; without them the last seven."""

    first: DayText | UnsetType = UNSET
    last: DayText | UnsetType = UNSET


class CostQuery(DaysQuery, frozen=True):
    by: CostBy = "day"
    pool: Name | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 1000


async def get_cost(call: RequestCall[CostQuery, None]) -> ASGIApp:
    asked = call.query
    found = await call.edge.services.books.costs.report(
        call.who, asked.by, given(asked.first), given(asked.last), given(asked.pool), asked.limit
    )
    return answer(found)


async def list_budgets(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(await call.edge.services.books.costs.budgets(call.who))


async def list_charges(call: RequestCall[DaysQuery, None]) -> ASGIApp:
    asked = call.query
    return answer(await call.edge.services.books.costs.charges(call.who, given(asked.first), given(asked.last)))
