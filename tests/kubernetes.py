"""Clusters of Kubernetes: on a real API server, built once by scripts/kubernetes, or on a stand-in. Own kubelets."""

import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ares.adapters.kubernetes.client import KubeClient
from ares.app.kube.rights import AUTOSCALER, NAME, autoscaler_of, objects_of
from ares.core.kube.pod import CONTAINER, FINALIZER
from tests.kube_stand_in import StandIn
from tests.platform import Process, eventually
from tests.ports import free_ports
from tests.servers import EtcdServer

Json = dict[str, Any]
_ROOT = Path(__file__).parent.parent
# A first build that takes longer goes on in the background, and the next run finds it: no run waits for it for ever.
BUILD_S = 600
NAMESPACE = "ares"


def programs(*names: str) -> Path:
    """Where kube-apiserver is, and others that are named. Where they cannot be built, the tests that need them are
    skipped, loudly."""
    found = _built(*names)
    if isinstance(found, str):
        pytest.skip(f"NO KUBERNETES HERE: nothing of it was tested against a real API server ({found})")
    return found


@cache
def _built(*names: str) -> Path | str:
    """Or why it is not there."""
    command = [_ROOT / "scripts" / "kubernetes", *names]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_S, check=False)
    except subprocess.TimeoutExpired:
        return f"after {BUILD_S} s it is still being built: run the tests again later"
    return done.stderr.strip().splitlines()[-1] if done.returncode else Path(done.stdout.strip())


