"""The variables of a job in a pod: those that every job has, as far as a pod has what they name."""

from msgspec.structs import replace

from ares.agent.attempts.gang_place import variables
from ares.core.admit.admission import RESERVED_ENV, RESERVED_PREFIX
from ares.core.kube.equipment import OUTPUTS, SECRETS, WORK
from ares.core.kube.pod import RESULT_FILE, PodTerms, address
from ares.model.link import Start, WorldInfo


def pod_environment(start: Start, terms: PodTerms) -> dict[str, str]:
    """Later entries win: a job may set any variable but those that Ares sets."""
    place = variables(_reached(start, terms), start.placement.rank)
    named = {
        "ARES_JOB_ID": start.ref.job,
        "ARES_ATTEMPT": str(start.attempt),
        "ARES_FENCE": str(start.ref.fence),
        "ARES_TENANT": start.ref.tenant,
        "ARES_NODE": start.placement.node,
        "ARES_RESULT_FILE": RESULT_FILE,
    }
    if start.array is not None and start.index is not None:
        named |= {"ARES_ARRAY_ID": start.array, "ARES_ARRAY_INDEX": str(start.index)}
    if terms.helper is not None:
        named |= {"ARES_WORKDIR": WORK, "ARES_OUTPUT_DIR": OUTPUTS}
    if any(given.file for given in start.secrets):
        named["ARES_SECRETS_DIR"] = SECRETS
    if start.trace:
        named["TRACEPARENT"] = start.trace
    return {
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": str(max(1, start.placement.cpu_milli // 1000)),
        **place,
        **start.spec.env,
        **named,
        **{name: value for name, value in place.items() if name in RESERVED_ENV or name.startswith(RESERVED_PREFIX)},
    }


def _reached(start: Start, terms: PodTerms) -> WorldInfo:
    """Pods have addresses of their own, by name; on the node's network they have the node's."""
    if terms.host_network:
        return start.world
    peers = tuple(replace(peer, address=address(start.ref, peer.rank, terms)) for peer in start.world.peers)
    return replace(start.world, peers=peers)
