"""A whole platform of real processes: servers, agents, etcd. Each can be killed, frozen and started again."""

import asyncio
import http.client
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Literal, Self, TypeVar
from unittest import mock

import msgspec

from ares.adapters.clocks import SystemClock
from ares.adapters.store.open import open_store
from ares.core import keys
from ares.edge.client import addresses
from ares.edge.client.errors import AresError
from ares.edge.client.retry import Retry
from ares.edge.client.sync import Client
from ares.model.node import NodeLease
from tests.ports import free_ports
from tests.servers import EtcdServer, die_with_parent
from tests.warm import Forked, can_begin, run_command

T = TypeVar("T")
StoreKind = Literal["sqlite", "etcd"]

READY_S = 60.0
_POLL_S = 0.05
_TAIL_LINES = 40
_REPLICAS_MAX = 3
# Tests kill servers under clients: a client is patient as long as the test is.
PATIENT = Retry(attempts=60, base_s=0.1, cap_s=1.0)


class NeverHappened(AssertionError):
    """What a test waited for did not come."""


def eventually(look: Callable[[], T | None], what: str, timeout_s: float = READY_S) -> T:
    """The first true answer of `look`. Errors of the client count as "not yet"."""
    deadline = time.monotonic() + timeout_s
    seen: object = None
    while time.monotonic() < deadline:
        try:
            answer = look()
            if answer:
                return answer
            seen = answer
        except AresError as error:
            seen = error
        time.sleep(_POLL_S)
    raise NeverHappened(f"{what} did not happen within {timeout_s:g} s; last seen: {seen!r}")


def say(text: str) -> None:
    """Into the test's output, which pytest shows on failure, or always with -s."""
    sys.stdout.write(f"{text}\n")


class Process:
    """One process of the platform, started again on the same state as often as asked."""

    def __init__(self, name: str, command: Sequence[str], log: Path, env: Mapping[str, str]) -> None:
        self.name = name
        self.log = log
        # Whether it may begin with its modules imported, see `tests.warm`.
        self.warm = False
        self._command = list(command)
        self._env = {name: value for name, value in env.items() if value}
        self._process: subprocess.Popen[bytes] | Forked | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} is not running"
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def code(self) -> int | None:
        """How it ended, as `subprocess` tells it; None while it runs."""
        return None if self._process is None else self._process.poll()

    def start(self) -> Self:
        assert not self.alive, f"{self.name} is running already"
        with self.log.open("ab") as log, open(os.devnull, "rb") as nothing:
            if self.warm and can_begin(self._command, self._env):
                self._process = Forked(self._command, self._env, (nothing.fileno(), log.fileno(), log.fileno()))
                return self
            self._process = subprocess.Popen(
                self._command, env=self._env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call, nothing is allocated
            )  # fmt: skip
        return self

    def change(self, **env: str) -> None:
        """Variables of its environment from its next start on; an empty one is taken out."""
        self._env = {name: value for name, value in {**self._env, **env}.items() if value}

    def kill(self) -> None:
        """SIGKILL: no goodbyes."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def terminate(self) -> int:
        """SIGTERM; the exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(READY_S)

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(lines[-_TAIL_LINES:])


class Server(Process):
    """A control-plane replica."""

    def __init__(
        self,
        name: str,
        home: Path,
        log: Path,
        flags: Sequence[str],
        ports: tuple[int, int],
        env: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.home = home
        self.http = f"127.0.0.1:{ports[0]}"
        self.agents = f"127.0.0.1:{ports[1]}"
        command = [*ares("server"), "--listen", self.http, "--agents", self.agents, "--replica", name, *flags]
        super().__init__(name, command, log, {**environment(home), **env})

    @property
    def url(self) -> str:
        return f"http://{self.http}"

    def ready(self) -> bool:
        assert self.alive, f"{self.name} ended:\n{self.tail()}"
        return bool(self.checks())

    def checks(self) -> dict[str, str]:
        """What it says about itself; nothing while it is not ready."""
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=2) as answer:
                return json.load(answer)["checks"]
        except (OSError, http.client.HTTPException):
            # Not there, or killed in the middle of its answer.
            return {}

    def token(self) -> str:
        """The administrator's token, where the server left it."""
        file = self.home / "client.json"
        return json.loads(file.read_text()).get("token", "") if file.exists() else ""


@contextmanager
def asking_first() -> Iterator[None]:
    """Clients made meanwhile begin with the first of their addresses: a test says which replica it means."""
    with mock.patch.object(addresses, "choice", lambda urls: urls[0]):
        yield


