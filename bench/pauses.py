"""(l) How long serving pauses while plans are made: many distinct waiting jobs, every way of backfill, a plugin asleep.

Agents in one process, each with a job that holds most of its node; jobs that all differ wait for the rest. Meanwhile
a job is cancelled now and then, so that every plan is made anew, people ask why and when, and `/healthz` is asked all
the time from a thread that does nothing else. Beside it what tells the server's own work from a machine that is busy
with others: how long the same thread was kept from a mere sleep, and of the server's longest tick (`bench.watchdog`)
its processor time, its wall time and where it was seen.
"""

import asyncio
import http.client
import json
import threading
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from ares.edge.client.calls import operator
from ares.edge.client.calls.answers import Submitted
from ares.edge.client.sync import Client
from ares.model.job import JobSpec, Resources
from bench import watchdog
from bench.processes import NotMeasured
from bench.report import Row, judged
from bench.scale import Scale
from tests.chaos.storms.fleet import HOLD, Fleet
from tests.platform import Platform, Server, eventually

PAUSE_S = 0.2
_WAIT_S = 600.0
_EVERY_S = 0.01
_BATCH = 250
_STRATEGIES = ("easy", "conservative", "aggressive", "deadline", "greedy", "strict")
_HELD_MILLI = 600
_HOLDER = JobSpec(
    command=(HOLD,), resources=Resources(cpu_milli=_HELD_MILLI, memory_mib=32), time_limit_s=7200.0
)  # fmt: skip
_PLUGIN = """
import time
import numpy as np
from ares.core.capacity.rule import Filter
from ares.api.reasons import Reason

def passes(rows):
    time.sleep(20.0)
    return np.ones(len(rows), np.bool_)

SLEEPY = Filter(passes, lambda miss: Reason(code="REFUSED_BY_PLUGIN", message="asleep"), ("profile changes",))
"""


async def rows(scale: Scale, folder: Path) -> list[Row]:
    found: list[Row] = []
    for nodes in scale.paused_nodes:
        found += await asyncio.to_thread(_with_nodes, scale, nodes, folder / f"nodes-{nodes}")
    return found


def _with_nodes(scale: Scale, nodes: int, folder: Path) -> list[Row]:
    found: list[Row] = []
    with _full(nodes, folder) as camp:
        waiting = 0
        for count in scale.paused_jobs:
            camp.wait_too(waiting, count)
            waiting = count
            for strategy in _STRATEGIES:
                camp.go_by(strategy)
                found.append(camp.measure(f"{strategy}, {count:,} distinct jobs waiting, {nodes:,} nodes", scale))
        camp.client.send(operator.set_profile({"filters": "+sleepy"}, "", None))
        what = f"a plugin that sleeps 20 s, {waiting:,} distinct jobs waiting, {nodes:,} nodes"
        found.append(camp.measure(what, scale))
    return found


class _Tick(NamedTuple):
    """A turn of the server's event loop that lasted."""

    cpu_s: float = 0.0
    wall_s: float = 0.0
    seen: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.wall_s:
            return "no tick of the server above 50 ms"
        where = self.seen[0].partition(" < ")[0] if self.seen else "nowhere"
        return f"busiest tick {self.cpu_s * 1e3:.0f} ms of CPU in {self.wall_s * 1e3:.0f} ms, at {where}"


def _busiest(file: Path, since: float) -> _Tick:
    """By its own processor time. Both processes read one monotonic clock."""
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    ticks = (_Tick(one["cpu_s"], one["wall_s"], tuple(one["seen"])) for one in lines if one["at"] >= since)
    return max(ticks, default=_Tick())


