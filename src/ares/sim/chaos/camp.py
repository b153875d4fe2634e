"""Everything a chaos run makes on an installation and removes again: a tenant with its token, machines, jobs."""

import signal
import socket
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import urlsplit

from ares.edge.client.errors import AresError, Conflict
from ares.edge.client.retry import Retry
from ares.edge.client.sync import Client
from ares.model.state import TERMINAL, Phase
from ares.sim.chaos.agents import OwnAgent, job_processes, signal_all
from ares.sim.chaos.canary import LABEL
from ares.sim.chaos.plan import ChaosOptions
from ares.sim.chaos.proxy import Proxy

AGENTS_PORT = 8643
_PROBE_S = 5.0
_READY_S = 90.0
_LOOK_S = 0.25
# Longer than any lease: a machine can be removed once its own is over.
_REMOVE_S = 90.0
_HOUR_S = 3600.0
_PATIENT = Retry(attempts=8, base_s=0.1, cap_s=1.0)
OPEN: tuple[Phase, ...] = ("WAITING", "PENDING", "STAGING", "RUNNING", "RETRYING", "PREEMPTED")
assert not TERMINAL & set(OPEN)


class Camp:
    """`pitch` makes it, `strike` removes it, however far it came. Both in the main thread."""

    def __init__(self, options: ChaosOptions, run: str, say: Callable[[str], None]) -> None:
        self.options = options
        self.run = run
        self.tenant = f"ares-chaos-{options.seed}"
        self.names = [f"{self.tenant}-{number + 1}" for number in range(options.agents)]
        self.agents: list[OwnAgent] = []
        self.front: Proxy | None = None
        # All machines of the installation, ours among them.
        self.nodes = 0
        self._say = say
        self._token = ""
        self._admin = Client(options.url or None, retry=_PATIENT)
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._proxies = ExitStack()
        self._clients: list[Client] = []

    @property
    def folder(self) -> Path:
        assert self._folder is not None
        return Path(self._folder.name)

    @property
    def marks(self) -> Path:
        return self.folder / "marks"

    # ---- setting up

    def check(self) -> str:
        """Whether it can be made; the address for agents."""
        me = self._admin.whoami()
        if me.role != "admin":
            raise CannotRun(
                f"the token is a {me.role}'s: making machines and tokens of its own takes an administrator's",
                "set ARES_TOKEN to a token that `ares token create --role admin` made",
            )
        taken = sorted({node.name for node in self._admin.nodes()} & set(self.names))
        if taken:
            raise CannotRun(
                f"machine {taken[0]} is there already: a run with seed {self.options.seed} is under way, or was killed",
                f"use another --seed, or `ares node rm {taken[0]}`",
            )
        return self._reach_agents_port()

    def pitch(self) -> None:
        address = self.check()
        self._folder = tempfile.TemporaryDirectory(prefix="ares-chaos-")
        self.marks.mkdir()
        # Valid for the run and a while longer: it expires if the run is killed before it revokes the token.
        ttl_s = self.options.duration_s + _HOUR_S
        with suppress(Conflict):
            self._admin.create_tenant(self.tenant, note="made by ares chaos")
        self._token = self._admin.create_token(
            role="submitter", name="ares chaos", tenant=self.tenant, ttl_s=ttl_s
        ).token
        url = urlsplit(self._admin.endpoint.url)
        if url.scheme == "http":
            self.front = self._proxies.enter_context(Proxy(f"{url.hostname}:{url.port or 80}", self.options.seed))
        for number, name in enumerate(self.names):
            seed = self.options.seed + number
            agent = OwnAgent(name, self.run, self.folder, self.marks, address, self.options.tls_ca, seed)
            self._proxies.enter_context(agent.proxy)
            self.agents.append(agent)
            agent.start(self._admin.create_join_token(node=name).token)
        self._await_agents()

    def client(self, number: int) -> Client:
        """For one person. Every other one goes through a proxy that can drop connections."""
        url = f"http://{self.front.address}" if self.front is not None and number % 2 else self.options.url or None
        client = Client(url or self._admin.endpoint.url, self._token, retry=Retry(attempts=2, base_s=0.05, cap_s=0.2))
        self._clients.append(client)
        return client

    def observer(self) -> Client:
        """Looks at the tenant's jobs, patiently."""
        client = Client(self._admin.endpoint.url, self._token, retry=_PATIENT)
        self._clients.append(client)
        return client

    def _reach_agents_port(self) -> str:
        host = urlsplit(self._admin.endpoint.url).hostname or "127.0.0.1"
        address = self.options.agents_at or f"{host}:{AGENTS_PORT}"
        name, _, port = address.rpartition(":")
        try:
            socket.create_connection((name.strip("[]"), int(port)), _PROBE_S).close()
        except (OSError, ValueError) as error:
            raise CannotRun(
                f"agents cannot reach the server at {address}: {error}",
                "name the address by --agents-at HOST:PORT, as `ares agent --server` has it",
            ) from error
        return address

    def _await_agents(self) -> None:
        deadline = time.monotonic() + _READY_S
        while True:
            nodes = self._admin.nodes()
            ready = {node.name for node in nodes if node.ready}
            if ready >= set(self.names):
                self.nodes = len(nodes)
                return
            ended = next((agent for agent in self.agents if not agent.alive), None)
            if ended is not None or time.monotonic() > deadline:
                late = ended or next(agent for agent in self.agents if agent.name not in ready)
                raise CannotRun(
                    f"agent {late.name} did not register:\n{late.tail()}",
                    "check --agents-at; and --tls-ca if the server has a certificate, which must be good for 127.0.0.1",
                )
            time.sleep(_LOOK_S)

    # ---- removing

    def strike(self) -> list[str]:
        """Returns what could not be taken away, in words. Safe to call at any time, and again."""
        left: list[str] = []
        for step in (self._cancel, self._end_agents, self._remove_nodes, self._revoke):
            try:
                step()
            except Exception as error:
                # Whatever it is, the other steps are still to be made.
                left.append(f"{step.__name__.strip('_').replace('_', ' ')}: {error}")
        self._proxies.close()
        for client in (*self._clients, self._admin):
            client.close()
        if self._folder is not None:
            with suppress(OSError):
                self._folder.cleanup()
        return left

    def _cancel(self) -> None:
        if not self._token:
            return
        client = self.observer()
        for state in list(client.list(phase=OPEN, label={LABEL: self.run})):
            # It may have ended by itself in between.
            with suppress(AresError):
                client.cancel(state.id, "ares chaos is over")

    def _end_agents(self) -> None:
        for agent in self.agents:
            agent.proxy.heal()
            agent.wake()
        for agent in self.agents:
            agent.end()
        if self._folder is not None:
            signal_all(job_processes(self.folder), signal.SIGKILL)

    def _remove_nodes(self) -> None:
        deadline = time.monotonic() + _REMOVE_S
        mine = {node.name for node in self._admin.nodes()} & set(self.names) if self.agents else set[str]()
        if mine:
            self._say("waiting until the leases of its machines are over, to remove them")
        for name in sorted(mine):
            while True:
                try:
                    self._admin.remove_node(name)
                    break
                except AresError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(_LOOK_S)

    def _revoke(self) -> None:
        if not self._token:
            return
        for token in self._admin.tokens():
            if not token.revoked and (token.tenant == self.tenant or token.node in self.names):
                self._admin.revoke_token(token.id)


class CannotRun(Exception):
    """Nothing was broken yet. `fix` says what to do."""

    exit_code = 2

    def __init__(self, what: str, fix: str = "") -> None:
        super().__init__(what)
        self.fix = fix
