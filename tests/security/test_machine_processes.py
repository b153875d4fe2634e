"""The same with real processes: a server that does not start in the open, a node over HTTPS, etcd by TLS."""

import asyncio
import json
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ares.adapters.certificates import X509Requests
from ares.adapters.clocks import SystemClock
from ares.adapters.links import rest
from ares.adapters.store.open import open_store, take_snapshot
from ares.app.config import ConfigError, load
from ares.app.ports import require_safe
from ares.ports.link import LinkRefused
from ares.ports.store import Changes, Committed, Compare, Put, Store, StoreUnavailable
from tests.platform import READY_S, Process, ares, environment, eventually, run_cli
from tests.ports import free_ports
from tests.security.pki import Files, on_loopback
from tests.servers import die_with_parent

# ---- listening


def test_a_server_does_not_start_in_the_open(tmp_path: Path) -> None:
    """N4: beyond loopback without TLS. Nothing is made and nothing is bound before it is said."""
    home = tmp_path / "home"
    run = run_cli("server", "--listen", f"0.0.0.0:{free_ports(1)[0]}", home=home)
    assert run.code == 78
    assert "start_refused" in run.err
    assert "http.tls_cert and http.tls_key" in run.err
    assert "http.host is 0.0.0.0" in run.err
    assert not home.exists()


def refusal(home: Path, flags: dict[str, str]) -> str:
    """Why a server with these settings does not start; empty when it does."""
    try:
        require_safe(load(None, flags, {"ARES_HOME": str(home)}))
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ({"agents.host": "0.0.0.0"}, "agents.host is 0.0.0.0"),
        ({"http.host": "::", "agents.host": "10.1.2.3"}, "http.host is :: and agents.host is 10.1.2.3"),
        ({"http.host": "example.org"}, "http.host"),
        ({"http.tls_cert": "a.pem"}, "both a certificate and a key"),
        ({"store.url": "etcd://127.0.0.1:2379,10.0.0.7:2379"}, "etcd on 10.0.0.7 without TLS"),
    ],
)
def test_what_others_reach_has_tls(tmp_path: Path, flags: dict[str, str], names: str) -> None:
    """N4, N35"""
    assert names in refusal(tmp_path, flags)


@pytest.mark.parametrize(
    "flags",
    [
        {},
        {"http.host": "127.0.0.2", "agents.host": "::1"},
        {"http.host": "0.0.0.0", "agents.host": "0.0.0.0", "http.tls_cert": "a.pem", "http.tls_key": "b.pem"},
        {"store.url": "etcd://127.0.0.1:2379"},
        {"store.url": "etcd://10.0.0.7:2379?ca=ca.pem&cert=c.pem&key=k.pem"},
    ],
)
def test_what_is_safe_starts(tmp_path: Path, flags: dict[str, str]) -> None:
    assert refusal(tmp_path, flags) == ""


# ---- a node over HTTPS


