"""The isolation of a job: what it asks for, and what its tenant asks for all of its jobs."""

from msgspec.structs import replace

from ares.core.refusal import Refusal
from ares.model.isolation import Isolation, stronger
from ares.model.job import JobSpec


def at_least(spec: JobSpec, least: Isolation) -> JobSpec:
    wanted = stronger(spec.isolation, least)
    return spec if wanted == spec.isolation else replace(spec, isolation=wanted)


def network(spec: JobSpec) -> Refusal | None:
    """The ranks of a gang meet over the network."""
    if spec.network == "host" or spec.gang is None or spec.gang.ranks == 1:
        return None
    message = f"the {spec.gang.ranks} ranks of the gang could not reach each other with network: none"
    return Refusal(code="gang-without-network", message=message, fix="choose network: host, or remove the gang")
