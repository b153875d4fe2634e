"""One cluster's API: what an agent asks of it, as plain requests."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import httpx2
import msgspec
from lightkube.config.client_adapter import AsyncClient, ConnectionParams
from lightkube.config.kubeconfig import KubeConfig
from lightkube.core.exceptions import ConfigError as LightkubeError

from ares.adapters.kubernetes.list_watch import WATCH_S, ListWatch
from ares.model.kube import KubeNode, KubeRefusal, KubeSecret, ObjectMeta, Pod, PodStatus, ResourceClaim, ResourceSlice
from ares.ports.kubernetes import AnswerTooLarge, Changed, KubeRefused, KubeUnavailable, Listed

T = TypeVar("T")
_ANSWER_S: Final = 20.0
_CONNECT_S: Final = 5.0
# Requests under way at once: the server has other callers.
_AT_ONCE: Final = 32
_LINE_MAX: Final = 8 << 20
_ANSWER_MAX = 64 << 20
_WHOLE_ANSWER_S = 120.0
# A job may be silent for long, and a connection may be dead: it is made anew after this time, which costs a request.
_LOG_SILENT_S: Final = 600.0
_TOO_MANY, _SERVER = 429, 500
_UNKNOWN_USER, _FORBIDDEN = 401, 403
_CONFLICT, _MISSING, _INVALID = 409, 404, 422
_POD: Final = msgspec.json.Decoder(Pod)
_SECRET: Final = msgspec.json.Decoder(KubeSecret)
_CLAIM: Final = msgspec.json.Decoder(ResourceClaim)
_REFUSAL: Final = msgspec.json.Decoder(KubeRefusal)
_DEVICES: Final = "/apis/resource.k8s.io/v1"
_JSON_PATCH: Final = "application/json-patch+json"


class NoCluster(Exception):
    """No cluster is configured, or its configuration cannot be used."""

    fix = "name a kubeconfig file with --kubeconfig, or run inside of the cluster with a service account"


class KubeClient:
    """Also a `KubeApi`. `namespace`: where the jobs' pods are."""

    def __init__(self, namespace: str, finalizer: str, container: str, kubeconfig: str = "") -> None:
        try:
            found = KubeConfig.from_file(kubeconfig) if kubeconfig else KubeConfig.from_env()
            config = found.get()
            if config is None:
                raise NoCluster(f"{kubeconfig or 'the environment'} names no current context")
            # A watch is silent between two changes; the server ends it after its own time.
            timeout = httpx2.Timeout(_ANSWER_S, connect=_CONNECT_S)
            self._http = AsyncClient(config, ConnectionParams(timeout=timeout))
        except (LightkubeError, OSError, ValueError) as error:
            raise NoCluster(f"the cluster's configuration cannot be used: {error}") from error
        self._namespace = namespace
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._secrets = f"/api/v1/namespaces/{namespace}/secrets"
        self._claims = f"{_DEVICES}/namespaces/{namespace}/resourceclaims"
        self._finalizer, self._container = finalizer, container
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def close(self) -> None:
        await self._http.aclose()

    # ---- pods

    async def create(self, manifest: dict[str, Any]) -> Pod:
        return _decoded(_POD, await self._ask("POST", self._pods, manifest))

    async def get(self, name: str) -> Pod | None:
        return await self._found(f"{self._pods}/{name}", _POD)

    async def change(self, name: str, steps: list[dict[str, Any]]) -> Pod:
        return _decoded(_POD, await self._ask("PATCH", f"{self._pods}/{name}", steps, _JSON_PATCH))

    async def bind(self, name: str, binding: dict[str, Any]) -> None:
        await self._ask("POST", f"{self._pods}/{name}/binding", binding)

    async def delete(self, name: str, uid: str, grace_s: int) -> None:
        options = {"gracePeriodSeconds": grace_s, "preconditions": {"uid": uid}}
        await self._unless_gone("DELETE", f"{self._pods}/{name}", options)

    async def release(self, name: str, uid: str) -> None:
        """Compares uid and place of the finalizer, as the server has them. Another hand may move it meanwhile."""
        while True:
            pod = await self.get(name)
            if pod is None or pod.metadata.uid != uid or self._finalizer not in pod.metadata.finalizers:
                return
            at = f"/metadata/finalizers/{pod.metadata.finalizers.index(self._finalizer)}"
            steps = [
                {"op": "test", "path": "/metadata/uid", "value": uid},
                {"op": "test", "path": at, "value": self._finalizer},
                {"op": "remove", "path": at},
            ]
            try:
                await self.change(name, steps)
            except KubeRefused as refusal:
                if refusal.code not in (_MISSING, _CONFLICT, _INVALID):
                    raise
                seen = await self.get(name)
                if seen is not None and seen.metadata.resource_version == pod.metadata.resource_version:
                    # Not for another hand: the server does not want it.
                    raise

    async def create_secret(self, manifest: dict[str, Any]) -> None:
        await self._ask("POST", self._secrets, manifest)

    async def secret(self, name: str) -> KubeSecret | None:
        return await self._found(f"{self._secrets}/{name}", _SECRET)

    async def delete_secret(self, name: str, uid: str) -> None:
        await self._unless_gone("DELETE", f"{self._secrets}/{name}", {"preconditions": {"uid": uid}})

    async def create_claim(self, manifest: dict[str, Any]) -> None:
        await self._ask("POST", self._claims, manifest)

    async def claim(self, name: str) -> ResourceClaim | None:
        return await self._found(f"{self._claims}/{name}", _CLAIM)

    async def delete_claim(self, name: str, uid: str) -> None:
        await self._unless_gone("DELETE", f"{self._claims}/{name}", {"preconditions": {"uid": uid}})

    async def _found(self, path: str, decoder: "msgspec.json.Decoder[T]") -> T | None:
        try:
            return _decoded(decoder, await self._ask("GET", path))
        except KubeRefused as refusal:
            if refusal.code == _MISSING:
                return None
            raise

    async def _unless_gone(self, method: str, path: str, body: Any, kind: str = "application/json") -> None:
        try:
            await self._ask(method, path, body, kind)
        except KubeRefused as refusal:
            if refusal.code not in (_MISSING, _CONFLICT):
                raise

    async def log(self, name: str, since: str) -> AsyncIterator[bytes]:
        params: dict[str, str | int] = {
            "container": self._container, "follow": "true", "timestamps": "true",
            **({"sinceTime": since} if since else {}),
        }  # fmt: skip
        async for line in self._stream(f"{self._pods}/{name}/log", params, _LOG_SILENT_S, ends=True):
            yield line

    # ---- lists and watches

    def pods(self) -> AsyncGenerator[Listed[Pod] | Changed[Pod], None]:
        return ListWatch(self, "/api/v1/pods", Pod, self._kept).run()

    def nodes(self) -> AsyncGenerator[Listed[KubeNode] | Changed[KubeNode], None]:
        return ListWatch(self, "/api/v1/nodes", KubeNode).run()

    def _kept(self, pod: Pod) -> Pod:
        """Of others' pods, which may be very many, what they take of a node."""
        meta = pod.metadata
        if meta.namespace == self._namespace:
            return pod
        known = ObjectMeta(
            name=meta.name, namespace=meta.namespace, uid=meta.uid, resource_version=meta.resource_version
        )
        return Pod(metadata=known, spec=pod.spec, status=PodStatus(phase=pod.status.phase))

    async def gives_devices(self) -> bool:
        try:
            await self._ask("GET", _DEVICES)
        except KubeRefused as refusal:
            if refusal.code == _MISSING:
                return False
            raise
        return True

    def slices(self) -> AsyncGenerator[Listed[ResourceSlice] | Changed[ResourceSlice], None]:
        return ListWatch(self, f"{_DEVICES}/resourceslices", ResourceSlice).run()

    def claims(self) -> AsyncGenerator[Listed[ResourceClaim] | Changed[ResourceClaim], None]:
        return ListWatch(self, f"{_DEVICES}/resourceclaims", ResourceClaim).run()

    async def read(self, path: str, params: dict[str, str | int]) -> bytes:
        return await self._ask("GET", path, params=params)

    def lines(self, path: str, params: dict[str, str | int]) -> AsyncIterator[bytes]:
        return self._stream(path, params, WATCH_S * 1.5)

    # ---- requests

    async def _ask(
        self, method: str, path: str, body: Any = None, kind: str = "application/json",
        params: dict[str, str | int] | None = None,
    ) -> bytes:  # fmt: skip
        content = None if body is None else msgspec.json.encode(body)
        headers = {} if body is None else {"Content-Type": kind}
        whole = bytearray()
        # Also of a server that says a little now and then.
        async with self._turns, _translated(), asyncio.timeout(_WHOLE_ANSWER_S):
            asked = self._http.stream(method, path, content=content, headers=headers, params=params)
            async with asked as answer:
                async for piece in answer.aiter_bytes():
                    whole += piece
                    if len(whole) > _ANSWER_MAX:
                        raise AnswerTooLarge(f"an answer of more than {_ANSWER_MAX:,} bytes")
        _judge(answer.status_code, bytes(whole))
        return bytes(whole)

    async def _stream(
        self, path: str, params: dict[str, str | int], silent_s: float, *, ends: bool = False
    ) -> AsyncGenerator[bytes, None]:
        """Lines as they come, without their ends; with `ends`, with them, and what is left without one."""
        timeout = httpx2.Timeout(_ANSWER_S, connect=_CONNECT_S, read=silent_s)
        async with _translated(), self._http.stream("GET", path, params=params, timeout=timeout) as answer:
            if answer.status_code >= 300:
                _judge(answer.status_code, await answer.aread())
            left = b""
            async for piece in answer.aiter_bytes():
                *lines, left = (left + piece).split(b"\n")
                for line in lines:
                    yield line + b"\n" if ends else line
                if len(left) > _LINE_MAX:
                    if not ends:
                        raise KubeUnavailable(f"a line of more than {_LINE_MAX:,} bytes")
                    yield left
                    left = b""
            if left and ends:
                yield left


