"""Bulk bytes on their way."""

from litestar.types import ASGIApp

from ares.edge.rest.answers import answer
from ares.edge.rest.bodies import NoQuery
from ares.edge.rest.http.operation import RequestCall


async def list_transfers(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(call.edge.services.transfers.show(call.who))
