"""Submitting jobs, one or many, and the files that they start with."""

from collections.abc import Sequence
from typing import Any

import msgspec
from litestar.types import ASGIApp
from msgspec.structs import replace

from ares.api.jobs import JobWarning, SubmitBody
from ares.control.state.pacing import LOOKED_AT, WORKED_ON, breathe
from ares.control.submit.submit import AcceptedJob, SubmitRequest
from ares.core.access.table import reaches
from ares.core.refusal import Refusal
from ares.edge.rest.answers import BatchAnswer, BatchOutcome, Created, ProblemDocument, answer
from ares.edge.rest.bodies import NoQuery
from ares.edge.rest.http.operation import RequestCall
from ares.edge.rest.http.problems import Problem, granted, problem_of
from ares.edge.rest.http.strict import StrictDecoder, invalid
from ares.model.access import Principal
from ares.model.base import RequestId
from ares.model.job import PRIORITIES, JobSpec

_job = StrictDecoder(SubmitBody, "spec")


class _Batch(msgspec.Struct, forbid_unknown_fields=True):
    """The outer shell; jobs stay bytes, so that one bad job does not spoil the others."""

    jobs: list[msgspec.Raw]


_batch = msgspec.json.Decoder(_Batch)


async def submit_job(call: RequestCall[NoQuery, SubmitBody]) -> ASGIApp:
    keyed = request_id(call.header(b"idempotency-key"))
    body = call.body
    if keyed is not None and body.request_id not in (None, keyed):
        raise Problem("request-id-mismatch", path="$.requestId")
    call.edge.meter.submit(call.who, 1)
    request = request_of(call.who, body, call.plain, call.header(b"traceparent") or "", keyed)
    (found,) = await call.edge.services.submit.submit(call.who, [request], outlooks=True)
    outcome = granted(found)
    links = _links(outcome.job)
    (never,) = await _warnings(call, [request])
    created = Created(
        id=outcome.job,
        replayed=outcome.replayed,
        tasks=outcome.tasks,
        links=links,
        warnings=(*never, *_told(outcome)),
        deadline=outcome.deadline,
    )
    return answer(created, status=200 if outcome.replayed else 201, headers={"location": links["self"]})


async def submit_batch(call: RequestCall[NoQuery, None]) -> ASGIApp:
    if call.header(b"idempotency-key") is not None:
        raise Problem(
            "bad-request",
            detail="a batch takes no Idempotency-Key",
            fix="Give each job of the batch its own requestId.",
        )
    jobs = _split(call.raw)
    limit = call.edge.settings.batch_jobs_max
    if not 1 <= len(jobs) <= limit:
        raise Problem("invalid", detail=f"{len(jobs)} jobs; a batch holds 1 to {limit}", path="$.jobs")
    call.edge.meter.submit(call.who, len(jobs))
    drafts = await _drafts(call, jobs)
    good = [draft for draft in drafts if isinstance(draft, SubmitRequest)]
    outcomes = iter(await call.edge.services.submit.submit(call.who, good, outlooks=True) if good else ())
    warnings = iter(await _warnings(call, good))
    results: list[BatchOutcome] = []
    for place, draft in enumerate(drafts):
        if place % WORKED_ON == WORKED_ON - 1:
            await breathe()
        refused = isinstance(draft, Problem)
        results.append(_outcome(draft, place) if refused else _outcome(next(outcomes), place, next(warnings)))
    replayed = sum(result.replayed for result in results)
    rejected = sum(result.error is not None for result in results)
    created = len(results) - replayed - rejected
    ids = [f"jobs/{result.id}" for result in results if result.id]
    call.made(*ids, created=created, replayed=replayed, rejected=rejected)
    return answer(BatchAnswer(results=results, created=created, replayed=replayed, rejected=rejected))


async def _warnings(call: RequestCall[NoQuery, Any], requests: Sequence[SubmitRequest]) -> list[tuple[JobWarning, ...]]:
    """What is to be said at once: that a job can never start as things are."""
    specs: list[JobSpec] = []
    for place, request in enumerate(requests):
        if place % LOOKED_AT == LOOKED_AT - 1:
            await breathe()
        specs.append(call.edge.services.submit.sized(request.spec))
    reasons = await call.edge.services.explain.infeasible(call.who, specs)
    return [
        () if why is None else (JobWarning(code=why.code, message=why.message, remedy=why.remedy),) for why in reasons
    ]


def _told(outcome: AcceptedJob) -> tuple[JobWarning, ...]:
    if not outcome.warnings and not outcome.soft_limits:
        return ()
    policies = (JobWarning(code="policy", message=f"policy {said.policy}: {said.message}") for said in outcome.warnings)
    return (*policies, *(JobWarning(code="soft-limit", message=text) for text in outcome.soft_limits))


