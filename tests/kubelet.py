"""A kubelet that is a few pages long: a node with its lease, pods as processes of this machine, their status, and their
logs by TLS, so that `pods/log` works through the real API server.

What is pretended: images (the programs are the machine's own; an image named `missing` cannot be pulled), resources
(counted for admission, as a kubelet does, and not enforced), and the file for the last words of a container, which is
one of this process's own.
"""

import asyncio
import base64
import contextlib
import json
import os
import signal
import ssl
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2

from ares.core.kube import quantity

Json = dict[str, Any]
_LEASE_EVERY_S = 10.0


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class _Container:
    """One pod's process and its output, each line with its time."""

    def __init__(self) -> None:
        self.process: asyncio.subprocess.Process | None = None
        # Of its helpers.
        self.beside: list[asyncio.subprocess.Process] = []
        self.states: dict[str, Json] = {}
        self.lines: list[tuple[str, bytes]] = []
        self.written = asyncio.Event()
        self.ended = False
        self.began = _now()
        self.stopping = False
        # What is said of it is said in order.
        self.saying = asyncio.Lock()

    def write(self, line: bytes) -> None:
        stamp = time.time_ns()
        whole = datetime.fromtimestamp(stamp // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        self.lines.append((f"{whole}.{stamp % 10**9:09d}Z", line))
        self.stir()

    def stir(self) -> None:
        self.written.set()
        self.written = asyncio.Event()


class MiniKubelet:
    def __init__(self, url: str, token: str, name: str, folder: Path, node: Json) -> None:
        self._http = httpx2.AsyncClient(
            base_url=url, headers={"authorization": f"Bearer {token}"}, verify=False, timeout=httpx2.Timeout(10.0)
        )
        self._name, self._folder, self._node = name, folder, node
        self._pods: dict[str, _Container] = {}
        self._keys: dict[tuple[str, str], str] = {}
        self._asked: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._folder / "kubelet.pem")
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context)
        await self._register(server.sockets[0].getsockname()[1])
        self._spawn(self._renew())
        while True:
            try:
                await self._follow()
            except (httpx2.TransportError, OSError):
                await asyncio.sleep(0.2)

    def _spawn(self, what: Any) -> None:
        task = asyncio.create_task(what)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, method: str, path: str, body: Any, kind: str = "application/json") -> httpx2.Response:
        """Until it is heard: a kubelet outlives its API server."""
        while True:
            try:
                answer = await self._http.request(
                    method, path, content=json.dumps(body), headers={"content-type": kind}
                )
            except (httpx2.TransportError, OSError):
                await asyncio.sleep(0.2)
                continue
            if answer.status_code < 500 and answer.status_code != 429:
                return answer
            await asyncio.sleep(0.2)

    # ---- the node

    async def _register(self, port: int) -> None:
        labels = {**self._node["labels"], "kubernetes.io/hostname": self._name}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self._name, "labels": labels}}
        made = await self._send("POST", "/api/v1/nodes", node)
        assert made.status_code in (201, 409), made.text
        status = {
            "capacity": self._node["allocatable"],
            "allocatable": self._node["allocatable"],
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
            "nodeInfo": {
                "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": os.uname().release, "osImage": "",
                "containerRuntimeVersion": "", "kubeletVersion": "v0.0.0-mini", "kubeProxyVersion": "",
                "operatingSystem": "linux", "architecture": "amd64",
            },
        }  # fmt: skip
        patched = await self._send(
            "PATCH", f"/api/v1/nodes/{self._name}/status", {"status": status}, "application/strategic-merge-patch+json"
        )
        assert patched.status_code == 200, patched.text
        # A new node is not ready by a taint, which the controller manager would take off.
        await self._send(
            "PATCH", f"/api/v1/nodes/{self._name}", {"spec": {"taints": None}}, "application/merge-patch+json"
        )

    async def _renew(self) -> None:
        path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        spec = {"holderIdentity": self._name, "leaseDurationSeconds": 40}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": self._name}}
        while True:
            stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            body = {"spec": {**spec, "renewTime": stamp}}
            answer = await self._send("PATCH", f"{path}/{self._name}", body, "application/merge-patch+json")
            if answer.status_code == 404:
                await self._send("POST", path, {**lease, **body})
            await asyncio.sleep(_LEASE_EVERY_S)

    # ---- pods

    async def _follow(self) -> None:
        params: dict[str, Any] = {"fieldSelector": f"spec.nodeName={self._name}"}
        found = (await self._http.get("/api/v1/pods", params=params)).raise_for_status().json()
        here = {pod["metadata"]["uid"] for pod in found["items"]}
        for uid in self._pods.keys() - here:
            self._vanished(uid)
        for pod in found["items"]:
            self._see(pod)
        params |= {"watch": "1", "resourceVersion": found["metadata"]["resourceVersion"], "timeoutSeconds": "60"}
        async with self._http.stream("GET", "/api/v1/pods", params=params, timeout=90) as answer:
            async for line in answer.aiter_lines():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                if event["type"] == "DELETED":
                    self._vanished(event["object"]["metadata"]["uid"])
                else:
                    self._see(event["object"])

    def _see(self, pod: Json) -> None:
        meta = pod["metadata"]
        uid, deleted = meta["uid"], meta.get("deletionTimestamp") is not None
        container = self._pods.get(uid)
        over = pod["status"].get("phase") in ("Succeeded", "Failed")
        if container is None and not over:
            container = self._pods[uid] = _Container()
            self._keys[meta["namespace"], meta["name"]] = uid
            self._spawn(self._live(pod, container))
        if deleted and container is not None and not container.stopping:
            container.stopping = True
            self._spawn(self._stop(pod, container))

    def _vanished(self, uid: str) -> None:
        container = self._pods.pop(uid, None)
        for helper in [] if container is None else container.beside:
            _kill(helper, signal.SIGKILL)
        if container is not None and container.process is not None and not container.ended:
            _kill(container.process, signal.SIGKILL)

    async def _live(self, pod: Json, container: _Container) -> None:
        spec, uid = pod["spec"]["containers"][0], pod["metadata"]["uid"]
        asked = quantity.milli(spec.get("resources", {}).get("requests", {}).get("cpu", "0"))
        if asked + sum(self._asked.values()) > quantity.milli(self._node["allocatable"]["cpu"]):
            await self._status(pod, {"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough cpu"})
            return
        if spec["image"] == "missing":
            waiting = {"reason": "ErrImagePull", "message": "no such image: missing"}
            await self._status(pod, {"phase": "Pending", "containerStatuses": [_shown(spec, {"waiting": waiting})]})
            return
        self._asked[uid] = asked
        try:
            mounts = await self._volumes(pod)
            for helper in pod["spec"].get("initContainers", []):
                code = await self._beside(helper, mounts, container)
                if code:
                    container.ended = True
                    container.stir()
                    ended = {"terminated": {"exitCode": code, "reason": "Error", "finishedAt": _now()}}
                    await self._status(pod, {"phase": "Failed", "initContainerStatuses": [_shown(helper, ended)]})
                    return
            words = Path(tempfile.mkstemp(dir=self._folder)[1])
            beside: list[Json] = pod["spec"]["containers"][1:]
            helpers = [asyncio.create_task(self._help(helper, mounts, container)) for helper in beside]
            code = await self._run(pod, spec, mounts, container, words)
            ended = {
                "exitCode": code if code >= 0 else 128 - code, "reason": "Completed" if code == 0 else "Error",
                "startedAt": container.began, "finishedAt": _now(), "message": _read(words),
            }  # fmt: skip
            container.states[spec["name"]] = _shown(spec, {"terminated": ended})
            if helpers:
                await self._status(pod, {"phase": "Running", "containerStatuses": [*container.states.values()]}, True)
            codes = [code, *(await asyncio.gather(*helpers))]
            phase = "Failed" if any(codes) else "Succeeded"
            await self._status(pod, {"phase": phase, "containerStatuses": [*container.states.values()]})
        finally:
            del self._asked[uid]

    async def _volumes(self, pod: Json) -> dict[str, str]:
        """Folders of this machine, by the volume's name."""
        found: dict[str, str] = {}
        for volume in pod["spec"].get("volumes", []):
            found[volume["name"]] = tempfile.mkdtemp(dir=self._folder)
            if "secret" in volume:
                values = await self._secret(pod, volume["secret"]["secretName"])
                _fill(Path(found[volume["name"]]), volume["secret"]["items"], values)
        return found

    async def _secret(self, pod: Json, name: str) -> Json:
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/secrets/{name}"
        return (await self._http.get(path)).raise_for_status().json()["data"]

    async def _help(self, spec: Json, mounts: dict[str, str], container: _Container) -> int:
        container.states[spec["name"]] = _shown(spec, {"running": {"startedAt": _now()}})
        code = await self._beside(spec, mounts, container)
        ended = {"exitCode": code, "reason": "Error" if code else "Completed", "finishedAt": _now()}
        container.states[spec["name"]] = _shown(spec, {"terminated": ended})
        return code

    async def _beside(self, spec: Json, mounts: dict[str, str], container: _Container) -> int:
        # Its image is the checkout.
        env = {**await self._env(spec, mounts), "PYTHONPATH": os.environ["PYTHONPATH"]}
        process = await asyncio.create_subprocess_exec(
            *spec["command"], env=env, cwd=self._folder, start_new_session=True
        )
        container.beside.append(process)
        return await process.wait()

    async def _env(self, spec: Json, mounts: dict[str, str]) -> dict[str, str]:
        env = {"PATH": os.environ["PATH"]}
        for entry in spec.get("env", []):
            if "valueFrom" in entry:
                wish = entry["valueFrom"]["secretKeyRef"]
                values = await self._secret({"metadata": {"namespace": "ares"}}, wish["name"])
                env[entry["name"]] = base64.b64decode(values[wish["key"]]).decode()
            else:
                env[entry["name"]] = _here(entry.get("value", "").replace("$$(", "$("), spec, mounts)
        return env

    async def _run(self, pod: Json, spec: Json, mounts: dict[str, str], container: _Container, words: Path) -> int:
        env = await self._env(spec, mounts)
        env = {name: str(words) if value == spec["terminationMessagePath"] else value for name, value in env.items()}
        argv = [word.replace("$$(", "$(") for word in (*spec.get("command", []), *spec.get("args", []))]
        folder = _here(spec.get("workingDir", ""), spec, mounts) or self._folder
        try:
            container.process = await asyncio.create_subprocess_exec(
                *argv, env=env, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            container.write(str(error).encode() + b"\n")
            container.ended = True
            container.stir()
            return 128
        container.states[spec["name"]] = _shown(spec, {"running": {"startedAt": container.began}})
        self._spawn(self._status(pod, {"phase": "Running", "containerStatuses": [*container.states.values()]}))
        assert container.process.stdout is not None
        async for line in container.process.stdout:
            container.write(line)
        code = await container.process.wait()
        container.ended = True
        container.stir()
        return code

    async def _stop(self, pod: Json, container: _Container) -> None:
        """SIGTERM, the grace, SIGKILL; the end is told, and only then the pod is removed."""
        if container.process is not None and not container.ended:
            _kill(container.process, signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(_ended(container), pod["metadata"].get("deletionGracePeriodSeconds") or 0)
            if not container.ended:
                _kill(container.process, signal.SIGKILL)
                await _ended(container)
        else:
            container.ended = True
            current = await self._http.get(_path(pod))
            if current.status_code == 200 and current.json()["status"].get("phase") == "Pending":
                await self._status(pod, {"phase": "Failed"})
        for helper in container.beside:
            _kill(helper, signal.SIGKILL)
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
        await self._send("DELETE", _path(pod), options)

    async def _status(self, pod: Json, status: Json, after: bool = False) -> None:
        uid = pod["metadata"]["uid"]
        body, container = {"metadata": {"uid": uid}, "status": status}, self._pods.get(uid) or _Container()
        async with container.saying:
            # A pod that has ended is not said to run: what was said of its end came first.
            if status["phase"] == "Running" and container.ended and not after:
                return
            await self._send("PATCH", f"{_path(pod)}/status", body, "application/strategic-merge-patch+json")

    # ---- logs

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            request = await reader.readuntil(b"\r\n\r\n")
            target = urlsplit(request.split(b" ", 2)[1].decode())
            _, kind, namespace, name, *_ = target.path.split("/")
            uid = self._keys.get((namespace, name), "")
            container = self._pods.get(uid)
            if kind != "containerLogs" or container is None:
                writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            else:
                writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n")
                await self._lines(container, {key: values[0] for key, values in parse_qs(target.query).items()}, writer)
                writer.write(b"0\r\n\r\n")
            await writer.drain()
        writer.close()

    async def _lines(self, container: _Container, options: dict[str, str], writer: asyncio.StreamWriter) -> None:
        at, since = 0, options.get("sinceTime", "")[:19]
        while True:
            written, ended = container.written, container.ended
            for stamp, line in container.lines[at:]:
                if stamp[:19] >= since:
                    text = f"{stamp} ".encode() + line if options.get("timestamps") == "true" else line
                    writer.write(f"{len(text):x}\r\n".encode() + text + b"\r\n")
            at = len(container.lines)
            await writer.drain()
            if ended or options.get("follow") != "true":
                return
            await written.wait()


def _fill(folder: Path, items: list[Json], values: Json) -> None:
    for item in items:
        (folder / item["path"]).write_bytes(base64.b64decode(values[item["key"]]))


def _here(path: str, spec: Json, mounts: dict[str, str]) -> str:
    """A path of a container as one of this machine: volumes are folders of it."""
    for mount in spec.get("volumeMounts", []):
        if path == mount["mountPath"] or path.startswith(f"{mount['mountPath']}/"):
            return mounts[mount["name"]] + path.removeprefix(mount["mountPath"])
    return path


def _read(words: Path) -> str:
    return words.read_text()[:4096]


def _path(pod: Json) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _shown(spec: Json, state: Json) -> Json:
    running = "running" in state
    return {
        "name": spec["name"], "image": spec["image"], "imageID": "", "ready": running, "started": running,
        "restartCount": 0, "state": state,
    }  # fmt: skip


def _kill(process: asyncio.subprocess.Process, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


async def _ended(container: _Container) -> None:
    while not container.ended:
        await container.written.wait()


def main() -> None:
    told = json.loads(Path(sys.argv[1]).read_text())
    kubelet = MiniKubelet(told["url"], told["token"], told["name"], Path(told["folder"]), told["node"])
    asyncio.run(kubelet.run())


if __name__ == "__main__":
    main()
