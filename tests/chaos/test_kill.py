"""kill -9 of every kind of process, at random moments, under load: nothing acknowledged is lost or doubled."""

import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import pytest

from ares.edge.client.sync import Client
from ares.model.state import TERMINAL
from tests.chaos.load import Load, marked
from tests.history import Acknowledged, audit_commits, judge, read_store
from tests.platform import Platform, Server, StoreKind, eventually, say

DRAIN_S = 100.0
Build = Callable[[StoreKind], Platform]


# Long enough for a lease to run out in one of three.
FREEZE_S = (0.5, 13.0)


class Killer:
    """Kills one process at a time and starts it again; with `freeze`, also stops one for a while."""

    def __init__(self, platform: Platform, rng: random.Random, *, freeze: bool, planners: bool = False) -> None:
        self._platform = platform
        self._rng = rng
        self._killers = {"server": self._server, "agent": self._agent}
        if planners:
            self._killers |= {"planner": self._planner, "frozen planner": self._frozen_planner}
        if platform.etcd is not None:
            self._killers["etcd"] = self._etcd
        if freeze:
            self._killers["freeze"] = self._freeze
        self.done: list[str] = []

    def round(self) -> None:
        """Every kind once, in random order."""
        for kind in self._rng.sample(sorted(self._killers), len(self._killers)):
            # A moment, not a synchronisation: where in the work the kill lands is left to chance.
            time.sleep(self._rng.uniform(0.05, 0.8))
            self.done.append(self._killers[kind]())

    def _server(self) -> str:
        number = self._rng.choice([n for n, server in self._platform.servers.items() if server.alive])
        self._platform.servers[number].kill()
        self._platform.server(number)
        return f"replica-{number}"

    def _agent(self) -> str:
        name = self._rng.choice(sorted(self._platform.agents))
        self._platform.agents[name].kill()
        self._platform.agent(name, wait=False)
        return name

    def _freeze(self) -> str:
        etcd = [self._platform.etcd] if self._platform.etcd is not None else []
        victim = self._rng.choice([*self._platform.servers.values(), *self._platform.agents.values(), *etcd])
        seconds = self._rng.uniform(*FREEZE_S)
        victim.pause()
        time.sleep(seconds)
        victim.resume()
        return f"{victim.name} frozen {seconds:.1f} s"

    def _one_planner(self) -> psutil.Process:
        """Of a replica that leads: others' planners have nothing to do."""
        server = self._platform.servers[self._platform.leader()]
        return self._rng.choice(eventually(lambda: planners_of(server), "the planners"))

    def _planner(self) -> str:
        victim = self._one_planner()
        victim.kill()
        return f"planner {victim.pid}"

    def _frozen_planner(self) -> str:
        """It is not woken: the leader ends what does not answer, and every other planner goes on."""
        victim = self._one_planner()
        victim.suspend()
        return f"planner {victim.pid} frozen"

    def _etcd(self) -> str:
        assert self._platform.etcd is not None
        self._platform.etcd.kill()
        self._platform.etcd.start()
        return "etcd"


def storm(platform: Platform, directory: Path, seed: int, *, replicas: int, rounds: int, freeze: bool) -> Counter[str]:
    rng = random.Random(seed)
    for number in range(replicas):
        platform.server(number)
    for name in ("node-a", "node-b"):
        platform.agent(name)
    marks = directory / "marks"
    load = Load([platform.client(n % replicas) for n in range(4)], marks, seed)
    load.start()
    killer = Killer(platform, rng, freeze=freeze)
    for _ in range(rounds):
        killer.round()
    say(f"done: {killer.done}")
    load.stop(DRAIN_S)
    drain(platform.client(), load.acknowledged)
    assert not platform.job_processes(), "a job's process is left"
    for process in (*platform.agents.values(), *platform.servers.values()):
        process.kill()
    seen = judge(load.acknowledged, read_store(platform.store_url), marks)
    if platform.etcd is not None:
        seen["commits"] = audit_commits(platform.store_url)
    say(f"history: {dict(seen)}")
    return seen


def drain(client: Client, acknowledged: Sequence[Acknowledged]) -> None:
    """Until every job has ended and holds nothing, and every array has all its tasks."""
    for answer in acknowledged:
        if answer.array:
            client.wait(answer.job, timeout=DRAIN_S)
    open_phases = ("PENDING", "STAGING", "RUNNING", "RETRYING", "PREEMPTED")
    eventually(lambda: not list(client.list(phase=open_phases)), "the end of every job", DRAIN_S)
    eventually(
        lambda: all(state.phase in TERMINAL and not state.lingering for state in client.list(page=1000)),
        "the release of every job",
        DRAIN_S,
    )


