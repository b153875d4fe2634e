"""A pod's way to its node: created, given what belongs to it, and bound once all of its gang is there."""

from collections.abc import Callable

from ares.agent.kube.ends import Surroundings
from ares.agent.kube.placing import NeverRan, bind, created
from ares.agent.kube.pod_attempt import PodAttempt
from ares.agent.kube.pod_devices import give_devices
from ares.agent.kube.pod_secrets import give_secret
from ares.core.kube.pod import SCHEDULER
from ares.ports.clock import Clock
from ares.ports.kubernetes import PodApi


async def place(
    attempt: PodAttempt, around: Surroundings, api: PodApi, clock: Clock, granted: Callable[[], bool]
) -> None:
    """`granted`: the control plane has said which attempts are still wanted. Raises NeverRan."""
    start, pod = attempt.start, attempt.pod
    if attempt.bound:
        return
    if pod is None:
        assert start is not None, "a pod that is adopted exists"
        if start.secrets_trouble:
            raise NeverRan(start.secrets_trouble, faulty=True)
        pod = await created(attempt, around.manifest(attempt.claim, start), api, clock, around.terms.code)
        if pod is None:
            raise NeverRan(attempt.fenced)
        attempt.see(pod)
    elif around.terms.bind == "kube" and pod.spec.scheduler_name == SCHEDULER:
        # This agent has no right to bind.
        raise NeverRan(f"its pod {attempt.name} was to be bound by an agent with kube.bind=ares")
    await give_secret(attempt, pod, api, clock, around.certificate)
    await give_devices(attempt, pod, api, clock, around)
    if start is not None and start.spec.gang is not None:
        await around.muster.join(attempt.claim.ref, attempt.claim.rank, around.ranks_here(start), attempt)
    elif start is None:
        # It is bound once the control plane has said that it is still wanted.
        while not (granted() or attempt.fenced):
            attempt.news.clear()
            await attempt.news.wait()
    await bind(attempt, attempt.pod or pod, api, clock)