def _split(raw: bytes) -> list[bytes]:
    """The jobs of a batch, still as text."""
    try:
        jobs = [bytes(job) for job in _batch.decode(raw).jobs]
    except msgspec.ValidationError as error:
        raise invalid(error) from None
    except RecursionError:
        raise Problem("too-deep") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Problem("malformed-json", detail=str(error)) from None
    # The shell has one key and so one colon; more of them outside the jobs mean that it came twice.
    if raw.count(b":") != 1 + sum(job.count(b":") for job in jobs):
        raise Problem("duplicate-key", detail="the key 'jobs' appears twice in one object")
    return jobs


async def _drafts(call: RequestCall[NoQuery, None], jobs: Sequence[bytes]) -> list[SubmitRequest | Problem]:
    trace = call.header(b"traceparent") or ""
    drafts: list[SubmitRequest | Problem] = []
    for place, raw in enumerate(jobs):
        if place % WORKED_ON == WORKED_ON - 1:
            await breathe()
        try:
            body, plain = _job.decode(raw)
            drafts.append(request_of(call.who, body, plain, trace))
        except Problem as problem:
            path = _at(problem.path, place)
            drafts.append(Problem(problem.code, detail=problem.detail, fix=problem.fix, path=path))
    return drafts


def _at(path: str, place: int) -> str:
    """What is wrong in a job, as seen from its batch."""
    return f"$.jobs[{place}]{path.removeprefix('$')}"


def request_of(
    who: Principal, body: SubmitBody, plain: Any, trace: str = "", keyed: str | None = None
) -> SubmitRequest:
    if body.tenant_id is not None and body.tenant_id != who.tenant:
        raise Problem("tenant-mismatch", path="$.tenantId")
    spec = teamed(who, _filled(body, plain["spec"]))
    return SubmitRequest(spec=spec, request_id=keyed or body.request_id, trace=trace)


def teamed(who: Principal, spec: JobSpec) -> JobSpec:
    """A user's jobs count for the user's team. Only a caller that may change users may name another team."""
    if not who.user or who.home or spec.team == who.team:
        return spec
    if spec.team is not None and reaches(who, "users:admin", who.tenant):
        return spec
    if spec.team is None:
        return msgspec.structs.replace(spec, team=who.team)
    mine = f"you are of {who.team!r}" if who.team else "you are of none"
    detail = f"the team {spec.team!r} is not yours: {mine}"
    fix = "Leave the team out, or have a tenant-admin move you: `ares user set NAME --team TEAM`."
    raise Problem("forbidden", detail=detail, fix=fix, path="$.spec.team", reason="team")


def _filled(body: SubmitBody, said: dict[str, Any]) -> JobSpec:
    """The specification, with what stands beside it where it says nothing itself."""
    changes: dict[str, Any] = {}
    if body.priority is not None and "priority" not in said:
        changes["priority"] = PRIORITIES[body.priority] if isinstance(body.priority, int) else body.priority
    if body.expected_runtime is not None and "expectedRuntimeS" not in said:
        changes["expected_runtime_s"] = body.expected_runtime
    if body.input_refs is not None and "inputRefs" not in said:
        changes["input_refs"] = body.input_refs
    if body.cost_estimate is not None and "claimedCost" not in said:
        changes["claimed_cost"] = body.cost_estimate
    if body.estimate_cores is not None and "cpuMilli" not in said.get("resources", {}):
        cpu_milli = max(1, round(body.estimate_cores * 1000))
        changes["resources"] = msgspec.structs.replace(body.spec.resources, cpu_milli=cpu_milli)
    return msgspec.structs.replace(body.spec, **changes) if changes else body.spec


def request_id(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return msgspec.convert(text, RequestId)
    except msgspec.ValidationError as error:
        raise Problem("invalid", detail=str(error), path="header.Idempotency-Key") from None


def _outcome(
    outcome: AcceptedJob | Refusal | Problem, place: int, warnings: tuple[JobWarning, ...] = ()
) -> BatchOutcome:
    if isinstance(outcome, AcceptedJob):
        return BatchOutcome(
            id=outcome.job, replayed=outcome.replayed, tasks=outcome.tasks, warnings=(*warnings, *_told(outcome)),
            deadline=outcome.deadline,
        )  # fmt: skip
    if isinstance(outcome, Refusal):
        outcome = problem_of(replace(outcome, path=_at(outcome.path, place)) if outcome.path else outcome)
    return BatchOutcome(error=ProblemDocument(**outcome.document()))


def _links(job: str) -> dict[str, str]:
    base = f"/v1/jobs/{job}"
    return {"self": base, "events": f"{base}/events", "logs": f"{base}/logs"}


# ---- the files that jobs start with


async def ship_project(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(await call.edge.services.projects.offer(call.who.tenant, call.raw))


async def ship_parts(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(await call.edge.services.projects.take(call.who.tenant, call.raw))
