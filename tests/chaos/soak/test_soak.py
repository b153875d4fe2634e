"""A platform for hours with a fault every ten seconds: every job that was asked for has exactly one committed run.

`make soak HOURS=2`; in `make chaos` a few minutes. ARES_CHAOS_SEED repeats the faults."""

import heapq
import os
import random
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ares.check.invariants.history import Fault as FaultEvent
from ares.check.invariants.judge import check
from ares.model.timing import Timing
from ares.sim.chaos.proxy import Proxy
from tests.chaos.clocks.wall import Wall
from tests.chaos.load import Load
from tests.chaos.soak.faults import Fault, Faults
from tests.chaos.soak.watch import Watch
from tests.chaos.test_kill import drain
from tests.chaos.zombies.recorder import Recorder, now
from tests.history import Contents, judge, read_store
from tests.platform import Platform, say
from tests.servers import EtcdCluster

HOURS = float(os.environ.get("ARES_SOAK_HOURS") or 0.03)
FAULT_EVERY_S = 10.0
LOOK_EVERY_S = 60.0
JUDGE_EVERY_S = 600.0
JOBS_PER_MINUTE = 50
CLIENTS = 3
AGENTS = ("node-a", "node-b", "node-c", "node-d")
# Never killed, only frozen and cut off: what they hold at the end is what an hour of faults leaves behind.
SPARED = frozenset({"replica-2", "agent node-d"})
SMALL_DISK = "16m"


class Clustered(Platform):
    """On three members of etcd."""

    def __init__(self, directory: Path, cluster: EtcdCluster) -> None:
        super().__init__(directory)
        self._cluster = cluster

    @property
    def store_url(self) -> str:
        return self._cluster.url


@dataclass
class Soak:
    """The run of one soak, and all that was counted."""

    platform: Platform
    cluster: EtcdCluster
    faults: Faults
    load: Load
    recorder: Recorder
    marks: Path
    done: Counter[str] = field(default_factory=Counter[str])
    # Processes that ended by themselves, and were started again as a supervisor would.
    ended: Counter[str] = field(default_factory=Counter[str])
    watch: Watch = field(default_factory=Watch)
    judged: int = 0
    _under: list[tuple[float, int, Fault]] = field(default_factory=list[tuple[float, int, Fault]])

    def run(self, seconds: float) -> None:
        begin = time.monotonic()
        due = {"fault": begin + FAULT_EVERY_S, "look": begin, "judge": begin + JUDGE_EVERY_S}
        every = {
            "fault": (FAULT_EVERY_S, self._strike),
            "look": (LOOK_EVERY_S, self._look),
            "judge": (JUDGE_EVERY_S, self.judge),
        }
        while time.monotonic() < begin + seconds:
            self._heal(time.monotonic())
            self._supervise()
            for name, at in due.items():
                if time.monotonic() >= at:
                    due[name] = at + every[name][0]
                    every[name][1]()
            time.sleep(0.1)
        self._heal(float("inf"))
        self._supervise()

    # ---- faults

    def _strike(self) -> None:
        fault = self.faults.strike(frozenset(fault.part for _, _, fault in self._under))
        if fault is None:
            return
        self.done[fault.kind] += 1
        self.recorder.note(FaultEvent(t=now(), kind=fault.kind, who=fault.part, what=f"for {fault.seconds:.1f} s"))
        heapq.heappush(self._under, (time.monotonic() + fault.seconds, self.done.total(), fault))

    def _heal(self, until: float) -> None:
        while self._under and self._under[0][0] <= until:
            heapq.heappop(self._under)[2].heal()

    def _supervise(self) -> None:
        killed = {fault.part for _, _, fault in self._under if fault.kind == "kill"}
        for process in (*self.platform.servers.values(), *self.platform.agents.values()):
            if not process.alive and process.name not in killed:
                self.ended[process.name] += 1
                process.start()

    # ---- looking

    def _look(self) -> None:
        processes = [*self.platform.servers.values(), *self.platform.agents.values()]
        self.watch.look((one.name, one.pid) for one in processes if one.alive)

    def judge(self) -> None:
        """What is recorded so far; whoever has not ended yet is judged another time."""
        self.recorder.catch_up(120.0)
        history = self.recorder.history(self.marks, Timing(), slack_s=5.0)[:-2]
        found = check(history)
        self.judged += 1
        say(
            f"judged {len(history)} events, {len(self.load.acknowledged)} submissions: {found.violations or 'all kept'}"
        )
        assert not found.violations, found.violations


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path | None]:
    """Where the servers keep output, if this user may mount one."""
    folder = tmp_path / "platform" / "logs"
    folder.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK},mode=700", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        say("without disk-full: it needs to mount a tmpfs, as root")
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.soak
@pytest.mark.etcd
@pytest.mark.timeout(0)
def test_hours_of_faults(tmp_path: Path, seed: int, small_disk: Path | None) -> None:
    rng = random.Random(seed)
    with ExitStack() as stack:
        cluster = stack.enter_context(EtcdCluster(tmp_path / "etcd"))
        platform = stack.enter_context(Clustered(tmp_path / "platform", cluster))
        walls = {number: Wall(tmp_path / f"wall-{number}") for number in range(3)}
        for number, wall in walls.items():
            platform.server(number, env=wall.env)
        links = {
            name: [stack.enter_context(Proxy(server.agents, seed)) for server in platform.servers.values()]
            for name in AGENTS
        }
        for name, proxies in links.items():
            platform.agent(name, servers=[proxy.address for proxy in proxies])
        recorder = stack.enter_context(Recorder(cluster.url))
        clients = [platform.roaming_client(number) for number in range(CLIENTS)]
        marks = tmp_path / "marks"
        load = Load(clients, marks, seed, pause_s=2 * 60.0 * CLIENTS / JOBS_PER_MINUTE)
        faults = Faults(platform, cluster, links, walls, rng, SPARED, small_disk)
        soak = Soak(platform, cluster, faults, load, recorder, marks)
        load.start()
        soak.run(HOURS * 3600)
        judge_all(soak)