def _decoded(decoder: "msgspec.json.Decoder[T]", content: bytes) -> T:
    """What cannot be read is no answer: whether it was done is not known."""
    try:
        return decoder.decode(content)
    except msgspec.MsgspecError as error:
        raise KubeUnavailable(f"an answer that cannot be read: {error}") from error


def _judge(status: int, content: bytes) -> None:
    if status < 300:
        return
    try:
        refusal = _REFUSAL.decode(content)
    except msgspec.MsgspecError:
        refusal = KubeRefusal(code=status, message=content[:200].decode(errors="replace"))
    if status == _UNKNOWN_USER or (status == _FORBIDDEN and _no_right(refusal.message)):
        # A server that has just started does not know its users and roles yet, and an operator may mend them.
        raise KubeUnavailable(f"the agent is not allowed to: {refusal.message} ({status})")
    if status == _TOO_MANY or status >= _SERVER:
        raise KubeUnavailable(f"the API server is busy or in trouble: {refusal.message} ({status})")
    raise KubeRefused(refusal if refusal.code else msgspec.structs.replace(refusal, code=status))


def _no_right(message: str) -> bool:
    """Whether roles speak against it. Quotas and admission forbid things, too, and mean the thing itself."""
    return 'is forbidden: User "' in message and '" cannot ' in message


@asynccontextmanager
async def _translated() -> AsyncGenerator[None, None]:
    try:
        yield
    except (httpx2.TransportError, OSError) as error:
        raise KubeUnavailable(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__) from error