class Platform:
    """Everything in one directory, on free ports, ended when the block is left."""

    def __init__(self, directory: Path, store: StoreKind = "sqlite", *, lend: bool = True, warm: bool = False) -> None:
        """`lend`: jobs read and write the tests' own files, as the tests' user; otherwise all is as users have it.
        `warm`: servers and agents begin with their modules imported; otherwise each as a program of its own."""
        self.directory = directory
        self.lent = lent(directory.parent) if lend else {}
        self._warm = warm
        self.servers: dict[int, Server] = {}
        self.agents: dict[str, Process] = {}
        self.etcd = EtcdServer(directory / "etcd") if store == "etcd" else None
        self._ports = [(pair[0], pair[1]) for pair in zip(*[iter(free_ports(2 * _REPLICAS_MAX))] * 2, strict=True)]
        # What replicas keep in one place.
        self.shared: tuple[str, ...] = ("logs", "outputs")
        self._clients: list[Client] = []
        self._token = ""

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        if self.etcd is not None:
            self.etcd.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for client in self._clients:
            client.close()
        for process in (*self.agents.values(), *self.servers.values()):
            process.kill()
        if self.etcd is not None:
            self.etcd.kill()
        # Shown by pytest when the test failed.
        for process in (*self.servers.values(), *self.agents.values()):
            say(f"---- {process.name} ({process.log})\n{process.tail()}")
        left = eventually_gone(self.job_processes)
        assert not left, f"processes of jobs outlived the platform: {left}"

    # ---- starting

    @property
    def store_url(self) -> str:
        return self.etcd.url if self.etcd is not None else f"sqlite://{self.directory / 'server-0' / 'store.db'}"

    def server(
        self,
        number: int = 0,
        *,
        wait: bool = True,
        store: str = "",
        env: Mapping[str, str] = MappingProxyType({}),
        settings: Sequence[str] = (),
    ) -> Server:
        """Starts replica `number`, for the first time (its store may be behind a proxy) or again."""
        server = self.servers.get(number)
        if server is None:
            home = self.directory / f"server-{number}"
            home.mkdir(mode=0o700)
            shared = [f"--set={kept}={self.directory / kept}" for kept in self.shared]
            flags = [*shared, f"--set=store.url={store or self.store_url}", *(f"--set={key}" for key in settings)]
            log = self.directory / f"server-{number}.log"
            server = Server(f"replica-{number}", home, log, flags, self._ports[number], env)
            server.warm = self._warm
            self.servers[number] = server
        server.start()
        if wait:
            eventually(server.ready, f"readiness of {server.name}")
            self._token = self._token or eventually(self.servers[0].token, "the administrator's token")
        return server

    def agent(
        self,
        name: str,
        *,
        gpus: int = 4,
        servers: Sequence[str] = (),
        flags: Sequence[str] = (),
        wait: bool = True,
        env: Mapping[str, str] = MappingProxyType({}),
    ) -> Process:
        """Starts an agent, for the first time (it joins by a token) or again. It may reach every replica."""
        agent = self.agents.get(name)
        if agent is None:
            agent = Process(
                f"agent {name}",
                [*self._agent_command(name, gpus, servers), *flags],
                self.directory / f"agent-{name}.log",
                {**environment(self.directory / "nodes"), "ARES_JOIN_TOKEN": self._join_token(name), **env},
            )
            agent.warm = self._warm
            self.agents[name] = agent
        before = self._incarnation(name) if wait else 0
        agent.start()
        if wait:
            eventually(lambda: self._incarnation(name) > before, f"registration of {name}")
        return agent

    def _agent_command(self, name: str, gpus: int, servers: Sequence[str]) -> list[str]:
        reached = servers or [f"127.0.0.1:{port}" for _, port in self._ports[: max(len(self.servers), 1)]]
        reach = [part for address in reached for part in ("--server", address)]
        settings = [f"--set={name}={value}" for name, value in self.lent.items()]
        return [*ares("agent"), "--name", name, "--mock-gpu", str(gpus), *reach, *settings]

    def _join_token(self, name: str) -> str:
        return self.client().create_join_token(node=name).token

    def _incarnation(self, name: str) -> int:
        return next((node.incarnation for node in self.client().nodes() if node.name == name and node.ready), 0)

    # ---- talking to it

    def client(
        self,
        number: int | None = None,
        *,
        token: str = "",
        retry: Retry = PATIENT,
        url: str = "",
        timeout_s: float = 10.0,
    ) -> Client:
        """A client of one replica, of the first that is alive, or of what stands at `url`."""
        chosen = next((n for n, s in self.servers.items() if s.alive), 0) if number is None else number
        with asking_first():
            client = Client(url or self.servers[chosen].url, token or self._token, retry=retry, timeout_s=timeout_s)
        self._clients.append(client)
        return client

    @property
    def admin_token(self) -> str:
        return self._token

    def roaming_client(self, first: int) -> Client:
        """A client that knows every replica, and asks the given one as long as it answers."""
        numbers = (first, *(number for number in self.servers if number != first))
        urls = ",".join(self.servers[number].url for number in numbers)
        with asking_first():
            client = Client(urls, self._token, retry=PATIENT, timeout_s=10.0)
        self._clients.append(client)
        return client

    def metrics(self, number: int = 0) -> list[str]:
        request = urllib.request.Request(
            f"{self.servers[number].url}/metrics", headers={"authorization": f"Bearer {self._token}"}
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.read().decode().splitlines()

    def leader(self) -> int:
        """Which replica leads, by its own word."""

        def look() -> list[int]:
            return [n for n, s in self.servers.items() if s.alive and s.checks().get("leading") == "yes"]

        return eventually(look, "the election of a leader")[0]

    def cli(
        self,
        *arguments: str,
        text: str | None = None,
        home: Path | None = None,
        at: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> "Run":
        """The command line as a person uses it; with `at` in that directory, whose files go with jobs."""
        return run_cli(*arguments, home=home or self.servers[0].home, text=text, at=at, env=env)

    def lease_renewed_at(self, node: str) -> float:
        """When the store last recorded a renewal of a node, by the server's wall clock."""
        url = self.store_url
        if self.etcd is None:
            copy = self.directory / "copy.db"
            copy.unlink(missing_ok=True)
            assert run_cli("store", "backup", str(copy), home=self.servers[0].home).code == 0
            url = f"sqlite://{copy}"
        return read_lease(url, node).renewed_at

    # ---- what is left on the machine

    def job_processes(self) -> dict[int, str]:
        """Processes of jobs of this platform, by their environment: pid -> job and fence."""
        root, found = str(self.directory), dict[int, str]()
        for folder in Path("/proc").iterdir():
            if not folder.name.isdecimal():
                continue
            try:
                raw = (folder / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            env = {name: value for name, _, value in (line.decode(errors="replace").partition("=") for line in raw)}
            if "ARES_JOB_ID" in env and env.get("ARES_WORKDIR", "").startswith(root):
                found[int(folder.name)] = f"{env['ARES_JOB_ID']} {env.get('ARES_FENCE', '')}"
        return found


def read_lease(url: str, node: str) -> NodeLease:
    async def read() -> NodeLease:
        store = await open_store(url, SystemClock())
        try:
            kv = await store.get(keys.lease(node))
        finally:
            await store.close()
        assert kv is not None, f"{node} has no lease"
        return msgspec.json.decode(kv.value, type=NodeLease)

    return asyncio.run(read())


class Run:
    """A finished command."""

    def __init__(self, done: "subprocess.CompletedProcess[str]") -> None:
        self.code = done.returncode
        self.out = done.stdout
        self.err = done.stderr

    def json(self) -> object:
        return json.loads(self.out)

    def __repr__(self) -> str:
        return f"exit code {self.code}\n{self.out}\n{self.err}"


def lent(folder: Path) -> dict[str, str]:
    """Settings of an agent whose jobs read and write a folder of the tests, as the tests' user."""
    return {"node.sandbox.writable": str(folder), "node.sandbox.uids": "none"}


def ares(command: str) -> list[str]:
    return [sys.executable, "-m", "ares", command]


def run_cli(
    *arguments: str,
    home: Path,
    text: str | None = None,
    timeout_s: float = READY_S,
    at: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Run:
    ships = {} if at is None else {"ARES_SHIP": "", "XDG_CACHE_HOME": str(home / "cache")}
    return Run(run_command(arguments, {**environment(home), **ships, **(env or {})}, text or "", timeout_s, at))


def environment(home: Path) -> dict[str, str]:
    """Nothing of the developer's own Ares or Python leaks into a test."""
    own = ("ARES_", "VIRTUAL_ENV", "CONDA_")
    plain = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return {**plain, "ARES_HOME": str(home), "ARES_SHIP": "never"}


def eventually_gone(look: Callable[[], Mapping[int, str]], timeout_s: float = 10.0) -> Mapping[int, str]:
    """What is still there when the time is up; normally nothing."""
    deadline = time.monotonic() + timeout_s
    while (left := look()) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    return left