class _Camp:
    """Nodes with a job each, and nothing else to be had."""

    def __init__(self, platform: Platform, fleet: Fleet, client: Client, ticks: Path) -> None:
        self._platform = platform
        self._fleet = fleet
        self.client = client
        self._ticks = ticks
        self._holding: list[str] = []
        self._waiting = ""
        self._lost_before = 0.0

    def fill(self) -> None:
        for _ in range(0, self._fleet.size, _BATCH):
            self._holding += self._submit([_HOLDER] * min(_BATCH, self._fleet.size - len(self._holding)))
        eventually(lambda: self._fleet.counts()["held"] == self._fleet.size, "a job on every node", _WAIT_S)

    def _submit(self, specs: list[JobSpec]) -> list[str]:
        answers = self.client.submit_many(specs)
        if refused := [one for one in answers if not isinstance(one, Submitted)]:
            raise NotMeasured(f"{len(refused)} jobs were refused: {refused[0]}")
        return [one.id for one in answers if isinstance(one, Submitted)]

    def wait_too(self, first: int, last: int) -> None:
        """Jobs that all differ: in what they ask for, and in how long they run."""
        soon = time.time() + 86_400.0
        specs = [
            JobSpec(
                command=(HOLD,), priority="LOW", expected_runtime_s=600.0 + number, time_limit_s=1200.0 + number,
                resources=Resources(cpu_milli=500 + number % 500, memory_mib=64 + number // 500),
                deadline_at=soon + number,
            )
            for number in range(first, last)
        ]  # fmt: skip
        for at in range(0, len(specs), _BATCH):
            self._waiting = self._submit(specs[at : at + _BATCH])[-1]

    def go_by(self, strategy: str) -> None:
        self.client.send(operator.revert_profile(0, ""))
        sets = {"actions": "-backfill"} if strategy == "strict" else {"backfill.strategy": strategy}
        self.client.send(operator.set_profile(sets, "", None))

    def measure(self, what: str, scale: Scale) -> Row:
        began = time.monotonic()
        with _probing(self._platform.servers[0]) as probe:
            while time.monotonic() - began < scale.paused_s:
                self._stir()
                time.sleep(1.0)
        now = self._lost()
        # Also those between the last case and this one.
        lost, self._lost_before = now - self._lost_before, now
        note = f"{lost:.0f} running jobs lost; p99 {probe.p99_s * 1e3:.0f} ms of {len(probe.took_s):,}"
        longest, busiest = max(probe.took_s), _busiest(self._ticks, began)
        return Row(
            "l", f"longest pause of /healthz: {what}", f"{longest * 1e3:.0f} ms", longest,
            f"{busiest}; a sleep of 10 ms took up to {probe.slept_s * 1e3:.0f} ms", None,
            f"<= {PAUSE_S * 1e3:.0f} ms, 0 lost", judged(longest <= PAUSE_S and not lost), note,
        )  # fmt: skip

    def _stir(self) -> None:
        """Room comes free: everybody's plan is another one. And people ask."""
        self.client.cancel(self._holding.pop(0))
        self._holding += self._submit([_HOLDER])
        self.client.explain(self._waiting)
        self.client.plan(_HOLDER)
        self.client.pools()

    def _lost(self) -> float:
        told = [line for line in self._platform.metrics() if line.startswith("ares_lease_losses_total ")]
        return sum(float(line.split()[-1]) for line in told) + self._fleet.counts()["fenced"]


class _Probe(threading.Thread):
    def __init__(self, server: Server) -> None:
        super().__init__(daemon=True)
        self._line = http.client.HTTPConnection(server.http, timeout=60.0)
        self._over = threading.Event()
        self.took_s: list[float] = []
        self.slept_s = 0.0

    def run(self) -> None:
        while not self._over.is_set():
            began = time.perf_counter()
            self._line.request("GET", "/healthz")
            self._line.getresponse().read()
            ended = time.perf_counter()
            self.took_s.append(ended - began)
            time.sleep(_EVERY_S)
            self.slept_s = max(self.slept_s, time.perf_counter() - ended)

    def end(self) -> None:
        self._over.set()
        self.join()
        self._line.close()

    @property
    def p99_s(self) -> float:
        return sorted(self.took_s)[int(0.99 * (len(self.took_s) - 1))]


@contextmanager
def _probing(server: Server) -> Generator[_Probe]:
    probe = _Probe(server)
    probe.start()
    try:
        yield probe
    finally:
        probe.end()


@contextmanager
def _full(nodes: int, folder: Path) -> Generator[_Camp]:
    site, ticks = folder / "site", folder / "ticks.jsonl"
    _install(site)
    with ExitStack() as stack:
        platform = stack.enter_context(Platform(folder / "platform", "etcd"))
        platform.server(env=watchdog.environment(site, ticks))
        fleet = Fleet(platform, nodes, [platform.servers[0].agents]).start()
        stack.callback(fleet.kill)
        fleet.gather(_WAIT_S)
        camp = _Camp(platform, fleet, platform.client(timeout_s=60.0), ticks)
        camp.fill()
        yield camp


def _install(site: Path) -> None:
    info = site / "sleepy-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "sleepy.py").write_text(_PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sleepy\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[ares.filters]\nsleepy = sleepy:SLEEPY\n")
    watchdog.install_into(site)
