"""A platform of processes whose every link goes through a fault proxy, work on it, and people who wait for it."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ares.edge.client.errors import AresError
from ares.edge.client.retry import Retry
from ares.edge.client.sync import Client
from ares.sim.chaos.proxy import Proxy
from tests.chaos.load import Load, marked
from tests.chaos.test_kill import DRAIN_S, drain
from tests.history import audit_commits, judge, read_store
from tests.platform import PATIENT, Platform, eventually, say
from tests.servers import EtcdCluster

NODES = ("node-a", "node-b")
# Someone who asks once, and wants an answer soon.
IMPATIENT = Retry(attempts=1)
IMPATIENT_S = 3.0
# Far more than any call may take; a call that hangs takes longer than this.
HANGS_S = 90.0


class Net:
    """`links` by name: "client 0" to replica 0, "store 0.0" from it to an etcd member, "node-a 0" from an agent to it,
    and so on; with three members also "peer 0" to "peer 2", through which the others reach each."""

    def __init__(self, platform: Platform, links: dict[str, Proxy], marks: Path, seed: int, replicas: int) -> None:
        self.platform = platform
        self.links = links
        self._urls = [f"http://{links[f'client {n}'].address}" for n in range(replicas)]
        self._marks = marks
        self._load = Load([self.client(n % replicas) for n in range(3)], marks, seed, pause_s=0.6)
        self._stop = threading.Event()
        self._hurried = threading.Thread(target=self._ask_in_a_hurry, name="a call in a hurry", daemon=True)
        self._waiting = threading.Thread(target=self._wait_for_jobs, name="a wait for a job", daemon=True)
        self._failures: list[BaseException] = []
        self._asked: Counter[str] = Counter()
        self._longest_s = 0.0
        self.done: list[str] = []

    def client(self, number: int = 0, *, retry: Retry = PATIENT, timeout_s: float = 10.0) -> Client:
        return self.platform.client(url=self._urls[number], retry=retry, timeout_s=timeout_s)

    def begin(self) -> None:
        self._load.start()
        self._hurried.start()
        self._waiting.start()

    def strike(self, what: str, seconds: float, faults: Sequence[Callable[[], None]]) -> None:
        """Does it, waits, heals all, and sees the platform work again."""
        self.done.append(f"{what} {seconds:.1f} s")
        for fault in faults:
            fault()
        self.rest(seconds)
        for proxy in self.links.values():
            proxy.heal()
        self.works_again(what)

    @staticmethod
    def rest(seconds: float) -> None:
        """Not a synchronisation: how long a fault lasts."""
        time.sleep(seconds)

    def works_again(self, after: str) -> None:
        client = self.client()
        eventually(lambda: all(node.ready for node in client.nodes()), f"all nodes ready after {after}")
        for number in range(len(self._urls)):
            client = self.client(number)
            detail = client.wait(client.submit(marked(self._marks)), timeout=HANGS_S)
            assert detail.state.phase == "SUCCEEDED", f"after {after}: {detail.state}"

    def judge(self) -> Counter[str]:
        """Everybody has their answer, everything has ended, and the history keeps every promise."""
        self._stop.set()
        self._load.stop(DRAIN_S)
        for thread in (self._hurried, self._waiting):
            thread.join(HANGS_S)
            assert not thread.is_alive(), f"a call hung: {thread.name}; {self.done}"
        assert not self._failures, self._failures
        acknowledged = self._load.acknowledged
        drain(self.platform.client(), acknowledged)
        assert not self.platform.job_processes(), "a job's process is left"
        for process in (*self.platform.agents.values(), *self.platform.servers.values()):
            process.kill()
        found = read_store(self.platform.store_url)
        seen = judge(acknowledged, found, self._marks)
        seen["commits"] = audit_commits(self.platform.store_url)
        seen["asked in a hurry"] = self._asked.total()
        say(f"{self.done}\nhistory: {dict(seen)}; {dict(self._asked)}, the longest took {self._longest_s:.1f} s")
        assert self._longest_s < HANGS_S, f"a call with a limit of {IMPATIENT_S:g} s took {self._longest_s:.0f} s"
        return seen

    def _ask_in_a_hurry(self) -> None:
        clients = [self.client(n, retry=IMPATIENT, timeout_s=IMPATIENT_S) for n in range(len(self._urls))]
        while not self._stop.wait(0.1):
            for client in clients:
                began = time.monotonic()
                try:
                    client.nodes()
                    self._asked["answered"] += 1
                except AresError as error:
                    self._asked[type(error).__name__] += 1
                except BaseException as error:
                    self._failures.append(error)
                    return
                self._longest_s = max(self._longest_s, time.monotonic() - began)

    def _wait_for_jobs(self) -> None:
        """Waits without a limit, as a person does: a stream that died unnoticed would never end."""
        client = self.client()
        try:
            while not self._stop.is_set():
                spec = marked(self._marks, beats=10)
                client.wait(client.submit(spec))
        except BaseException as error:
            self._failures.append(error)


@contextmanager
def net(directory: Path, seed: int, *, replicas: int = 1, members: int = 1) -> Iterator[Net]:
    """Ready, with work on it."""
    links: dict[str, Proxy] = {}
    with ExitStack() as stack:

        def put(name: str, target: str) -> str:
            links[name] = stack.enter_context(Proxy(target, seed + len(links)))
            return links[name].address

        platform = Platform(directory / "platform", "etcd", warm=True)
        if members > 1:
            between = iter(range(members))
            platform.etcd = EtcdCluster(
                directory / "etcd", members, lambda target: int(put(f"peer {next(between)}", target).rpartition(":")[2])
            )
        stack.enter_context(platform)
        assert platform.etcd is not None
        for number in range(replicas):
            members_at = platform.etcd.url.removeprefix("etcd://").split(",")
            endpoints = [put(f"store {number}.{member}", at) for member, at in enumerate(members_at)]
            server = platform.server(number, store=f"etcd://{','.join(endpoints)}")
            put(f"client {number}", server.http)
        for node in NODES:
            reach = [put(f"{node} {number}", platform.servers[number].agents) for number in range(replicas)]
            platform.agent(node, servers=reach)
        one = Net(platform, links, directory / "marks", seed, replicas)
        one.begin()
        yield one


def durations(rng: random.Random) -> tuple[float, float]:
    """One that every timer outlasts, and one that outlasts the right to run and the lease."""
    return rng.uniform(1.0, 3.0), rng.uniform(9.5, 12.0)
