"""The checkpoints of a job."""

from litestar.types import ASGIApp

from ares.edge.rest.answers import answer
from ares.edge.rest.bodies import NoQuery
from ares.edge.rest.http.operation import RequestCall


async def list_checkpoints(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(await call.edge.services.checkpoints.list(call.who, call.path["id"]))
