"""How long jobs run and when they start, how good the answers have been, and how classes of service fare."""

from litestar.types import ASGIApp

from ares.api.deadlines import SlaList
from ares.api.jobs import SubmitBody
from ares.core.forecast.trees import TreeModel
from ares.edge.rest.answers import answer, empty
from ares.edge.rest.bodies import NoQuery, SlaQuery, given
from ares.edge.rest.handlers.submit import request_of
from ares.edge.rest.http.operation import RequestCall
from ares.edge.rest.http.problems import NOT_FOUND


async def get_predictions(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(await call.edge.services.predictions.report())


async def predict_job(call: RequestCall[NoQuery, SubmitBody]) -> ASGIApp:
    spec = request_of(call.who, call.body, call.plain).spec
    return answer(await call.edge.services.predictions.job(call.who, spec))


async def put_model(call: RequestCall[NoQuery, TreeModel]) -> ASGIApp:
    return answer(await call.edge.services.predictions.install(call.body))


async def delete_model(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return empty(None if await call.edge.services.predictions.uninstall() else NOT_FOUND)


# ---- classes of service


async def list_classes(call: RequestCall[SlaQuery, None]) -> ASGIApp:
    asked, deadlines = call.query, call.edge.services.deadlines
    classes = await deadlines.classes_seen(call.who, asked.by, given(asked.since_s))
    services = call.edge.services
    return answer(SlaList(classes=classes, at=services.clock.wall(), clusters=services.books.ages()))
