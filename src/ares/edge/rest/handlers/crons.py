"""A tenant's schedules."""

from litestar.types import ASGIApp
from msgspec.structs import replace

from ares.api.jobs import CronBody, CronList
from ares.edge.rest.answers import answer, empty
from ares.edge.rest.bodies import NoQuery, ReasonBody
from ares.edge.rest.handlers.submit import teamed
from ares.edge.rest.http.operation import RequestCall


async def list_crons(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(CronList(crons=await call.edge.services.crons.list(call.who)))


async def get_cron(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(await call.edge.services.crons.get(call.who, call.path["cron"]))


async def put_cron(call: RequestCall[NoQuery, CronBody]) -> ASGIApp:
    body = replace(call.body, spec=teamed(call.who, call.body.spec))
    return answer(await call.edge.services.crons.put(call.who, call.path["cron"], body))


async def delete_cron(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return empty(await call.edge.services.crons.remove(call.who, call.path["cron"]))


async def pause_cron(call: RequestCall[NoQuery, ReasonBody]) -> ASGIApp:
    return answer(await call.edge.services.crons.pause(call.who, call.path["cron"], call.body.reason))


async def resume_cron(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(await call.edge.services.crons.resume(call.who, call.path["cron"]))
