"""How long jobs run and when they start: asked about a job, and how good the answers have been."""

from litestar.types import ASGIApp

from ares.control.scheduler.predictions import ModelRefused
from ares.core.forecast.trees import TreeModel
from ares.edge.rest.answers import answer, empty
from ares.edge.rest.bodies import NoQuery, SubmitBody
from ares.edge.rest.handlers.submit import request_of
from ares.edge.rest.http.operation import RequestCall
from ares.edge.rest.http.problems import Problem, not_found


async def get_predictions(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(await call.edge.services.predictions.report())


async def predict_job(call: RequestCall[NoQuery, SubmitBody]) -> ASGIApp:
    spec = request_of(call.who, call.body, call.plain).spec
    return answer(await call.edge.services.predictions.job(call.who, spec))


async def put_model(call: RequestCall[NoQuery, TreeModel]) -> ASGIApp:
    found = await call.edge.services.predictions.install(call.body)
    if isinstance(found, ModelRefused):
        raise Problem("invalid", detail=found.message, fix="Train it again with `ares predict train`.")
    return answer(found)


async def delete_model(call: RequestCall[NoQuery, None]) -> ASGIApp:
    if not await call.edge.services.predictions.uninstall():
        raise not_found()
    return empty()
