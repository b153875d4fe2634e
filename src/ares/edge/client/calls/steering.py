"""Requests that change jobs which wait or run, as values like those in `calls`, and what they are answered."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, TypedDict, Unpack

import msgspec

from ares.api.updates import BulkAction, BulkAnswer, JobFilter, JobUpdate
from ares.edge.client import units, wishes
from ares.edge.client.calls.answers import JobRef, job_id
from ares.edge.client.calls.calls import JSON, Call, Request, part
from ares.edge.client.errors import InvalidSpec
from ares.edge.client.sending import AsyncSends, Sends
from ares.model.state import JobState, Phase

_PAGE = 500


class UpdateFields(TypedDict, total=False):
    """What of a job can be changed; None takes a limit, a deadline, a class or a reservation away."""

    priority: str | int
    time: str | float | None
    cpus: str | float
    memory: str
    gpus: int
    gpu_model: str | None
    gpu_share: str | float
    gpu_memory: str
    deadline: str | datetime | None
    sla: str | None
    reservation: str | None
    throttle: int | None


class FilterFields(TypedDict, total=False):
    """Which jobs: all that fit every one of these."""

    phase: Iterable[Phase]
    name: str
    label: Mapping[str, str]
    array: str
    node: str
    user: str
    since: float
    until: float


# Of each field: where it is in the body, and how it is read.
_RESOURCES: dict[str, tuple[str, Any]] = {
    "cpus": ("cpuMilli", units.cpu_milli),
    "memory": ("memoryMib", units.memory_mib),
    "gpus": ("gpus", int),
    "gpu_model": ("gpuModel", str),
    "gpu_share": ("gpuMilli", wishes.milli),
    "gpu_memory": ("gpuMemoryMib", units.memory_mib),
}
_PLAIN: dict[str, tuple[str, Any]] = {
    "priority": ("priority", wishes.priority),
    "time": ("timeLimitS", units.seconds),
    "deadline": ("deadlineAt", wishes.deadline),
    "sla": ("sla", str),
    "reservation": ("reservation", str),
    "throttle": ("throttle", int),
}


def update_of(fields: Mapping[str, Any], reason: str = "") -> JobUpdate:
    """The change that these say, in people's units."""
    body: dict[str, Any] = {"reason": reason} if reason else {}
    for names, target in ((_PLAIN, body), (_RESOURCES, body.setdefault("resources", {}))):
        for name, (key, read) in names.items():
            if name in fields:
                target[key] = None if fields[name] is None else read(fields[name])
    if not body["resources"]:
        del body["resources"]
    if not body.keys() - {"reason"}:
        raise InvalidSpec("nothing is to be changed", fix="name a new priority, time limit, memory or the like")
    try:
        return msgspec.convert(body, JobUpdate)
    except msgspec.ValidationError as error:
        raise InvalidSpec(f"the change cannot be made: {error}", fix="correct the value at the named path") from error


def filter_of(fields: Mapping[str, Any]) -> JobFilter:
    names = {"phase": "phases", "label": "labels"}
    given = {names.get(key, key): value for key, value in fields.items() if value not in (None, (), {})}
    given |= {"phases": tuple(given["phases"])} if "phases" in given else {}
    return msgspec.convert(given, JobFilter)


def update(job: str, change: JobUpdate) -> Call[JobState]:
    return Call(Request("PATCH", f"/v1/jobs/{part(job)}", (), msgspec.json.encode(change), JSON), JobState)


def requeue(job: str, reason: str) -> Call[JobState]:
    body = msgspec.json.encode({"reason": reason})
    return Call(Request("POST", f"/v1/jobs/{part(job)}/requeue", (), body, JSON, repeatable=False), JobState)


def bulk(
    action: BulkAction, which: JobFilter, *, cursor: str = "", dry_run: bool = False, reason: str = "",
    change: JobUpdate | None = None,
) -> Call[BulkAnswer]:  # fmt: skip
    """One page. Sending it twice does no harm: a job that was changed does not fit any more, or stays as it is."""
    body: dict[str, Any] = {"filter": which, "cursor": cursor, "limit": _PAGE, "dryRun": dry_run, "reason": reason}
    body |= {} if change is None else {"update": change}
    repeatable = action != "requeue"
    request = Request("POST", f"/v1/jobs/{action}", (), msgspec.json.encode(body), JSON, repeatable)
    return Call(request, BulkAnswer)


def joined(pages: list[BulkAnswer]) -> BulkAnswer:
    """What came of all pages."""
    return BulkAnswer(
        action=pages[0].action,
        matched=sum(page.matched for page in pages),
        changed=sum(page.changed for page in pages),
        refused=sum(page.refused for page in pages),
        refusals=tuple(no for page in pages for no in page.refusals)[:20],
    )


class AsyncSteeringMethods(AsyncSends):
    """Of the asynchronous client."""

    async def update(self, job: JobRef, *, reason: str = "", **fields: Unpack[UpdateFields]) -> JobState:
        """Changes what a job asks for: priority="HIGH", time="4h", memory="8G", deadline="2h"; None takes away."""
        return await self.send(update(job_id(job), update_of(fields, reason)))

    async def requeue(self, job: JobRef, reason: str = "") -> JobState:
        """Sends a running job back to the queue; it may save its work first, and no retry is used up."""
        return await self.send(requeue(job_id(job), reason))

    async def steer_all(
        self, action: BulkAction, *, change: JobUpdate | None = None, dry_run: bool = False, reason: str = "",
        **which: Unpack[FilterFields],
    ) -> BulkAnswer:  # fmt: skip
        """Does the same to all jobs that fit; with `dry_run` it only counts them."""
        found, pages, cursor = filter_of(which), list[BulkAnswer](), ""
        while not pages or cursor:
            call = bulk(action, found, cursor=cursor, dry_run=dry_run, reason=reason, change=change)
            pages.append(await self.send(call))
            cursor = pages[-1].cursor
        return joined(pages)


class SteeringMethods(Sends):
    """Of the asynchronous client."""

    def update(self, job: JobRef, *, reason: str = "", **fields: Unpack[UpdateFields]) -> JobState:
        """Changes what a job asks for: priority="HIGH", time="4h", memory="8G", deadline="2h"; None takes away."""
        return self.send(update(job_id(job), update_of(fields, reason)))

    def requeue(self, job: JobRef, reason: str = "") -> JobState:
        """Sends a running job back to the queue; it may save its work first, and no retry is used up."""
        return self.send(requeue(job_id(job), reason))

    def steer_all(
        self, action: BulkAction, *, change: JobUpdate | None = None, dry_run: bool = False, reason: str = "",
        **which: Unpack[FilterFields],
    ) -> BulkAnswer:  # fmt: skip
        """Does the same to all jobs that fit; with `dry_run` it only counts them."""
        found, pages, cursor = filter_of(which), list[BulkAnswer](), ""
        while not pages or cursor:
            call = bulk(action, found, cursor=cursor, dry_run=dry_run, reason=reason, change=change)
            pages.append(self.send(call))
            cursor = pages[-1].cursor
        return joined(pages)
