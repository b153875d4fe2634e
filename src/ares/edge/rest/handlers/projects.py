"""The files that jobs start with: parts that are missing, and the manifest that names them all."""

from litestar.types import ASGIApp

from ares.edge.rest.answers import answer
from ares.edge.rest.bodies import NoQuery
from ares.edge.rest.http.operation import RequestCall


async def ship_project(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(await call.edge.services.projects.offer(call.who.tenant, call.raw))


async def ship_parts(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(await call.edge.services.projects.take(call.who.tenant, call.raw))