class Installation:
    """A server with a certificate of its own, and what a person does with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = on_loopback(folder / "pki")
        http, agents = free_ports(2)
        self.url, self.agents = f"https://127.0.0.1:{http}", f"127.0.0.1:{agents}"
        self.home = folder / "server"
        self.server = Process(
            "server",
            [
                # Where others reach it there is no other way than by certificates.
                *ares("server"), "--listen", f"127.0.0.1:{http}", "--agents", f"0.0.0.0:{agents}",
                "--tls-cert", str(self.files.cert), "--tls-key", str(self.files.key),
            ],
            folder / "server.log",
            {**environment(self.home), "ARES_TIMING__DEAD_AFTER_S": "3", "ARES_TIMING__SELF_FENCE_S": "1.9",
             "ARES_TIMING__RENEW_EVERY_S": "0.5", "ARES_TIMING__KILL_S": "0.5"},
        )  # fmt: skip

    def agent(self, name: str, token: str) -> Process:
        env = {
            **environment(self.folder / "node"), "ARES_JOIN_TOKEN": token, "ARES_AGENTS__TLS": "on",
            "ARES_NODE__API": self.url, "ARES_NODE__TLS_CA": str(self.files.ca),
        }  # fmt: skip
        command = [*ares("agent"), "--name", name, "--server", self.agents]
        return Process(f"agent {name}", command, self.folder / f"{name}.log", env)

    def token(self) -> str:
        """The administrator's, once the server has left it."""
        file = self.home / "client.json"
        return json.loads(file.read_text()).get("token", "") if file.exists() else ""

    def ask(self, method: str, path: str, body: Any = None, client: Path | None = None) -> tuple[int, Any]:
        """With the administrator's token; with the certificate and key in `client` if there is one."""
        context = ssl.create_default_context(cafile=self.files.ca)
        if client is not None:
            context.load_cert_chain(client)
        request = urllib.request.Request(
            self.url + path,
            None if body is None else json.dumps(body).encode(),
            {"authorization": f"Bearer {self.token()}", "content-type": "application/json"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=10, context=context) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def nodes(self) -> list[str]:
        return [node["name"] for node in self.ask("GET", "/v1/nodes")[1]["nodes"] if node.get("ready")]

    def phase(self, job: str) -> str:
        return self.ask("GET", f"/v1/jobs/{job}")[1]["state"].get("phase", "PENDING")


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    made = Installation(tmp_path)
    made.server.start()
    try:
        eventually(made.token, "the administrator's token")
        yield made
    finally:
        made.server.kill()
        print(made.server.tail())  # noqa: T201 - shown by pytest when the test failed


def test_a_node_joins_over_https_works_and_is_revoked(installation: Installation) -> None:
    """N16, N30, N32: the whole way of a node, as docs/concepts/machines.md has it."""
    assert (installation.home / "keys" / "agents-ca.key").stat().st_mode & 0o777 == 0o600
    _, made = installation.ask("POST", "/v1/join-tokens", {"node": "gpu-07"})
    requests = X509Requests()
    for token, name, why in ((made["token"], "gpu-08", "for another name"), ("ares_no_token", "gpu-07", "credential")):
        trying = rest.join(
            installation.url,
            str(installation.files.ca),
            token=token,
            name=name,
            request=requests.request(requests.new_key()),
        )
        with pytest.raises(LinkRefused, match=why):
            asyncio.run(trying)
    agent = installation.agent("gpu-07", made["token"]).start()
    try:
        eventually(lambda: "gpu-07" in installation.nodes(), "registration")
        status, job = installation.ask("POST", "/v1/jobs", {"spec": {"command": ["sleep", "600"]}})
        assert status == 201, job
        eventually(lambda: installation.phase(job["id"]) == "RUNNING", "the start of the job")
        identity = installation.folder / "node" / "agents" / "gpu-07" / "identity.pem"
        # N30: with an administrator's token in hand a machine is still a machine.
        status, problem = installation.ask("GET", "/v1/jobs", client=identity)
        assert (status, problem["code"]) == (403, "forbidden")
        assert installation.ask("GET", "/v1/healthz", client=identity)[0] == 200
        status, revoked = installation.ask("POST", "/v1/nodes/gpu-07/revoke")
        assert (status, revoked["certificates"]) == (200, 1)
        assert eventually(lambda: agent.code, "the end of the agent") == 1
        eventually(lambda: installation.phase(job["id"]) == "PENDING", "taking the job away")
        assert "revoked" in agent.tail()
    finally:
        agent.kill()


# ---- etcd


def _unheard(done: int, total: int) -> None:
    """Nobody waits for how far it is."""


class SecureEtcd:
    """One etcd that hears only clients with a certificate."""

    def __init__(self, folder: Path, files: Files) -> None:
        port, peer = free_ports(2)
        self.endpoint = f"127.0.0.1:{port}"
        client, peers = f"https://{self.endpoint}", f"http://127.0.0.1:{peer}"
        command = [
            "etcd", "--name", "one", "--data-dir", str(folder / "data"), "--log-level", "error",
            "--listen-client-urls", client, "--advertise-client-urls", client,
            "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", f"one={peers}",
            "--cert-file", str(files.cert), "--key-file", str(files.key),
            "--trusted-ca-file", str(files.ca), "--client-cert-auth",
        ]  # fmt: skip
        with (folder / "etcd.log").open("wb") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call, nothing is allocated
            )  # fmt: skip

    async def open(self, query: str) -> Store:
        """Once it is up."""
        deadline = time.monotonic() + READY_S
        while True:
            try:
                return await open_store(f"etcd://{self.endpoint}{query}", SystemClock())
            except StoreUnavailable:
                assert time.monotonic() < deadline
                assert self.process.poll() is None


async def test_etcd_is_reached_by_certificate_alone(tmp_path: Path) -> None:
    """N35: without a client certificate nothing is said; with one the store works, and `ares verify` can look."""
    files, strangers = on_loopback(tmp_path / "pki"), on_loopback(tmp_path / "other")
    etcd = SecureEtcd(tmp_path, files)
    try:
        query = f"?ca={files.ca}&cert={files.cert}&key={files.key}"
        store = await etcd.open(query)
        try:
            written = await store.txn([Compare("/a", "mod_revision", 0)], [Put("/a", b"1")])
            assert isinstance(written, Committed)
            assert written.succeeded
            again = await store.txn([Compare("/a", "mod_revision", 0)], [Put("/a", b"2")])
            assert isinstance(again, Committed)
            assert not again.succeeded
            found = await store.get("/a")
            assert found is not None
            assert found.value == b"1"
            async with asyncio.timeout(READY_S):
                seen = await anext(aiter(store.watch("/", written.revision)))
            assert isinstance(seen, Changes)
            assert [change.kv.key for change in seen.changes] == ["/a"]
        finally:
            await store.close()

        def look() -> list[str]:
            with take_snapshot(f"etcd://{etcd.endpoint}{query}", SystemClock(), _unheard) as snapshot:
                return [row.key for row in snapshot.rows("/")]

        assert await asyncio.to_thread(look) == ["/a"]
        refused = await asyncio.gather(
            *(
                open_store(f"etcd://{etcd.endpoint}{shown}", SystemClock())
                for shown in (
                    "",
                    f"?ca={files.ca}",
                    f"?ca={strangers.ca}&cert={files.cert}&key={files.key}",
                    f"?ca={files.ca}&cert={strangers.cert}&key={strangers.key}",
                )
            ),
            return_exceptions=True,
        )
        assert [type(error) for error in refused] == [StoreUnavailable] * 4
    finally:
        etcd.process.kill()
        etcd.process.wait()


@pytest.mark.parametrize("query", ["cert=a", "ca=a&cert=b", "ca=a&ca=b", "ca=", "other=a", "ca"])
async def test_half_of_a_certificate_is_a_mistake(query: str) -> None:
    with pytest.raises(ValueError, match=r"TLS|certificate|bad query"):
        await open_store(f"etcd://127.0.0.1:1?{query}", SystemClock())
