"""A server and an agent of which one runs under strace, in one directory that can be copied and used again."""

import os
import shutil
import signal
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from ares.edge.client.errors import AresError, Conflict, ServerError
from ares.edge.client.retry import Retry
from ares.edge.client.sync import Client
from ares.model.state import TERMINAL
from tests.chaos.disk.inject import Call, Injection, calls_of, traced_command
from tests.chaos.load import marked
from tests.history import Acknowledged, judge, read_store
from tests.platform import Process, Server, ares, environment, eventually, lent
from tests.ports import free_ports

NODE = "n"
# strace slows a process down, and the machine has other work.
PATIENCE_S = 120.0
STUCK_S = 45.0
ONCE = Retry(attempts=1)
_TRIES = 6
_PAUSE_S = 0.2


@dataclass
class Place:
    """Everything of one case."""

    directory: Path
    server: Server
    told: list[Acknowledged] = field(default_factory=list[Acknowledged])
    refusals: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.agent = self.new_agent(NODE, self.directory / "nodes")

    def new_agent(self, name: str, home: Path, *flags: str) -> Process:
        # Jobs leave marks by which the run is judged.
        lends = [f"--set={key}={value}" for key, value in lent(self.marks).items()]
        command = [*ares("agent"), "--name", name, "--mock-gpu", "4", "--server", self.server.agents, *lends, *flags]
        return Process("agent", command, self.directory / "agent.log", environment(home))

    @property
    def marks(self) -> Path:
        return self.directory / "marks"

    @property
    def store_url(self) -> str:
        return f"sqlite://{self.server.home / 'store.db'}"

    @property
    def trace_log(self) -> Path:
        return self.directory.with_name(f"{self.directory.name}.strace")

    # ---- processes

    def start_traced(self, process: Process, injection: Injection | None) -> None:
        command = list(process._command)  # pyright: ignore[reportPrivateUsage]
        # Whatever ends strace ends what it traces.
        tied = ["setpriv", "--pdeathsig", "KILL", *command]
        process._command = traced_command(self.trace_log, self.directory, tied, injection)  # pyright: ignore[reportPrivateUsage]
        try:
            process.start()
        finally:
            process._command = command  # pyright: ignore[reportPrivateUsage]

    def calls(self) -> list[Call]:
        return calls_of(self.trace_log.read_text(errors="replace"), self.directory)

    def is_ready(self, process: Server) -> bool:
        """Or dead, which is an answer too."""
        return not process.alive or bool(process.checks())

    def start_again(self) -> None:
        """Without faults: whatever happened before, it comes up by itself."""
        if self.server.alive:
            self.server.kill()
        self.server.start()
        eventually(self.server.ready, "readiness after the fault", PATIENCE_S)

    def terminate_traced(self, process: Process) -> None:
        """Told to stop as by an operator; strace ends with it."""
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        for pid in children.read_text().split() if process.alive else ():
            signal_quietly(int(pid), signal.SIGTERM)
        eventually(lambda: not process.alive, "the end of a process that was told to stop", PATIENCE_S)

    # ---- people

    def client(self) -> Client:
        return Client(self.server.url, self.server.token(), retry=ONCE, timeout_s=30.0)

    def insist(self, what: str, ask: Callable[[Client], object]) -> object:
        """Until it works: again on the same server, then on one without faults. Every "no" is kept."""
        deadline = time.monotonic() + PATIENCE_S
        tries = 0
        while True:
            tries += 1
            try:
                with self.client() as client:
                    return ask(client)
            except Conflict:
                raise
            except AresError as error:
                self.refusals.append(f"{what}: {error}")
                if isinstance(error, ServerError) and error.status not in (503, 507):
                    raise AssertionError(f"{what}: {error!r}") from error
                if time.monotonic() > deadline:
                    raise AssertionError(f"{what}: {self.refusals[-3:]}") from error
            if not self.server.alive or tries > _TRIES:
                self.start_again()
                tries = 0
            else:
                time.sleep(_PAUSE_S)

    def submit(self, request: str, *, beats: int = 0) -> str:
        spec = marked(self.marks, beats=beats, later_beats=0)
        job = self.insist(request, lambda client: client.submit(spec, request_id=request).id)
        assert isinstance(job, str)
        self.told.append(Acknowledged(request, job))
        return job

    def cancel(self, request: str) -> None:
        index = next(n for n, told in enumerate(self.told) if told.request == request)
        job = self.told[index].job
        try:
            self.insist("cancel", lambda client: client.cancel(job))
            cancelled = True
        except Conflict:
            cancelled = self.phase(job) == "CANCELLED"
        self.told[index] = Acknowledged(request, job, cancelled=cancelled)

    def phase(self, job: str) -> str:
        return str(self.insist("get", lambda client: client.get(job).state.phase))

    def drain(self) -> None:
        """Until everything has ended and nothing is held. An agent that ended, or gets nowhere, is started again."""
        began = time.monotonic()

        def ended(client: Client) -> bool:
            return all(state.phase in TERMINAL and not state.lingering for state in client.list(page=1000))

        def look() -> bool:
            nonlocal began
            if not self.agent.alive or time.monotonic() - began > STUCK_S:
                self.agent.kill()
                self.agent.start()
                began = time.monotonic()
            return bool(self.insist("list", ended))

        eventually(look, "the end of every job", 2 * PATIENCE_S)

    def end(self) -> None:
        self.agent.kill()
        self.server.kill()

    def judge(self) -> None:
        judge(self.told, read_store(self.store_url), self.marks)


def signal_quietly(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


@contextmanager
def placed(directory: Path, prepared: Path | None = None) -> Generator[Place]:
    """In a new directory, or in a copy of one that was used before. Its processes end with the block."""
    if prepared is None:
        for name in ("server", "nodes", "marks"):
            (directory / name).mkdir(parents=True, mode=0o700)
    else:
        shutil.copytree(prepared, directory)
    ports = free_ports(2)
    flags = [f"--set=logs={directory / 'logs'}", f"--set=store.url=sqlite://{directory / 'server' / 'store.db'}"]
    server = Server("replica", directory / "server", directory / "server.log", flags, (ports[0], ports[1]))
    place = Place(directory, server)
    try:
        yield place
    finally:
        place.end()


def prepare(directory: Path) -> Path:
    """A platform that was started, joined by a node, and stopped."""
    with placed(directory) as place:
        place.server.start()
        eventually(place.server.ready, "readiness", PATIENCE_S)
        eventually(place.server.token, "the administrator's token", PATIENCE_S)
        with place.client() as client:
            token = client.create_join_token(node=NODE).token
            place.agent.change(ARES_JOIN_TOKEN=token)
            place.agent.start()
            eventually(lambda: [node for node in client.nodes() if node.ready], "the node", PATIENCE_S)
        place.agent.terminate()
        place.server.terminate()
    for name in ("server.log", "agent.log"):
        (directory / name).unlink()
    return directory
