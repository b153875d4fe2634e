"""Creating a pod and binding it: each may be repeated until it is known to have happened, and happens once."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import structlog

from ares.agent.kube.pod_attempt import PodAttempt
from ares.core.kube.pod import SCHEDULER, binding, gated, opening, read_claim, same_attempt
from ares.model.base import AttemptRef
from ares.model.kube import Pod
from ares.ports.clock import Clock
from ares.ports.kubernetes import KubeRefused, KubeUnavailable, PodApi

_log = structlog.get_logger(__name__)
R = TypeVar("R")

_PAUSE_S: Final = 0.1
_PAUSE_MAX_S: Final = 5.0
_CONFLICT, _MISSING, _INVALID = 409, 404, 422


class NeverRan(Exception):
    """No process of the attempt ran, and none will; why, in words. `faulty`: for the job's own sake, not for room."""

    def __init__(self, why: str, *, faulty: bool = False) -> None:
        super().__init__(why)
        self.faulty = faulty


def refused_for(what: str, refusal: KubeRefused) -> NeverRan:
    """Another try would meet the same answer, unless a quota is what is exceeded."""
    return NeverRan(f"Kubernetes refused {what}: {refusal}", faulty="exceeded quota" not in str(refusal))


class Muster:
    """Ranks of gangs whose pods exist: none is bound before all of them that come to this cluster do."""

    def __init__(self) -> None:
        self._here: dict[AttemptRef, set[int]] = {}
        self._came = asyncio.Event()

    async def join(self, ref: AttemptRef, rank: int, ranks: frozenset[int], attempt: PodAttempt) -> None:
        self._here.setdefault(ref, set()).add(rank)
        self._stir()
        while not (ranks <= self._here.get(ref, set()) or attempt.fenced):
            came, news = asyncio.ensure_future(self._came.wait()), asyncio.ensure_future(attempt.news.wait())
            try:
                await asyncio.wait((came, news), return_when=asyncio.FIRST_COMPLETED)
            finally:
                came.cancel()
                news.cancel()
            if not attempt.fenced:
                attempt.news.clear()

    def leave(self, ref: AttemptRef, rank: int) -> None:
        here = self._here.get(ref, set())
        here.discard(rank)
        if not here:
            self._here.pop(ref, None)

    def _stir(self) -> None:
        self._came.set()
        self._came = asyncio.Event()


async def until_known(clock: Clock, what: str, ask: Callable[[], Awaitable[R]]) -> R:
    """Asks again while the API server cannot be reached: with the same words it does no harm."""
    pause_s = _PAUSE_S
    while True:
        try:
            return await ask()
        except KubeUnavailable as error:
            if pause_s == _PAUSE_S:
                _log.warning("kube.unavailable", what=what, why=str(error), next="it goes on trying")
            await clock.sleep(pause_s)
            pause_s = min(_PAUSE_MAX_S, pause_s * 2)


async def created(attempt: PodAttempt, manifest: dict[str, object], api: PodApi, clock: Clock, code: str) -> Pod | None:
    """The attempt's pod; None when it was told to end before there was one. Raises NeverRan."""
    pause_s = _PAUSE_S
    while not attempt.fenced:
        try:
            return await api.create(manifest)
        except KubeUnavailable as error:
            if pause_s == _PAUSE_S:
                # Once: thousands may wait for the same server.
                _log.warning("kube.unavailable", what="create", pod=attempt.name, why=str(error), next="it goes on")
            await clock.sleep(pause_s)
            pause_s = min(_PAUSE_MAX_S, pause_s * 2)
        except KubeRefused as refusal:
            if refusal.code != _CONFLICT:
                raise refused_for("its pod", refusal) from None
            found = await until_known(clock, "get", lambda: api.get(attempt.name))
            if found is None:
                continue
            if not same_attempt(attempt.claim, read_claim(found, code)):
                raise NeverRan(f"a pod named {attempt.name} is there already, and is not of this attempt") from None
            return found
    return None


async def bind(attempt: PodAttempt, pod: Pod, api: PodApi, clock: Clock) -> None:
    """Binds the pod as it was seen, or opens its gate: kube-scheduler binds it then, if there is room. Raises NeverRan,
    also when it was told to end before."""
    while True:
        if _offered(pod):
            # From here on it may be bound at any time: only its deletion, or its kubelet, ends it.
            attempt.offered = clock.monotonic()
            return
        if attempt.fenced or pod.metadata.deletion_timestamp is not None:
            raise NeverRan(attempt.fenced or f"its pod {attempt.name} was deleted before it was bound")
        unwanted = ""
        try:
            if await _asked_to_bind(attempt, pod, api):
                return
        except KubeUnavailable:
            await clock.sleep(_PAUSE_S)
        except KubeRefused as refusal:
            unwanted = "" if refusal.code in (_CONFLICT, _MISSING) else f"Kubernetes did not bind its pod: {refusal}"
        # Whether it happened is in the pod: a binding that landed has changed what the next one compares.
        seen = await until_known(clock, "get", lambda: api.get(attempt.name))
        if seen is None or seen.metadata.uid != pod.metadata.uid:
            raise NeverRan(f"its pod {attempt.name} was removed before it was bound")
        if seen.spec.node_name:
            attempt.see(seen)
            if seen.spec.node_name != attempt.claim.kube_node:
                attempt.fence(f"its pod was bound to {seen.spec.node_name} by another hand", 0.0)
            return
        if seen.metadata.resource_version == pod.metadata.resource_version:
            if unwanted:
                # A comparison that failed would have found another version.
                raise NeverRan(unwanted)
            await clock.sleep(_PAUSE_S)
        pod = seen


def _offered(pod: Pod) -> bool:
    return pod.spec.scheduler_name != SCHEDULER and not gated(pod)


async def _asked_to_bind(attempt: PodAttempt, pod: Pod, api: PodApi) -> bool:
    """Whether it is bound. One whose gate was opened is looked at again."""
    if not gated(pod):
        await api.bind(attempt.name, binding(pod, attempt.claim))
        return True
    attempt.see(await api.change(attempt.name, opening(pod, attempt.claim)))
    return False


async def never_bound(attempt: PodAttempt, api: PodApi, clock: Clock) -> bool:
    """Whether its pod is bound nowhere, and never will be. A binding whose outcome was not known may still be on its
    way to the server: it binds no pod that is being deleted."""
    if (pod := attempt.pod) is None:
        return True
    await until_known(clock, "delete", lambda: api.delete(attempt.name, pod.metadata.uid, 1))
    seen = await until_known(clock, "get", lambda: api.get(attempt.name))
    if seen is not None and seen.metadata.uid == pod.metadata.uid:
        attempt.see(seen)
    return not attempt.bound


async def removed(name: str, uid: str, api: PodApi, clock: Clock) -> None:
    """What it left is durable: the pod may go, and with it the finalizer that held it."""
    for what, ask in (("delete", lambda: api.delete(name, uid, 0)), ("release", lambda: api.release(name, uid))):
        try:
            await until_known(clock, what, ask)
        except KubeRefused as refusal:
            _log.error("kube.not_collected", pod=name, what=what, why=str(refusal))