class KubeCluster:
    """An API server and kubelets. Each can be killed and started again."""

    def __init__(self, directory: Path, url: str) -> None:
        self.directory, self.url = directory, url
        directory.mkdir(parents=True, exist_ok=True)
        self.token = secrets.token_hex(16)
        self.kubelets: dict[str, Process] = {}
        self.http = httpx2.Client(
            base_url=url, headers={"authorization": f"Bearer {self.token}"}, verify=False, timeout=30.0
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for process in self.kubelets.values():
            process.kill()
        self.http.close()

    # ---- what happens to it

    def kill_api(self) -> None:
        raise NotImplementedError

    def start_api(self) -> None:
        raise NotImplementedError

    def backup(self) -> Callable[[], None]:
        """Remembers all that is stored now; what it returns brings that back."""
        raise NotImplementedError

    # ---- what a person does with kubectl

    @classmethod
    def reached(cls, url: str, token: str) -> Self:
        """One that another process has started."""
        cluster = cls.__new__(cls)
        cluster.http = httpx2.Client(base_url=url, headers={"authorization": f"Bearer {token}"}, verify=False)
        return cluster

    def as_agent(self) -> httpx2.Client:
        """With the rights of the agent."""
        user = yaml.safe_load((self.directory / "kubeconfig").read_text())["users"][0]["user"]
        return httpx2.Client(base_url=self.url, headers={"authorization": f"Bearer {user['token']}"}, verify=False)

    def apply(self, thing: Mapping[str, Any]) -> Json:
        """Server-side, as `kubectl apply --server-side` does: the server checks every field."""
        group, meta = thing["apiVersion"], thing["metadata"]
        base = "/api/v1" if group == "v1" else f"/apis/{group}"
        where = f"/namespaces/{meta['namespace']}" if "namespace" in meta else ""
        path = f"{base}{where}/{thing['kind'].lower()}s/{meta['name']}"
        answer = self.http.patch(
            path, params={"fieldManager": "tests", "fieldValidation": "Strict", "force": "true"},
            content=json.dumps(thing), headers={"content-type": "application/apply-patch+yaml"},
        )  # fmt: skip
        assert answer.status_code in (200, 201), answer.text
        return answer.json()

    def call(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Json:
        answer = self.http.request(
            method, path, content=None if body is None else json.dumps(body), headers={"content-type": kind}
        )
        assert answer.status_code < 300, answer.text
        return answer.json()

    def pods(self, namespace: str = NAMESPACE) -> list[Json]:
        return self.call("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]

    def install(self, bind: str = "ares") -> Path:
        """The rights of the agent as they are shipped; a kubeconfig with a token of its service account."""
        for thing in objects_of(NAMESPACE, bind):
            self.apply(thing)
        # By the controller manager elsewhere.
        self.apply(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": NAMESPACE}}
        )
        return self.kubeconfig("kubeconfig", self._token_of(NAME))

    def install_autoscaler(self) -> Path:
        """A kubeconfig with the rights of servers that buy nodes, as they are shipped."""
        for thing in autoscaler_of(NAMESPACE):
            self.apply(thing)
        return self.kubeconfig("autoscaler.kubeconfig", self._token_of(AUTOSCALER))

    def _token_of(self, account: str) -> str:
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 7200}}
        given = self.call("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token", asked)
        return given["status"]["token"]

    def kubeconfig(self, name: str, token: str) -> Path:
        file = self.directory / name
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {
                "server": self.url, **self.trusted()}}],
            "users": [{"name": "agent", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "agent"}}],
        }  # fmt: skip
        file.write_text(yaml.safe_dump(config))
        return file

    def trusted(self) -> dict[str, str]:
        """By what a client knows the server."""
        return {}

    def client(self) -> KubeClient:
        """As the agent has it, and with its rights."""
        return KubeClient(NAMESPACE, FINALIZER, CONTAINER, str(self.directory / "kubeconfig"))

    def kubelet(
        self, name: str, *, cpu: str = "4", gpus: int = 0, labels: Mapping[str, str] | None = None,
        programs: Path | None = None,
    ) -> Process:  # fmt: skip
        """A node with its kubelet, for the first time or again."""
        process = self.kubelets.get(name)
        if process is None:
            folder = self.directory / name
            folder.mkdir()
            (folder / "kubelet.pem").write_text(_self_signed())
            allocatable = {"cpu": cpu, "memory": "8Gi", "pods": "110"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
            node = {"labels": dict(labels or {}), "allocatable": allocatable}
            told = {"url": self.url, "token": self.token, "name": name, "folder": str(folder), "node": node}
            (folder / "told.json").write_text(json.dumps(told))
            path: dict[str, str] = {} if programs is None else {"PATH": f"{programs}:{os.environ['PATH']}"}
            python = f"{_ROOT}:{_ROOT / 'src'}"
            process = Process(
                f"kubelet {name}", [sys.executable, "-m", "tests.kubelet", str(folder / "told.json")],
                self.directory / f"kubelet-{name}.log", {**os.environ, "PYTHONPATH": python, **path},
            )  # fmt: skip
            self.kubelets[name] = process
        process.start()
        eventually(lambda: self._node_ready(name, process), f"node {name}")
        return process

    def _node_ready(self, name: str, process: Process) -> bool:
        assert process.alive, process.tail()
        answer = self.http.get(f"/api/v1/nodes/{name}")
        return answer.status_code == 200 and bool(answer.json()["status"].get("conditions"))


class StandInCluster(KubeCluster):
    """On the stand-in of tests/kube_stand_in.py."""

    def __init__(self, directory: Path) -> None:
        port = free_ports(1)[0]
        super().__init__(directory, f"http://127.0.0.1:{port}")
        self.server = StandIn(port)

    def __enter__(self) -> Self:
        self.server.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        super().__exit__(kind, error, at)
        self.server.__exit__()

    def kill_api(self) -> None:
        self.server.kill()

    def start_api(self) -> None:
        self.server.start()

    def backup(self) -> Callable[[], None]:
        kept = self.server.backup()
        return lambda: self.server.restore(kept)


class RealCluster(KubeCluster):
    """A kube-apiserver with RBAC on an etcd of its own."""

    def __init__(self, directory: Path) -> None:
        self._port = free_ports(1)[0]
        super().__init__(directory, f"https://127.0.0.1:{self._port}")
        self._etcd = EtcdServer(directory / "kube-etcd")
        self.api: Process | None = None
        self.controllers: list[Process] = []

    def __enter__(self) -> Self:
        found = programs()
        self._etcd.start()
        key = self.directory / "sa.key"
        key.write_text(_new_key(ec.generate_private_key(ec.SECP256R1())))
        tokens = self.directory / "tokens.csv"
        tokens.write_text(f"{self.token},admin,1,system:masters\n")
        command = [
            str(found / "kube-apiserver"), f"--etcd-servers=http://{self._etcd.endpoint}",
            f"--secure-port={self._port}", "--bind-address=127.0.0.1", f"--cert-dir={self.directory / 'certs'}",
            "--service-account-issuer=https://kubernetes.test", f"--service-account-signing-key-file={key}",
            f"--service-account-key-file={key}", f"--token-auth-file={tokens}", "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24", "--kubelet-preferred-address-types=InternalIP",
            "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
        ]  # fmt: skip
        env = {"PATH": os.environ["PATH"], "HOME": str(self.directory)}
        self.api = Process("kube-apiserver", command, self.directory / "kube-apiserver.log", env)
        self.start_api()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        super().__exit__(kind, error, at)
        for controller in self.controllers:
            controller.kill()
        if self.api is not None:
            self.api.kill()
        self._etcd.kill()

    def control(self) -> None:
        """Starts kube-scheduler, and of kube-controller-manager what takes devices back from claims that are over."""
        found = programs("kube-scheduler", "kube-controller-manager")
        config = self.kubeconfig("control.kubeconfig", self.token)
        own = {"kube-scheduler": (), "kube-controller-manager": ("--controllers=resourceclaim-controller",)}
        for name, more in own.items():
            command = [str(found / name), f"--kubeconfig={config}", "--leader-elect=false", "--secure-port=0", *more]
            env = {"PATH": os.environ["PATH"], "HOME": str(self.directory)}
            process = Process(name, command, self.directory / f"{name}.log", env)
            self.controllers.append(process)
            process.start()

    def kill_api(self) -> None:
        assert self.api is not None
        self.api.kill()

    def start_api(self) -> None:
        assert self.api is not None
        self.api.start()
        eventually(self._ready, "readiness of kube-apiserver", 240)

    def _ready(self) -> bool:
        assert self.api is not None
        assert self.api.alive, f"kube-apiserver ended:\n{self.api.tail()}"
        try:
            return self.http.get("/readyz").status_code == 200
        except httpx2.TransportError:
            return False

    def backup(self) -> Callable[[], None]:
        """A copy of its etcd's files, made while nothing writes."""
        folder, copied = self.directory / "kube-etcd", self.directory / "kube-etcd-copy"
        self.kill_api()
        self._etcd.kill()
        shutil.copytree(folder, copied)
        self._etcd.start()
        self.start_api()

        def restore() -> None:
            self.kill_api()
            self._etcd.kill()
            shutil.rmtree(folder)
            copied.rename(folder)
            self._etcd.start()
            self.start_api()

        return restore

    def trusted(self) -> dict[str, str]:
        return {"certificate-authority": str(self.directory / "certs" / "apiserver.crt")}


def _new_key(key: ec.EllipticCurvePrivateKey) -> str:
    plain = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, plain).decode()


def _self_signed() -> str:
    """For a kubelet on loopback, which the API server does not check, as in many clusters."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "kubelet")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(1).not_valid_before(now - timedelta(minutes=1)).not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    return _new_key(key) + made.public_bytes(serialization.Encoding.PEM).decode()
