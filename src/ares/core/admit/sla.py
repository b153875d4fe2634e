"""Classes of service: the times that a job's class gives it when it is submitted."""

from collections.abc import Mapping

from msgspec.structs import replace

from ares.core.refusal import Refusal
from ares.model.job import JobSpec
from ares.model.profile import Sla


def unknown(spec: JobSpec, slas: Mapping[str, Sla]) -> Refusal | None:
    """Why the job cannot be of the class it names."""
    if spec.sla is None:
        return None
    if spec.sla not in slas:
        known = f"there are {', '.join(sorted(slas))}" if slas else "the profile defines none"
        message = f"no class of service is called {spec.sla!r}; {known}"
        return Refusal(code="sla-unknown", message=message, fix="name one of those, or none")
    if spec.deadline_at is not None or spec.start_by_at is not None:
        message = f"the job names the class of service {spec.sla!r} and a deadline of its own"
        return Refusal(code="sla-and-deadline", message=message, fix="keep one of the two")
    return None


def dated(spec: JobSpec, slas: Mapping[str, Sla], now: float) -> JobSpec:
    """The job with the times that its class of service gives it from now on."""
    one = None if spec.sla is None else slas.get(spec.sla)
    if one is None:
        return spec
    return replace(
        spec,
        deadline_at=None if one.end_within_s is None else now + one.end_within_s,
        start_by_at=None if one.start_within_s is None else now + one.start_within_s,
    )
