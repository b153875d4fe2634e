"""Workflows: submitting, reading and steering them."""

from typing import Annotated, Any

import msgspec
from litestar.types import ASGIApp
from msgspec import Meta

from ares.api.flows import FlowBody, FlowCreated, FlowRetryBody
from ares.control.flow.submission import AcceptedFlow, FlowRequest
from ares.control.state.pacing import WORKED_ON, breathe
from ares.core.needs.workflow import FLOW_JOBS_MAX
from ares.edge.rest.answers import answer
from ares.edge.rest.bodies import NoQuery, ReasonBody
from ares.edge.rest.handlers.submit import request_id, teamed
from ares.edge.rest.http.operation import RequestCall
from ares.edge.rest.http.problems import Problem, granted
from ares.edge.rest.http.strict import StrictDecoder, check_depth, invalid
from ares.model.base import Name, RequestId
from ares.model.job import JobSpec, ParentName

_job = StrictDecoder(JobSpec)


class _FlowShell(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The outer shell; jobs stay bytes, and are read in strides."""

    jobs: Annotated[dict[ParentName, msgspec.Raw], Meta(min_length=1, max_length=FLOW_JOBS_MAX)]
    name: Name = "flow"
    request_id: RequestId | None = None


_shell = msgspec.json.Decoder(_FlowShell)


async def submit_flow(call: RequestCall[NoQuery, FlowBody]) -> ASGIApp:
    keyed = request_id(call.header(b"idempotency-key"))
    shell = _split(call.raw)
    if keyed is not None and shell.request_id not in (None, keyed):
        raise Problem("request-id-mismatch", path="$.requestId")
    call.edge.meter.submit(call.who, len(shell.jobs))
    jobs: dict[str, JobSpec] = {}
    # The jobs of a sweep often differ in their names alone.
    known: dict[bytes, JobSpec] = {}
    for place, (name, raw) in enumerate(shell.jobs.items()):
        if place % WORKED_ON == WORKED_ON - 1:
            await breathe()
        text = bytes(raw)
        try:
            if (spec := known.get(text)) is None:
                spec = known[text] = teamed(call.who, _job.decode(text)[0])
        except Problem as problem:
            path = f"$.jobs.{name}{problem.path.removeprefix('$')}"
            raise Problem(problem.code, detail=problem.detail, fix=problem.fix, path=path) from None
        jobs[name] = spec
    trace = call.header(b"traceparent") or ""
    request = FlowRequest(jobs=jobs, name=shell.name, request_id=keyed or shell.request_id, trace=trace)
    return _created(call, granted(await call.edge.services.workflows.submit(call.who, request)))


async def get_flow(call: RequestCall[NoQuery, None]) -> ASGIApp:
    return answer(await call.edge.services.workflows.get(call.who, call.path["id"]))


async def cancel_flow(call: RequestCall[NoQuery, ReasonBody]) -> ASGIApp:
    return answer(await call.edge.services.workflows.cancel(call.who, call.path["id"], call.body.reason))


async def retry_flow(call: RequestCall[NoQuery, FlowRetryBody]) -> ASGIApp:
    keyed = request_id(call.header(b"idempotency-key"))
    found = await call.edge.services.workflows.retry(call.who, call.path["id"], call.body.jobs, keyed)
    return _created(call, granted(found))


def _created(call: RequestCall[Any, Any], accepted: AcceptedFlow) -> ASGIApp:
    flow = accepted.flow
    call.made(f"flows/{flow.id}", jobs=flow.jobs)
    links = {"self": f"/v1/flows/{flow.id}"}
    created = FlowCreated(
        id=flow.id, name=flow.name, replayed=accepted.replayed, jobs=flow.jobs, tasks=flow.tasks, ids=accepted.ids,
        links=links,
    )  # fmt: skip
    return answer(created, status=200 if accepted.replayed else 201, headers={"location": links["self"]})


def _split(raw: bytes) -> _FlowShell:
    """The jobs of a workflow, still as text."""
    check_depth(raw)
    try:
        shell = _shell.decode(raw)
    except msgspec.ValidationError as error:
        raise invalid(error) from None
    except RecursionError:
        raise Problem("too-deep") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Problem("malformed-json", detail=str(error)) from None
    # Each key brings one colon: more of them outside the jobs mean that a name came twice.
    outer = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    inside = sum(bytes(job).count(b":") for job in shell.jobs.values())
    texts = sum(bytes(text).count(b":") for key, text in outer.items() if key != "jobs")
    if raw.count(b":") != len(outer) + len(shell.jobs) + inside + texts:
        raise Problem("duplicate-key", detail="two jobs have the same name, or a key appears twice")
    return shell
