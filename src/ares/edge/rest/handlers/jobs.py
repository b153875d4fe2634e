"""Looking at jobs and steering them."""

from typing import Any

from litestar.types import ASGIApp

from ares.api.updates import BulkAnswer, BulkBody, BulkUpdateBody, JobUpdate
from ares.control.queries.job_list import JobQuery
from ares.core.refusal import Refusal
from ares.edge.rest.answers import Events, Ids, answer
from ares.edge.rest.bodies import JobsQuery, NoQuery, ReasonBody, ReasonQuery, ResolveQuery, given
from ares.edge.rest.handlers.submit import request_id
from ares.edge.rest.http.operation import RequestCall
from ares.edge.rest.http.problems import granted
from ares.model.state import JobState


async def get_job(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(await call.edge.services.jobs.get(call.who, call.path["id"]))


async def list_jobs(call: RequestCall[JobsQuery, None]) -> ASGIApp:
    asked = call.query
    query = JobQuery(
        phases=frozenset(asked.phase),
        name=given(asked.name),
        labels={key: value for key, _, value in (text.partition("=") for text in asked.label)},
        array=given(asked.array),
        node=given(asked.node),
        user=given(asked.user),
        since=given(asked.since),
        until=given(asked.until),
        arrays=asked.arrays,
        sort=asked.sort,
        limit=asked.limit,
        cursor=asked.cursor,
    )
    return answer(await call.edge.services.jobs.list(call.who, query))


async def resolve_job(call: RequestCall[ResolveQuery, None]) -> ASGIApp:
    return answer(Ids(ids=await call.edge.services.jobs.resolve(call.who, call.query.prefix)))


async def delete_job(call: RequestCall[ReasonQuery, None]) -> ASGIApp:
    return answer(await call.edge.services.jobs.cancel(call.who, call.path["id"], call.query.reason))


async def cancel_job(call: RequestCall[NoQuery, ReasonBody]) -> ASGIApp:
    return answer(await call.edge.services.jobs.cancel(call.who, call.path["id"], call.body.reason))


async def hold_job(call: RequestCall[NoQuery, ReasonBody]) -> ASGIApp:
    return answer(await call.edge.services.jobs.hold(call.who, call.path["id"], call.body.reason))


async def release_job(call: RequestCall[NoQuery, ReasonBody]) -> ASGIApp:
    return answer(await call.edge.services.jobs.release(call.who, call.path["id"], call.body.reason))


async def retry_job(call: RequestCall[NoQuery, ReasonBody]) -> ASGIApp:
    keyed = request_id(call.header(b"idempotency-key")) or ""
    outcome = await call.edge.services.jobs.retry(call.who, call.path["id"], call.body.reason, keyed)
    if isinstance(outcome, JobState) and outcome.id != call.path["id"]:
        call.made(f"jobs/{outcome.id}")
    return answer(outcome)


async def job_events(call: RequestCall[NoQuery, None]) -> ASGIApp:
    events = await call.edge.services.jobs.events(call.who, call.path["id"])
    return answer(Events(events=granted(events)))


# ---- changes of jobs that wait or run


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
