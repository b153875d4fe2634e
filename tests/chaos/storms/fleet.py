"""A thousand agents in one process: the real conversation over real gRPC, each on a connection of its own.

Run as a program it reads node names and credentials from a file and says once a second what it has counted. Jobs end
as soon as they are started; those that are to `hold` stay until a line comes in.
"""

import asyncio
import json
import logging
import secrets
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import structlog

from ares.adapters.clocks import SystemClock, SystemRng
from ares.adapters.links import grpc as links
from ares.adapters.store.open import open_store
from ares.agent.entry.entrance import Entrance
from ares.agent.link.mailbox import Mailbox
from ares.agent.link.run_right import RunRight
from ares.agent.link.session import Conversation
from ares.agent.link.workload import Workload
from ares.agent.settings import AgentSettings
from ares.agent.transfer.rates import LeasedRates
from ares.agent.transfer.transfers import Transfers
from ares.core import keys
from ares.core.access import tokens
from ares.model.access import TokenRecord
from ares.model.link import AgentFrame, AttemptRef, Exited, Fenced, Resize, ServerFrame, Start, Started, Stop
from ares.model.node import NodeInfo
from ares.model.state import ExitInfo
from ares.ports.store import Put
from tests.platform import Platform, Process, environment, eventually
from tests.servers import die_with_parent

HOLD = "hold"
_CREDENTIALS_PER_TXN = 50
counts: Counter[str] = Counter()
released = asyncio.Event()


# ---- one node


class Puppet(Workload):
    """In the place of the attempts of a machine: says what an agent says, and starts nothing."""

    def __init__(self, mailbox: Mailbox, clock: SystemClock, run_right: RunRight) -> None:
        self.incarnation = 0
        self._mailbox, self._clock, self._run_right = mailbox, clock, run_right
        self._held: dict[AttemptRef, Start] = {}
        self._seen: set[AttemptRef] = set()

    def begin(self, start: Start) -> None:
        if start.ref in self._seen:
            return
        self._seen.add(start.ref)
        counts["starts"] += 1
        number, now = self._mailbox.outbox.number(), self._clock.wall()
        self._mailbox.report(Started(number=number, ref=start.ref, rank=start.placement.rank, pid=1, at=now))
        if start.spec.command[0] == HOLD and not released.is_set():
            self._held[start.ref] = start
        else:
            self._exit(start)

    def _exit(self, start: Start) -> None:
        number = self._mailbox.outbox.number()
        self._mailbox.report(
            Exited(
                number=number, ref=start.ref, rank=start.placement.rank, exit=ExitInfo(code=0), at=self._clock.wall()
            )
        )

    def release(self) -> None:
        for start in self._held.values():
            self._exit(start)
        self._held.clear()

    def refs(self) -> tuple[AttemptRef, ...]:
        self.fence_expired()
        return tuple(self._held)

    def keep_only(self, refs: Iterable[AttemptRef]) -> None:
        kept = set(refs)
        for ref in [ref for ref in self._held if ref not in kept]:
            self.stop(Stop(ref=ref, grace_s=0.0, reason="not kept"))

    def stop(self, command: Stop) -> None:
        start = self._held.pop(command.ref, None)
        if start is not None:
            counts["stopped"] += 1
            number = self._mailbox.outbox.number()
            self._mailbox.report(
                Fenced(number=number, ref=command.ref, rank=start.placement.rank, reason=command.reason)
            )

    def fence_expired(self) -> None:
        now = self._clock.monotonic()
        for ref, start in list(self._held.items()):
            if now >= self._run_right.deadline(start.spec.lease_s):
                counts["fenced"] += 1
                self.stop(Stop(ref=ref, grace_s=0.0, reason="its right to run ran out"))

    def stop_all(self, grace_s: float, reason: str) -> None:
        for ref in list(self._held):
            self.stop(Stop(ref=ref, grace_s=grace_s, reason=reason))

    def processes_left(self) -> int:
        return 0

    def renewed(self) -> None:
        counts["renewed"] += 1

    def take_limit(self, output_bytes_max: int) -> None: ...
    def resize(self, command: Resize) -> None: ...
    def drop_held(self) -> None: ...
    def settled(self, reports: object) -> None: ...
    def output_kept(self, message: object) -> None: ...
    def log_kept(self, ack: object) -> None: ...


class CountedLink(links.GrpcLink):
    """Counts what is sent to the control plane and how often it is called."""

    async def connect(self, credential: str) -> "CountedSession":
        counts["calls"] += 1
        session = await super().connect(credential)
        session.__class__ = CountedSession
        assert isinstance(session, CountedSession)
        return session


