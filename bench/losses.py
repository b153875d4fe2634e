"""(h) Nodes that are lost: how soon the loss is decided and the work goes on elsewhere; and nodes that are not.

Real agents with default timers, each behind a proxy. In every round three nodes with one job each are lost at once:
one agent is killed, one is stopped, one is cut off. Fifteen nodes, so that three are no storm. Then hundreds of agents
in one process, each with a job and well, while every core is kept busy: how many of them lose theirs.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ares.edge.client.sync import Client
from ares.model.job import JobSpec, Resources
from ares.model.state import LedgerEvent
from ares.model.timing import DEFAULT
from ares.sim.chaos.proxy import Proxy
from bench.processes import end
from bench.report import Row, judged, missing
from bench.scale import Scale
from tests.chaos.storms.fleet import HOLD, Fleet
from tests.platform import NeverHappened, Platform, eventually

_NODES = 15
_KINDS = ("killed", "frozen", "cut off")
# "Within ten seconds" of the last sign of life.
_DECIDED_S = 10.0
_WAIT_S = 120.0


async def rows(scale: Scale, folder: Path) -> list[Row]:
    found = list(_losses(scale.losses, folder / "losses"))
    try:
        return [*found, await _suspicions(*scale.watched, folder / "suspicions")]
    except NeverHappened as error:
        return [*found, missing("h", "false suspicions", error)]


# ---- nodes that are lost


class _Nodes:
    """Fifteen agents with a GPU each, any of which can be lost in any way."""

    def __init__(self, platform: Platform, proxies: dict[str, Proxy]) -> None:
        self._platform = platform
        self._proxies = proxies
        self.client: Client = platform.client()

    def lose(self, node: str, kind: str) -> None:
        agent = self._platform.agents[node]
        {"killed": agent.kill, "frozen": agent.pause, "cut off": self._proxies[node].cut}[kind]()

    def bring_back(self, node: str, kind: str) -> None:
        agent = self._platform.agents[node]
        {"killed": agent.start, "frozen": agent.resume, "cut off": self._proxies[node].heal}[kind]()

    def all_there(self) -> None:
        eventually(lambda: sum(one.ready for one in self.client.nodes()) == _NODES, "every node's return", _WAIT_S)

    def renewed_at(self, node: str) -> float:
        """When the control plane last saw its lease renewed, by the wall clock of this machine."""
        (age_s,) = (one.lease_age_s for one in self.client.nodes() if one.name == node)
        return time.time() - (age_s or 0.0)

    def events(self, job: str, kind: str) -> list[LedgerEvent]:
        return [event for event in self.client.job_events(job) if event.kind == kind]

    def place_jobs(self, count: int) -> dict[str, str]:
        """Jobs that run until they are cancelled, by their nodes: a node has room for one."""
        spec = JobSpec(command=("sleep", "100000"), resources=Resources(cpu_milli=100, memory_mib=32, gpus=1))
        jobs = [self.client.submit(spec).id for _ in range(count)]
        eventually(lambda: all(self.client.get(job).state.phase == "RUNNING" for job in jobs), "the start", _WAIT_S)
        return {self.client.get(job).state.placements[0].node: job for job in jobs}


@contextmanager
def _nodes(folder: Path) -> Generator[_Nodes]:
    with ExitStack() as stack:
        platform = stack.enter_context(Platform(folder))
        platform.server()
        names = [f"node-{number}" for number in range(_NODES)]
        proxies = {name: stack.enter_context(Proxy(platform.servers[0].agents)) for name in names}
        for name in names:
            platform.agent(name, gpus=1, servers=[proxies[name].address], wait=False)
        nodes = _Nodes(platform, proxies)
        nodes.all_there()
        yield nodes


def _losses(rounds: int, folder: Path) -> Iterator[Row]:
    # By kind and stretch, in seconds.
    took: dict[tuple[str, str], list[float]] = defaultdict(list)
    with _nodes(folder) as nodes:
        for _ in range(rounds):
            _one_round(nodes, took)
    for kind in _KINDS:
        decided = sorted(took[kind, "decided"])
        worst = decided[-1]
        yield Row(
            "h", f"{kind}: last renewal to the loss decided, {len(decided)} losses", _spread(decided), worst,
            f"dead_after_s = {DEFAULT.dead_after_s:g} s", worst / DEFAULT.dead_after_s, f"max < {_DECIDED_S:g} s",
            judged(worst < _DECIDED_S), "",
        )  # fmt: skip
        for stretch, words in (
            ("restarted", "the loss decided to the next attempt started elsewhere"),
            ("in all", "the agent lost to the next attempt started elsewhere"),
        ):
            found = sorted(took[kind, stretch])
            yield Row("h", f"{kind}: {words}", _spread(found), found[-1], "", None, "", "", _NOTES.get(stretch, ""))


_NOTES = {"restarted": "with the random delay of up to 0.5 s before a retry"}


def _one_round(nodes: _Nodes, took: dict[tuple[str, str], list[float]]) -> None:
    jobs = nodes.place_jobs(len(_KINDS))
    struck: dict[str, tuple[str, float]] = {}
    for (node, _), kind in zip(jobs.items(), _KINDS, strict=True):
        struck[node] = (kind, time.time())
        nodes.lose(node, kind)
    for node, job in jobs.items():
        (kind, at) = struck[node]
        lost = eventually(lambda job=job: nodes.events(job, "lease-lost"), f"the loss of {node}", _WAIT_S)[0]
        took[kind, "decided"].append(lost.at - nodes.renewed_at(node))
        started = eventually(lambda job=job: nodes.events(job, "started")[1:], f"the return of {job}", _WAIT_S)[0]
        took[kind, "restarted"].append(started.at - lost.at)
        took[kind, "in all"].append(started.at - at)
    for job in jobs.values():
        nodes.client.cancel(job)
    for node in jobs:
        nodes.bring_back(node, struck[node][0])
    nodes.all_there()


def _spread(found: Sequence[float]) -> str:
    p99 = found[min(len(found) - 1, round(0.99 * (len(found) - 1)))]
    return f"p50 {found[len(found) // 2]:.1f}, p99 {p99:.1f}, max {found[-1]:.1f} s"


# ---- nodes that are well


async def _suspicions(agents: int, minutes: float, folder: Path) -> Row:
    with ExitStack() as stack:
        platform = stack.enter_context(Platform(folder, "etcd"))
        platform.server()
        client = platform.client()
        # It has a loop of its own for a moment.
        fleet = (await asyncio.to_thread(Fleet, platform, agents, [platform.servers[0].agents])).start()
        stack.callback(fleet.kill)
        fleet.gather(4 * _WAIT_S)
        for _ in range(agents):
            client.submit(JobSpec(command=(HOLD,), resources=Resources(cpu_milli=1000, memory_mib=32)))
        eventually(lambda: fleet.counts()["held"] == agents, "a job on every node", 4 * _WAIT_S)
        for busy in _busy():
            stack.callback(end, busy)
        before, fenced, oldest_s, began = _lost(platform), fleet.counts()["fenced"], 0.0, time.monotonic()
        while time.monotonic() - began < 60 * minutes:
            await asyncio.sleep(2.0)
            oldest_s = max(oldest_s, *(one.lease_age_s or 0.0 for one in client.nodes()))
        hours = agents * (time.monotonic() - began) / 3600
        judged_dead, fenced = _lost(platform) - before, fleet.counts()["fenced"] - fenced
    lost = judged_dead + fenced
    # With none seen, 95 % sure that there are at most three in as long a time.
    most = 1000 * (3 if not lost else lost + 2 * lost**0.5 + 2) / hours
    who = f"{judged_dead:.0f} by the leader, {fenced} by themselves"
    said = f"{who}; oldest lease {oldest_s:.1f} s; load {os.getloadavg()[1]:.0f}"
    return Row(
        "h", f"jobs lost by {agents:,} agents that are well, {hours:.0f} agent-hours, every core busy",
        f"{lost:.0f} ({1000 * lost / hours:.0f} per 1,000 agent-hours)", lost, "", None, "0", judged(lost == 0),
        f"at most {most:.0f} per 1,000 agent-hours (95 %); {said}",
    )  # fmt: skip


def _busy() -> list["subprocess.Popen[bytes]"]:
    return [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]


def _lost(platform: Platform) -> float:
    return sum(float(line.split()[-1]) for line in platform.metrics() if line.startswith("ares_lease_losses_total "))
