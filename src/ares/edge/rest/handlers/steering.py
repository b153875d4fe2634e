"""Changing jobs that wait or run: one by one, or all that fit a filter."""

from litestar.types import ASGIApp

from ares.api.updates import BulkBody, BulkUpdateBody, JobUpdate
from ares.edge.rest.answers import answer
from ares.edge.rest.bodies import NoQuery, ReasonBody
from ares.edge.rest.http.operation import RequestCall
from ares.edge.rest.http.problems import granted


async def update_job(call: RequestCall[NoQuery, JobUpdate]) -> ASGIApp:
    return answer(await call.edge.services.steering.update(call.who, call.path["id"], call.body))


async def requeue_job(call: RequestCall[NoQuery, ReasonBody]) -> ASGIApp:
    return answer(await call.edge.services.steering.requeue(call.who, call.path["id"], call.body.reason))


async def cancel_jobs(call: RequestCall[NoQuery, BulkBody]) -> ASGIApp:
    done = granted(await call.edge.services.steering.cancel_found(call.who, call.body))
    call.made(cancelled=done.changed)
    return answer(done)


async def requeue_jobs(call: RequestCall[NoQuery, BulkBody]) -> ASGIApp:
    done = granted(await call.edge.services.steering.requeue_found(call.who, call.body))
    call.made(requeued=done.changed)
    return answer(done)


async def hold_jobs(call: RequestCall[NoQuery, BulkBody]) -> ASGIApp:
    done = granted(await call.edge.services.steering.hold_found(call.who, call.body))
    call.made(held=done.changed)
    return answer(done)


async def release_jobs(call: RequestCall[NoQuery, BulkBody]) -> ASGIApp:
    done = granted(await call.edge.services.steering.release_found(call.who, call.body))
    call.made(released=done.changed)
    return answer(done)


async def update_jobs(call: RequestCall[NoQuery, BulkUpdateBody]) -> ASGIApp:
    done = granted(await call.edge.services.steering.update_found(call.who, call.body))
    call.made(updated=done.changed)
    return answer(done)
