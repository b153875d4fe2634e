"""Changing jobs that wait or run: one by one, or all that fit a filter."""

from typing import Any

from litestar.types import ASGIApp

from ares.api.updates import BulkAnswer, BulkBody, BulkUpdateBody, JobUpdate
from ares.core.refusal import Refusal
from ares.edge.rest.answers import answer
from ares.edge.rest.bodies import NoQuery, ReasonBody
from ares.edge.rest.http.operation import RequestCall
from ares.edge.rest.http.problems import granted


async def update_job(call: RequestCall[NoQuery, JobUpdate]) -> ASGIApp:
    return answer(await call.edge.services.steering.update(call.who, call.path["id"], call.body))


async def requeue_job(call: RequestCall[NoQuery, ReasonBody]) -> ASGIApp:
    return answer(await call.edge.services.steering.requeue(call.who, call.path["id"], call.body.reason))


async def cancel_jobs(call: RequestCall[NoQuery, BulkBody]) -> ASGIApp:
    return _told(call, await call.edge.services.steering.cancel_found(call.who, call.body), "cancelled")


async def requeue_jobs(call: RequestCall[NoQuery, BulkBody]) -> ASGIApp:
    return _told(call, await call.edge.services.steering.requeue_found(call.who, call.body), "requeued")


async def hold_jobs(call: RequestCall[NoQuery, BulkBody]) -> ASGIApp:
    return _told(call, await call.edge.services.steering.hold_found(call.who, call.body), "held")


async def release_jobs(call: RequestCall[NoQuery, BulkBody]) -> ASGIApp:
    return _told(call, await call.edge.services.steering.release_found(call.who, call.body), "released")


async def update_jobs(call: RequestCall[NoQuery, BulkUpdateBody]) -> ASGIApp:
    return _told(call, await call.edge.services.steering.update_found(call.who, call.body), "updated")


def _told(call: RequestCall[NoQuery, Any], done: BulkAnswer | Refusal, what: str) -> ASGIApp:
    """The answer, and into the audit how many were changed."""
    changed = granted(done)
    call.made(**{what: changed.changed})
    return answer(changed)