def judge_all(soak: Soak) -> None:
    platform, load = soak.platform, soak.load
    for member in soak.cluster.members:
        member.wait_ready()
    load.stop(600.0)
    drain(platform.roaming_client(0), load.acknowledged)
    soak.judge()
    for process in (*platform.agents.values(), *platform.servers.values()):
        process.kill()
    found = read_store(platform.store_url)
    seen = judge(load.acknowledged, found, soak.marks)
    say(verdict(soak, found, seen))
    assert not (wrong := soak.watch.check(len(found.states))), wrong
    assert soak.done.total() >= HOURS * 3600 / FAULT_EVERY_S / 2, f"hardly any fault: {soak.done}"


def verdict(soak: Soak, found: Contents, seen: Counter[str]) -> str:
    """In the manner of Chronos: what was asked for, and the runs that answer it."""
    asked = [job for answer in soak.load.acknowledged for job in answer.states]
    committed = sum(job in found.results for job in asked)
    ends = Counter(found.states[job].phase for job in asked)
    ran = Counter(path.name.partition(".")[0] for path in soak.marks.glob("*.*.*"))
    again = sum(times - 1 for times in ran.values() if times > 1)
    twice = sum(version > 1 for _, version in found.results.values())
    missed = sum(job not in found.states for job in asked)
    return "\n".join(
        (
            f"SOAK {HOURS:g} h: {soak.done.total()} faults {dict(soak.done)}",
            f"asked for {len(asked)} runs: {committed} results, {missed} missed, {twice} committed twice; {dict(ends)}",
            f"attempts started {ran.total()}, of which {again} again after a loss or failure; ledger {dict(seen)}",
            f"ended by themselves and started again: {dict(soak.ended) or 'none'}; judged {soak.judged} times",
            *soak.watch.longest(),
            "VERDICT: every run that was asked for is there exactly once",
        )
    )
