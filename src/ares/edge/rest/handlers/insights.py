"""What is odd in the platform's numbers, and what people make of it."""

from litestar.types import ASGIApp

from ares.api.telemetry.insights import FeedbackBody
from ares.edge.rest.answers import answer
from ares.edge.rest.bodies import NoQuery
from ares.edge.rest.http.operation import RequestCall
from ares.model.base import Record


class InsightsQuery(Record, frozen=True):
    """`all`: also those with a known cause, and those that were called no anomaly."""

    all: bool = False


async def list_insights(call: RequestCall[InsightsQuery, None]) -> ASGIApp:
    return answer(await call.edge.services.numbers.insights.listed(every=call.query.all))


async def judge_insight(call: RequestCall[NoQuery, FeedbackBody]) -> ASGIApp:
    body = call.body
    return answer(
        await call.edge.services.numbers.insights.judge(call.who, call.path["token"], body.verdict, body.note)
    )
