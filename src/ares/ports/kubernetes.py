"""The API of one Kubernetes cluster, as far as an agent needs it, and the agent's door for helpers in its pods."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Annotated, Any, Generic, Literal, Protocol, TypeVar

import msgspec
from msgspec import Meta

from ares.model.base import Record
from ares.model.kube import KubeNode, KubeRefusal, KubeSecret, Pod, ResourceClaim, ResourceSlice
from ares.model.link import CHUNK_BYTES_MAX

T = TypeVar("T", KubeNode, Pod, ResourceSlice, ResourceClaim)
P = TypeVar("P")


class KubeUnavailable(Exception):
    """No answer, or none that counts: what was asked for may have happened, or not."""


class AnswerTooLarge(KubeUnavailable):
    """More than is read of one answer."""


class KubeRefused(Exception):
    """The server said no: nothing has changed."""

    def __init__(self, refusal: KubeRefusal) -> None:
        super().__init__(f"{refusal.message or refusal.reason} ({refusal.code})")
        self.code, self.reason = refusal.code, refusal.reason


class Listed(msgspec.Struct, Generic[T], frozen=True):
    """Everything there is now. What was known before and is not among it is gone."""

    items: tuple[T, ...]
    # The cluster was restored from a backup: what is gone may still run, and what is there may have ended.
    restored: bool = False


class Changed(msgspec.Struct, Generic[T], frozen=True):
    kind: Literal["ADDED", "MODIFIED", "DELETED"]
    item: T


class PodApi(Protocol):
    """Raises KubeUnavailable and KubeRefused."""

    async def create(self, manifest: dict[str, Any]) -> Pod: ...

    async def get(self, name: str) -> Pod | None: ...

    async def bind(self, name: str, binding: dict[str, Any]) -> None: ...

    async def change(self, name: str, steps: list[dict[str, Any]]) -> Pod:
        """By a JSON patch: all of its steps, or none."""
        ...

    async def delete(self, name: str, uid: str, grace_s: int) -> None:
        """Begins to end the pod with this very uid. One that is gone, or has another uid, is left as it is."""
        ...

    async def release(self, name: str, uid: str) -> None:
        """Takes our finalizer off the pod with this uid."""
        ...

    async def create_secret(self, manifest: dict[str, Any]) -> None: ...

    async def secret(self, name: str) -> KubeSecret | None: ...

    async def delete_secret(self, name: str, uid: str) -> None:
        """One that is gone, or has another uid, is left as it is."""
        ...

    async def create_claim(self, manifest: dict[str, Any]) -> None:
        """A claim on devices."""
        ...

    async def claim(self, name: str) -> ResourceClaim | None: ...

    async def delete_claim(self, name: str, uid: str) -> None:
        """One that is gone, or has another uid, is left as it is."""
        ...

    def log(self, name: str, since: str) -> AsyncIterator[bytes]:
        """The job's output as it comes, by lines with their times, from that time on; ends with the container's."""
        ...


class KubeApi(PodApi, Protocol):
    def pods(self) -> AsyncGenerator[Listed[Pod] | Changed[Pod], None]:
        """Every pod of every namespace, for ever: first all, then each change. After a gap all of them again."""
        ...

    def nodes(self) -> AsyncGenerator[Listed[KubeNode] | Changed[KubeNode], None]: ...

    async def gives_devices(self) -> bool:
        """Whether the cluster knows claims on devices (resource.k8s.io/v1, from 1.34 on)."""
        ...

    def slices(self) -> AsyncGenerator[Listed[ResourceSlice] | Changed[ResourceSlice], None]: ...

    def claims(self) -> AsyncGenerator[Listed[ResourceClaim] | Changed[ResourceClaim], None]:
        """Of every namespace."""
        ...

    async def close(self) -> None: ...


# ---- the door: what a helper in a pod and the agent say. What a helper sends is bounded: a job may be its neighbour.

SERVICE = "ares.pod.v1.Pod"
# Metadata of every call: the pod's name, and the token that its secret holds.
POD, TOKEN = "pod", "token"
MESSAGE_BYTES_MAX = 16 << 20


class PodLeave(Record, frozen=True):
    """Whether the job's container may start; `why` not, in words."""

    granted: bool
    why: str = ""
    # It has files to be staged first.
    project: bool = False


class PodPart(Record, frozen=True):
    """The manifest of a project first, with no digest, then each part of its files."""

    data: bytes
    sha256: str = ""


class PodTask(Record, frozen=True):
    """What is left for the helper to do. After `wait` it asks again."""

    todo: Literal["wait", "hand-over", "leave"]
    bytes_max: int = 0


class PodFile(Record, frozen=True):
    """A piece of an output file, in order. With `trouble` the files cannot be handed over, and why."""

    path: Annotated[str, Meta(max_length=4096)] = ""
    data: Annotated[bytes, Meta(max_length=CHUNK_BYTES_MAX)] = b""
    first: bool = False
    trouble: Annotated[str, Meta(max_length=4096)] = ""


class PodKept(Record, frozen=True):
    """All files came; what becomes of them is the next task."""


class NotYet(Exception):
    """It cannot be said now; the helper asks again."""


class Unwelcome(Exception):
    """The pod is not known, or has no right to this."""


class PodService(Protocol[P]):
    """What is behind the door. Each raises NotYet and Unwelcome."""

    def admitted(self, pod: str, token: str) -> P: ...

    async def leave(self, pod: P) -> PodLeave: ...

    def parts(self, pod: P) -> AsyncIterator[PodPart]: ...

    async def next(self, pod: P) -> PodTask: ...

    async def hand_over(self, pod: P, files: AsyncIterator[PodFile]) -> None: ...
