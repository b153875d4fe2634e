"""What a change makes of a job that was admitted."""

from collections.abc import Callable

from msgspec import UNSET
from msgspec.structs import asdict, replace

from ares.api.updates import JobUpdate
from ares.model.job import JobSpec

_PLAIN = ("priority", "time_limit_s", "deadline_at", "sla", "reservation")


def asks(change: JobUpdate) -> bool:
    """Whether anything is to be changed of what the job itself asks for."""
    return change.resources is not UNSET or any(getattr(change, name) is not UNSET for name in _PLAIN)


def changed(spec: JobSpec, change: JobUpdate) -> JobSpec:
    """What the job asks for with the change: what that leaves out stays. A class of service and a deadline of its own
    take each other's place."""
    given = {name: value for name in _PLAIN if (value := getattr(change, name)) is not UNSET}
    if change.resources is not UNSET:
        wants = {name: value for name, value in asdict(change.resources).items() if value is not UNSET}
        given["resources"] = replace(spec.resources, **wants)
    if "sla" in given and given["sla"] != spec.sla:
        given = {"deadline_at": None, "start_by_at": None, **given}
    elif given.get("deadline_at") is not None:
        given = {"sla": None, "start_by_at": None if spec.sla is not None else spec.start_by_at, **given}
    return replace(spec, **given)


def redated(before: JobSpec, after: JobSpec, dated: Callable[[JobSpec], JobSpec] = lambda spec: spec) -> JobSpec:
    """`after` with the times of its class of service: those it had, or new ones where the class is new."""
    if after.sla is None:
        return after
    if after.sla == before.sla:
        return replace(after, deadline_at=before.deadline_at, start_by_at=before.start_by_at)
    return dated(replace(after, deadline_at=None, start_by_at=None))
