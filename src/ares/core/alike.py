"""Jobs that are alike, for what is found once for all of them."""

from msgspec.structs import replace

from ares.model.job import JobSpec


def alike(spec: JobSpec, other: JobSpec) -> bool:
    """Whether they differ by their names and by what they wait for, if at all: so do most of a sweep, and of a
    workflow. It costs a tenth of what placement and prediction make of a specification."""
    return spec is other or replace(other, name=spec.name, needs=spec.needs) == spec
