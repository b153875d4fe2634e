"""A thousand agents that lose their control plane at once, and come back at once."""

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from ares.edge.client.calls.answers import Submitted
from ares.model.job import JobSpec, Resources
from tests.chaos.storms.fleet import HOLD, Fleet
from tests.chaos.storms.gauges import held
from tests.history import read_store
from tests.platform import Platform, StoreKind, eventually, say

Build = Callable[[StoreKind], Platform]
GATHER_S = 240.0
AMPLIFICATION_MAX = 1.2
# What one agent's stream may cost the server for good, on top of what it needs anyway.
AGENT_MIB = 0.5
HELD_JOBS = 40
STRAGGLERS = 0.1
# Half of them ride out any outage of these tests; the others may end by their own right, never by the leader's word.
PATIENT_S = 300.0
HOLDING = [
    JobSpec(command=(HOLD,), resources=Resources(cpu_milli=100, memory_mib=32), lease_s=lease_s)
    for lease_s in (9.0, PATIENT_S)
]


def outage_of_the_server(platform: Platform, seconds: float) -> None:
    platform.servers[0].kill()
    time.sleep(seconds)
    platform.server()


def outage_of_the_store(platform: Platform, seconds: float) -> None:
    assert platform.etcd is not None
    platform.etcd.pause()
    time.sleep(seconds)
    platform.etcd.resume()


def holding(platform: Platform, fleet: Fleet) -> list[str]:
    """Jobs that run on the fleet until it is told to release them."""
    jobs = [job for job in platform.client().submit_many(HOLDING * (HELD_JOBS // 2)) if isinstance(job, Submitted)]
    eventually(lambda: fleet.counts()["held"] == HELD_JOBS, "the start of the jobs to hold", GATHER_S)
    return [job.id for job in jobs]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("strike", "agents", "seconds"),
    [
        pytest.param(outage_of_the_server, 60, 3.0, id="server-away"),
        pytest.param(outage_of_the_server, 1000, 5.0, id="server-away-1000", marks=pytest.mark.soak),
        # Shorter than the right to run: nobody may lose anything for it.
        pytest.param(outage_of_the_store, 1000, 3.0, id="store-frozen-1000", marks=pytest.mark.soak),
    ],
)
@pytest.mark.etcd
def test_all_agents_reconnect_at_once(
    build: Build, tmp_path: Path, strike: Callable[[Platform, float], None], agents: int, seconds: float
) -> None:
    platform = build("etcd")
    platform.server()
    fleet = Fleet(platform, agents, [platform.servers[0].agents])
    fleet.start()
    try:
        judged_storm(platform, fleet, strike, seconds)
    finally:
        fleet.kill()


def judged_storm(platform: Platform, fleet: Fleet, strike: Callable[[Platform, float], None], seconds: float) -> None:
    agents = fleet.size
    first = fleet.gather(GATHER_S)
    calm = held(platform.servers[0].pid)
    jobs = holding(platform, fleet)
    before = fleet.counts()
    strike(platform, seconds)
    after = fleet.gather(GATHER_S)
    # All have renewed since: whoever was to be dropped again was dropped by now.
    eventually(lambda: fleet.counts()["renewed"] >= after["renewed"] + agents, "a renewal by everybody", GATHER_S)
    settled = fleet.counts()
    now = held(platform.servers[0].pid)
    welcomes = settled["welcomes"] - before["welcomes"]
    say(f"{agents} agents, away {seconds:g} s: {welcomes} sessions, {settled - before}; memory {calm} -> {now}")
    assert first["welcomes"] <= AMPLIFICATION_MAX * agents, f"{first} to connect {agents} agents"
    assert welcomes <= AMPLIFICATION_MAX * agents, f"{welcomes} sessions opened for {agents} agents"
    assert now.rss - calm.rss < 64 + AGENT_MIB * agents, f"the server's memory grew: {calm} -> {now}"
    check_nothing_was_taken(platform, fleet, jobs)


def check_nothing_was_taken(platform: Platform, fleet: Fleet, jobs: list[str]) -> None:
    """Everybody was away at once: that is one fault, and not a thousand dead nodes."""
    fleet.release()
    client = platform.client()
    for job in jobs:
        assert client.wait(job, timeout=GATHER_S).state.phase == "SUCCEEDED"
    found = read_store(platform.store_url)
    assert all(found.results[job][1] == 1 for job in jobs), "a result was written twice"
    lost = [event for job in jobs for event, _ in found.events[job] if event.kind == "lease-lost"]
    silent = [event.reason for event in lost if "silent" in event.reason]
    # On a machine too busy for a thousand agents one or the other may really be silent that long.
    assert len(silent) <= STRAGGLERS * len(jobs), f"{len(silent)} of {len(jobs)} were taken for silence: {silent[0]}"
    impatient = {event.job for event in lost if found.specs[event.job].lease_s == PATIENT_S}
    assert not impatient, f"{len(impatient)} jobs ended long before their lease of {PATIENT_S:g} s"
    say(f"{len(lost)} of {len(jobs)} attempts ended by their own right: {Counter(event.reason for event in lost)}")
