"""Why jobs wait, what a new one would meet, and decisions looked at again."""

import msgspec
from litestar.types import ASGIApp
from msgspec.structs import replace

from ares.api.decisions import PlanAnswer
from ares.api.jobs import SubmitBody
from ares.control.federation.routing.answers import reason_of
from ares.core.admit.admission import decide, too_late
from ares.core.trace import forms
from ares.edge.rest.answers import Answer, Events, PrioList, answer
from ares.edge.rest.bodies import NoQuery, PrioQuery, ReplayBody, TraceQuery
from ares.edge.rest.handlers.submit import request_of
from ares.edge.rest.http.operation import RequestCall
from ares.edge.rest.http.problems import granted
from ares.model.job import JobSpec

# Formats of a trace other than our own.
_FORMS = {"otlp": forms.otlp, "chrome": forms.chrome}


async def explain_job(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(await call.edge.services.explain.job(call.who, call.path["id"]))


async def get_job_route(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(await call.edge.services.federation.answers.of(call.who, call.path["id"]))


async def get_trace(call: RequestCall[TraceQuery, None]) -> ASGIApp:
    trace, form = await call.edge.services.traces.of(call.who, call.path["id"]), _FORMS.get(call.query.format)
    return answer(trace) if form is None else Answer(msgspec.json.encode(form(granted(trace))))


async def list_prio(call: RequestCall[PrioQuery, None]) -> ASGIApp:
    return answer(PrioList(jobs=await call.edge.services.explain.prio(call.who, call.query.limit)))


async def plan_job(call: RequestCall[NoQuery, SubmitBody]) -> ASGIApp:
    """Takes what a submission takes and refuses what it refuses, so that a plan that answers can be submitted."""
    request, deadlines = request_of(call.who, call.body, call.plain), call.edge.services.deadlines
    indices = granted(decide(request.spec)).indices
    tasks = 1 if indices is None else len(indices)
    judged = granted(call.edge.services.submit.judged(call.who, request, tasks))
    spec = judged.spec
    no = too_late(spec, call.edge.services.clock.wall()) or deadlines.unknown(spec)
    if no is not None:
        return answer(no)
    spec = deadlines.dated(spec)
    found = await _routed(await call.edge.services.explain.plan(call.who, spec), call, spec)
    warnings = tuple(f"policy {said.policy}: {said.message}" for said in judged.warnings)
    deadline = await deadlines.ahead(call.who, spec)
    by_default = None if request.spec.resources.memory_mib else spec.resources.memory_mib
    return answer(replace(found, deadline=deadline, warnings=warnings, default_memory_mib=by_default))


async def _routed(found: PlanAnswer, call: RequestCall[NoQuery, SubmitBody], spec: JobSpec) -> PlanAnswer:
    """At a global plane, what its clusters make of it."""
    seen = await call.edge.services.federation.answers.planned(call.who, spec)
    if seen is None or seen.decision is None or found.starts_now:
        return replace(found, routing=seen)
    best = seen.decision.ranked[0].terms if seen.decision.ranked else None
    if best is not None and not best.wait_s and not best.boot_s:
        return replace(found, routing=seen, starts_now=True, reason=None, remedy=None, no_eviction="", change=None)
    reason = reason_of(seen.decision)
    return replace(found, routing=seen, reason=reason, remedy=reason.remedy, no_eviction="", change=None)


async def list_preemptions(call: RequestCall[NoQuery, None]) -> ASGIApp:
    events = await call.edge.services.explain.preemptions(call.who, call.path["id"])
    return answer(Events(events=granted(events)))


async def replay_decision(call: RequestCall[NoQuery, ReplayBody]) -> ASGIApp:
    return answer(await call.edge.services.explain.replay(call.who, call.path["name"], call.body.weights))