@pytest.mark.timeout(300)
@pytest.mark.parametrize("store", ["sqlite", pytest.param("etcd", marks=pytest.mark.etcd)])
def test_kills_under_load(build: Build, tmp_path: Path, seed: int, store: StoreKind) -> None:
    seen = storm(build(store), tmp_path, seed, replicas=1, rounds=2, freeze=False)
    assert seen["submitted"] > 20, "hardly any load: the kills proved nothing"


PLANNERS = {"ARES_SCHEDULER__PLANNERS": "3"}


def planners_of(server: Server) -> list[psutil.Process]:
    def plans(process: psutil.Process) -> bool:
        with contextlib.suppress(psutil.Error):
            return "ares.app.planner" in process.cmdline() and process.status() != psutil.STATUS_STOPPED
        return False

    return [child for child in psutil.Process(server.pid).children() if plans(child)]


def planner_storm(platform: Platform, directory: Path, seed: int, *, replicas: int, rounds: int) -> Counter[str]:
    """Three tenants, each of whose jobs wait with another of three planners."""
    for number in range(replicas):
        platform.server(number, env=PLANNERS)
    for name in ("node-a", "node-b"):
        platform.agent(name)
    admin, marks = platform.client(), directory / "marks"
    tokens = [platform.admin_token]
    for tenant in ("other", "third"):
        admin.create_tenant(tenant)
        tokens.append(admin.create_token(tenant=tenant, name="load", role="submitter").token)
    load = Load([platform.client(n % replicas, token=token) for n, token in enumerate(tokens)], marks, seed)
    load.start()
    killer = Killer(platform, random.Random(seed), freeze=True, planners=True)
    for _ in range(rounds):
        killer.round()
    say(f"done: {killer.done}")
    load.stop(DRAIN_S)
    for number, token in enumerate(tokens):
        # Of its own: a tenant does not see the others' arrays, whose tasks come after the acknowledgement.
        own = [answer for answer in load.acknowledged if answer.request.startswith(f"load-{number}-")]
        drain(platform.client(token=token), own)
    for token in tokens:
        # A planner with which no job waits is not asked: that it was frozen comes out with the next job.
        client = platform.client(token=token)
        client.wait(client.submit(marked(marks)).id, timeout=DRAIN_S)
        drain(client, ())
    say("\n".join(line for line in platform.metrics(platform.leader()) if line.startswith("ares_plan")))
    eventually(lambda: len(planners_of(platform.servers[platform.leader()])) == 3, "all planners at work")
    for process in (*platform.agents.values(), *platform.servers.values()):
        process.kill()
    seen = judge(load.acknowledged, read_store(platform.store_url), marks)
    if platform.etcd is not None:
        seen["commits"] = audit_commits(platform.store_url)
    verdict = platform.cli("verify", f"--store={platform.store_url}", "--output", "json")
    assert verdict.code == 0, verdict
    say(f"history: {dict(seen)}")
    return seen


@pytest.mark.etcd
@pytest.mark.timeout(400)
def test_planners_and_replicas_are_killed_and_frozen_under_load(build: Build, tmp_path: Path, seed: int) -> None:
    seen = planner_storm(build("etcd"), tmp_path, seed, replicas=2, rounds=1)
    assert seen["submitted"] > 20, "hardly any load: the kills proved nothing"


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("store", "replicas"), [("sqlite", 1), pytest.param("etcd", 3, marks=pytest.mark.etcd)])
def test_planners_are_killed_and_frozen_for_long(
    build: Build, tmp_path: Path, seed: int, store: StoreKind, replicas: int
) -> None:
    seen = planner_storm(build(store), tmp_path, seed, replicas=replicas, rounds=8)
    assert seen["lease-lost"] > 5, "hardly any loss: the kills proved nothing"


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("store", "replicas"),
    [("sqlite", 1), pytest.param("etcd", 1, marks=pytest.mark.etcd), pytest.param("etcd", 3, marks=pytest.mark.etcd)],
)
def test_many_kills_under_load(build: Build, tmp_path: Path, seed: int, store: StoreKind, replicas: int) -> None:
    seen = storm(build(store), tmp_path, seed, replicas=replicas, rounds=10, freeze=True)
    assert seen["lease-lost"] > 10, "hardly any loss: the kills proved nothing"
