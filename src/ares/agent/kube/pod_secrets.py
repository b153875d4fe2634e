"""The secret that belongs to a pod: written before it is bound, read again by the next agent, removed with it."""

import base64
import binascii
from collections.abc import Callable
from typing import Final

import msgspec

from ares.agent.kube.placing import NeverRan, refused_for, until_known
from ares.agent.kube.pod_attempt import PodAttempt
from ares.core.kube.ending import PodEnd
from ares.core.kube.equipment import JOB_PREFIX, secret_manifest
from ares.model.kube import KubeSecret, Pod
from ares.ports.clock import Clock
from ares.ports.kubernetes import KubeRefused, PodApi

_CONFLICT: Final = 409
_HIDDEN: Final = b"***\n"


def _belongs(secret: KubeSecret | None, pod: Pod) -> bool:
    return secret is not None and any(owner.uid == pod.metadata.uid for owner in secret.metadata.owner_references)


async def give_secret(attempt: PodAttempt, pod: Pod, api: PodApi, clock: Clock, certificate: str) -> None:
    """Raises NeverRan."""
    if not attempt.claim.secret:
        return
    name, start = attempt.name, attempt.start
    if start is not None:
        made = secret_manifest(pod, start, attempt.token, certificate)
        try:
            await until_known(clock, "secret", lambda: api.create_secret(made))
            return
        except KubeRefused as refusal:
            if refusal.code != _CONFLICT:
                raise refused_for("its secret", refusal) from None
    # It is there already, or an earlier agent was to write it.
    if not _belongs(await until_known(clock, "secret", lambda: api.secret(name)), pod):
        raise NeverRan(f"its pod {name} has no secret of its own")


async def recall_secrets(attempt: PodAttempt, api: PodApi, clock: Clock) -> None:
    """What an attempt's output must not show, where an earlier agent knew it."""
    if attempt.start is not None:
        attempt.secrets = tuple(given.value.reveal() for given in attempt.start.secrets)
        return
    if not attempt.claim.secret:
        return
    found = await until_known(clock, "secret", lambda: api.secret(attempt.name))
    if found is None or attempt.pod is None or not _belongs(found, attempt.pod):
        attempt.secrets = None
        return
    try:
        values = (value for key, value in found.data.items() if key.startswith(JOB_PREFIX))
        attempt.secrets = tuple(base64.b64decode(value) for value in values)
    except binascii.Error:
        attempt.secrets = None


def mask_of(attempt: PodAttempt) -> Callable[[bytes], bytes] | None:
    """Line by line. Where the values cannot be had any more, nothing is shown."""
    if attempt.secrets is None:
        return lambda _: _HIDDEN
    if not attempt.secrets:
        return None
    # The mask needs a large library, and an agent without secrets does not load it.
    from ares.core.secrets import Masker

    return Masker(attempt.secrets).whole


def masked(attempt: PodAttempt, end: PodEnd) -> PodEnd:
    mask = mask_of(attempt)
    if mask is None:
        return end
    words = mask(end.exit.message.encode()).decode(errors="replace")
    value = end.value and mask(end.value)
    return msgspec.structs.replace(end, exit=msgspec.structs.replace(end.exit, message=words), value=value)


async def drop_secret(attempt: PodAttempt, pod: Pod, api: PodApi, clock: Clock) -> None:
    """By its owner and uid: another of its name is left alone."""
    if attempt.claim.secret:
        found = await until_known(clock, "secret", lambda: api.secret(attempt.name))
        if found is not None and _belongs(found, pod):
            await until_known(clock, "secret", lambda: api.delete_secret(attempt.name, found.metadata.uid))
