"""Requests about workflows, and the methods of both clients that send them."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from ares.api.flows import FlowBody, FlowCreated, FlowDetail, FlowRetryBody
from ares.edge.client.ask import job_spec, spec_from
from ares.edge.client.calls.calls import JSON, Call, Request, new_request_id, part
from ares.edge.client.errors import InvalidSpec
from ares.edge.client.project.environment import without_files
from ares.edge.client.sending import AsyncSends, Sends
from ares.model.job import JobSpec

# A job of a workflow: a specification, or keyword arguments as for `submit`.
FlowJobs = Mapping[str, JobSpec | Mapping[str, Any]]


def submit_flow(jobs: Mapping[str, JobSpec], name: str, request_id: str) -> Call[FlowCreated]:
    body = FlowBody(jobs=dict(jobs), name=name, request_id=request_id)
    return _post("/v1/flows", FlowCreated, body)


def flow(flow_id: str) -> Call[FlowDetail]:
    return Call(Request("GET", _path(flow_id)), FlowDetail)


def cancel_flow(flow_id: str, reason: str) -> Call[FlowDetail]:
    return _post(f"{_path(flow_id)}/cancel", FlowDetail, {"reason": reason})


def retry_flow(flow_id: str, jobs: Sequence[str], request_id: str) -> Call[FlowCreated]:
    body, header = FlowRetryBody(jobs=tuple(jobs)), ("idempotency-key", request_id)
    return _post(f"{_path(flow_id)}/retry", FlowCreated, body, header)


def _path(flow_id: str) -> str:
    return f"/v1/flows/{part(flow_id)}"


def _post(path: str, kind: Any, body: object, *headers: tuple[str, str]) -> Call[Any]:
    return Call(Request("POST", path, (), msgspec.json.encode(body), (*JSON, *headers)), kind)


def flow_jobs(jobs: Mapping[str, object], where: str = "the workflow") -> dict[str, JobSpec]:
    """The jobs of a workflow file, each with the keys of a job file."""
    found: dict[str, JobSpec] = {}
    for name, asked in jobs.items():
        if not isinstance(asked, Mapping):
            raise InvalidSpec(
                f"job {name!r} of {where} is no job", fix="write its keys below its name, such as command"
            )
        try:
            keys = cast("Mapping[str, object]", asked)
            found[name] = without_files(spec_from(keys), keys.get("python"))
        except InvalidSpec as error:
            raise InvalidSpec(f"job {name!r}: {error}", fix=error.fix) from None
    return found


def _specs(jobs: FlowJobs) -> dict[str, JobSpec]:
    return {
        name: job if isinstance(job, JobSpec) else without_files(job_spec(**job), job.get("python"))
        for name, job in jobs.items()
    }


class AsyncFlowMethods(AsyncSends):
    """Of the asynchronous client."""

    async def submit_flow(self, jobs: FlowJobs, *, name: str = "flow", request_id: str | None = None) -> FlowCreated:
        """Submits a workflow: jobs by name, which wait for each other by `needs` or `after`. All of them, or none."""
        return await self.send(submit_flow(_specs(jobs), name, request_id or new_request_id()))

    async def flow(self, flow_id: str) -> FlowDetail:
        """A workflow: its jobs, what they wait for, and how they stand."""
        return await self.send(flow(flow_id))

    async def cancel_flow(self, flow_id: str, reason: str = "") -> FlowDetail:
        """Cancels all its jobs, except those that run when the others have ended."""
        return await self.send(cancel_flow(flow_id, reason))

    async def retry_flow(self, flow_id: str, jobs: Sequence[str] = (), *, request_id: str | None = None) -> FlowCreated:
        """Runs these jobs again, with all that come after them, as a new workflow; or all that did not succeed."""
        return await self.send(retry_flow(flow_id, jobs, request_id or new_request_id()))


class FlowMethods(Sends):
    """Of the asynchronous client."""

    def submit_flow(self, jobs: FlowJobs, *, name: str = "flow", request_id: str | None = None) -> FlowCreated:
        """Submits a workflow: jobs by name, which wait for each other by `needs` or `after`. All of them, or none."""
        return self.send(submit_flow(_specs(jobs), name, request_id or new_request_id()))

    def flow(self, flow_id: str) -> FlowDetail:
        """A workflow: its jobs, what they wait for, and how they stand."""
        return self.send(flow(flow_id))

    def cancel_flow(self, flow_id: str, reason: str = "") -> FlowDetail:
        """Cancels all its jobs, except those that run when the others have ended."""
        return self.send(cancel_flow(flow_id, reason))

    def retry_flow(self, flow_id: str, jobs: Sequence[str] = (), *, request_id: str | None = None) -> FlowCreated:
        """Runs these jobs again, with all that come after them, as a new workflow; or all that did not succeed."""
        return self.send(retry_flow(flow_id, jobs, request_id or new_request_id()))