class CountedSession(links.GrpcSession):
    greeted = False

    async def send(self, frame: AgentFrame) -> None:
        if not self.greeted:
            counts["hellos"] += 1
        await super().send(frame)

    async def frames(self) -> Any:
        async for frame in super().frames():
            if not self.greeted:
                self.greeted = True
                counts["welcomes"] += 1
                counts["connected"] += 1
            assert isinstance(frame, ServerFrame)
            yield frame

    async def close(self) -> None:
        if self.greeted:
            self.greeted = False
            counts["connected"] -= 1
        await super().close()


async def live(name: str, credential: str, servers: list[str], puppets: list[Puppet]) -> None:
    clock, mailbox = SystemClock(), Mailbox()
    run_right = RunRight(clock)
    puppet = Puppet(mailbox, clock, run_right)
    puppets.append(puppet)
    info = NodeInfo(name=name, cpu_milli=1000, memory_mib=1024)
    entrance = Entrance(info, puppet, AgentSettings(), clock)  # pyright: ignore[reportArgumentType]
    talk = Conversation(
        info=info, entrance=entrance, link=CountedLink(servers), credential=credential,
        rates=LeasedRates(Transfers(clock)), boot=1, clock=clock, rng=SystemRng(), run_right=run_right, mailbox=mailbox,
        attempts=puppet,
    )  # fmt: skip
    await talk.run()


async def main(credentials: dict[str, str], servers: list[str]) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    puppets: list[Puppet] = []
    nodes = [asyncio.create_task(live(*pair, servers, puppets)) for pair in credentials.items()]
    told = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), told.set()), daemon=True).start()
    while not any(node.done() for node in nodes):
        await asyncio.sleep(0.5)
        if told.is_set() and not released.is_set():
            released.set()
            for puppet in puppets:
                puppet.release()
        sys.stdout.write(json.dumps({**counts, "held": sum(len(p.refs()) for p in puppets)}) + "\n")
        sys.stdout.flush()
    await asyncio.gather(*nodes)


# ---- for tests


class Fleet(Process):
    """The process, seen from a test."""

    def __init__(self, platform: Platform, size: int, servers: list[str]) -> None:
        self._file = platform.directory / "fleet.json"
        self._file.write_text(json.dumps(asyncio.run(_credentials(platform.store_url, size))))
        command = [sys.executable, "-m", "tests.chaos.storms.fleet", str(self._file), *servers]
        env = {**environment(platform.directory), "GRPC_VERBOSITY": "NONE"}
        super().__init__("the fleet", command, platform.directory / "fleet.log", env)
        self.size = size

    def start(self) -> "Fleet":
        with self.log.open("ab") as log, Path(f"{self.log}.err").open("ab") as errors:
            self._process = subprocess.Popen(
                self._command, env=self._env, stdin=subprocess.PIPE, stdout=log, stderr=errors,
                preexec_fn=die_with_parent,  # noqa: PLW1509
            )  # fmt: skip
        return self

    def kill(self) -> None:
        super().kill()
        # Also of a fleet that was never released: its pipe would be found open in the middle of another test.
        if isinstance(self._process, subprocess.Popen) and self._process.stdin is not None:
            self._process.stdin.close()

    def release(self) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.close()

    def counts(self) -> Counter[str]:
        assert self.alive, f"the fleet ended:\n{Path(f'{self.log}.err').read_text()[-3000:]}"
        whole = [line for line in self.log.read_bytes().split(b"\n")[:-1] if line.startswith(b"{")]
        return Counter(json.loads(whole[-1])) if whole else Counter()

    def gather(self, timeout_s: float) -> Counter[str]:
        """Until every agent is connected."""
        return eventually(
            lambda: found if (found := self.counts())["connected"] == self.size else None,
            f"the connection of {self.size} agents", timeout_s,
        )  # fmt: skip


async def _credentials(url: str, size: int) -> dict[str, str]:
    """Written straight into the store: a thousand nodes that joined long ago."""
    given, puts = dict[str, str](), list[Put]()
    for number in range(size):
        name, secret = f"node-{number:04}", secrets.token_urlsafe(32)
        record = TokenRecord(
            id=f"fleet{number:05}", sha256=tokens.digest(secret), tenant="system", role="node", name=name,
            created_at=1.0, expires_at=None, node=name,
        )  # fmt: skip
        given[name] = tokens.format(record.id, secret)
        puts.append(Put(keys.token(record.id), msgspec.json.encode(record)))
    store = await open_store(url, SystemClock())
    try:
        for first in range(0, size, _CREDENTIALS_PER_TXN):
            await store.txn([], puts[first : first + _CREDENTIALS_PER_TXN])
    finally:
        await store.close()
    return given


if __name__ == "__main__":
    asyncio.run(main(json.loads(Path(sys.argv[1]).read_text()), sys.argv[2:]))
