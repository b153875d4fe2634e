"""The claim on devices that belongs to a pod: written before kube-scheduler may look at it, removed with it."""

from typing import Final

from ares.agent.kube.ends import Surroundings
from ares.agent.kube.placing import NeverRan, refused_for, until_known
from ares.agent.kube.pod_attempt import PodAttempt
from ares.model.kube import Pod, ResourceClaim
from ares.ports.clock import Clock
from ares.ports.kubernetes import KubeRefused, PodApi

_CONFLICT: Final = 409


def _belongs(claim: ResourceClaim | None, pod: Pod) -> bool:
    return claim is not None and any(owner.uid == pod.metadata.uid for owner in claim.metadata.owner_references)


async def give_devices(attempt: PodAttempt, pod: Pod, api: PodApi, clock: Clock, around: Surroundings) -> None:
    """Raises NeverRan."""
    if not attempt.claim.devices:
        return
    name, start = attempt.name, attempt.start
    if start is not None:
        made = around.device_claim(pod, attempt.claim, start)
        if made is None:
            raise NeverRan(f"node {attempt.claim.kube_node} does not have the GPUs any more that it was placed with")
        try:
            await until_known(clock, "claim", lambda: api.create_claim(made))
            return
        except KubeRefused as refusal:
            if refusal.code != _CONFLICT:
                raise refused_for("its claim on GPUs", refusal) from None
    # It is there already, or an earlier agent was to write it.
    if not _belongs(await until_known(clock, "claim", lambda: api.claim(name)), pod):
        raise NeverRan(f"its pod {name} has no claim on GPUs of its own")


async def drop_devices(attempt: PodAttempt, pod: Pod, api: PodApi, clock: Clock) -> None:
    """By its owner and uid: another of its name is left alone."""
    if attempt.claim.devices:
        found = await until_known(clock, "claim", lambda: api.claim(attempt.name))
        if found is not None and _belongs(found, pod):
            await until_known(clock, "claim", lambda: api.delete_claim(attempt.name, found.metadata.uid))
