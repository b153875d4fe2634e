"""How classes of service fare."""

from litestar.types import ASGIApp

from ares.api.deadlines import SlaView
from ares.edge.rest.answers import answer
from ares.edge.rest.bodies import NoQuery
from ares.edge.rest.http.operation import RequestCall
from ares.model.base import Record


class SlaList(Record, frozen=True):
    """By name; deadlines that jobs have of their own come first, without one."""

    classes: tuple[SlaView, ...]


async def list_classes(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(SlaList(classes=await call.edge.services.deadlines.classes_seen(call.who)))
