"""One rank of an attempt as a pod, from its Start to the pod's removal."""

import asyncio
from dataclasses import dataclass, field

from ares.agent.files.spool import Tail
from ares.agent.files.upload import Upload
from ares.agent.link.outbox import Key
from ares.core.kube.ending import main_state
from ares.core.kube.pod import PodClaim, pod_name
from ares.model.job import JobSpec
from ares.model.kube import Pod
from ares.model.link import Start
from ares.model.state import ExitInfo, OutputFile, Placement


@dataclass(slots=True, eq=False)
class PodAttempt:
    """Mutable, owned by `PodAttempts`. Its states, in order:

    - placing: its pod is created, then bound. A pod that is not bound runs nowhere.
    - living: its pod is bound. Only the kubelet, or the end of its node, says that it is over.
    - ended: its final report is under way; `final` is the report's number.
    - heard: the report was acknowledged. The finalizer goes, and the pod with it.
    """

    claim: PodClaim
    tail: Tail
    # What it was asked for with; None: an earlier agent made its pod.
    start: Start | None = None
    # The pod as it was last seen; None: it does not exist yet, as far as is known.
    pod: Pod | None = None
    # When its pod was seen to be removed although its end was not collected, by the agent's clock.
    vanished: float | None = None
    # Why it may not go on, and how long it has to end. With it the end is reported as Fenced.
    fenced: str = ""
    grace_s: float = 0.0
    # How often its pod was told to end, and with how much grace the last time.
    told: int = 0
    told_grace_s: float = 0.0
    timed_out: bool = False
    # Why its image could not be had in time.
    unpulled: str = ""
    lasting: bool = False
    # Since when kube-scheduler may bind it, by the agent's clock; and why that took too long.
    offered: float | None = None
    unscheduled: str = ""
    # By the agent's clock.
    began: float | None = None
    pulling_since: float | None = None
    reported: bool = False
    following: "asyncio.Task[bool] | None" = None
    # The token of its helper, where this agent made its pod.
    token: str = ""
    # Values of its secrets, which its output must not show; None: they cannot be had any more.
    secrets: tuple[bytes, ...] | None = ()
    # Why its files could not be staged, or its output files not kept.
    unstaged: ExitInfo | None = None
    unkept: str = ""
    upload: Upload | None = None
    # Output files that are kept, all of them; None: they were not handed over yet.
    kept_files: tuple[OutputFile, ...] | None = None
    # Set by what its helper may wait for.
    turned: asyncio.Event = field(default_factory=asyncio.Event)
    final: int | None = None
    heard: bool = False
    # Set by every news about it.
    news: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def key(self) -> Key:
        return self.claim.ref, self.claim.rank

    @property
    def name(self) -> str:
        return pod_name(self.claim.ref, self.claim.rank)

    @property
    def number(self) -> int:
        return self.claim.attempt

    @property
    def ended(self) -> bool:
        return self.final is not None

    @property
    def writes(self) -> bool:
        return self.following is not None and not self.ended

    @property
    def bound(self) -> bool:
        return self.pod is not None and bool(self.pod.spec.node_name)

    @property
    def secret_versions(self) -> dict[str, int]:
        """An earlier agent has told those of a pod that it made."""
        return {} if self.start is None else {given.name: given.version for given in self.start.secrets}

    @property
    def silent(self) -> bool:
        """Its job's container writes nothing more: its log is complete."""
        return self.ended or self.pod is None or self.pod.over or main_state(self.pod)[0] is not None

    def see(self, pod: Pod) -> None:
        self.pod = pod
        self.turn()

    def turn(self) -> None:
        self.news.set()
        self.turned.set()

    def as_started(self) -> Start:
        """What it was asked for with, as far as its claim tells where an earlier agent made its pod."""
        if self.start is not None:
            return self.start
        place = Placement(
            node=self.claim.node, incarnation=self.claim.incarnation, rank=self.claim.rank, cpu_milli=0, memory_mib=0
        )
        spec = JobSpec(command=(), project=self.claim.project or None)
        return Start(ref=self.claim.ref, attempt=self.claim.attempt, placement=place, spec=spec)

    def fence(self, reason: str, grace_s: float) -> None:
        """It is to end. A second word never gives it more time."""
        self.grace_s = grace_s if not self.fenced else min(self.grace_s, grace_s)
        self.fenced = self.fenced or reason
        self.turn()
