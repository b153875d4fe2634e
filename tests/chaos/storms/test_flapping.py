"""What comes and goes: a node, a leader, and a store that is slow while output floods in."""

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from ares.model.job import JobSpec, Resources, RetryPolicy
from ares.sim.chaos.proxy import Proxy
from tests.chaos.load import Load, marked
from tests.chaos.storms.gauges import counted, held
from tests.chaos.test_kill import DRAIN_S, drain
from tests.history import Acknowledged, judge, read_store
from tests.platform import Platform, StoreKind, eventually, say

Build = Callable[[StoreKind], Platform]
FLAPS = 8
FLOOD_MIB = 24
QUEUES_MIB = 64.0


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_node_that_flaps_harms_only_itself(build: Build, tmp_path: Path) -> None:
    """Cut off again and again, at times for longer than a lease: its own jobs may be repeated, once for each loss."""
    platform = build("sqlite")
    platform.server()
    marks = tmp_path / "marks"
    marks.mkdir()
    with Proxy(platform.servers[0].agents) as proxy:
        platform.agent("flaps", servers=[proxy.address])
        platform.agent("steady")
        client = platform.client()
        client.cordon("flaps")
        steady = client.submit(marked(marks, beats=1200, later_beats=0), request_id="steady")
        eventually(lambda: client.get(steady).state.phase == "RUNNING", "the start of the steady job")
        client.cordon("steady")
        client.cordon("flaps", False)
        retry = RetryPolicy(limit=100, base_s=0.1, max_s=1.0)
        flapping = client.submit(marked(marks, beats=300, later_beats=50, retry=retry), request_id="flapping")
        before = counted(platform, "ares_lease_losses_total")[""]
        for flap in range(FLAPS):
            proxy.cut()
            time.sleep(1.0 + (flap % 4) * 3.0)
            proxy.heal()
            time.sleep(1.0)
        detail = client.wait(flapping, timeout=240)
        lost = counted(platform, "ares_lease_losses_total")[""] - before
        say(f"{FLAPS} flaps: {detail.state.attempt} attempts, {lost} losses")
        assert detail.state.phase == "SUCCEEDED"
        assert 1 < detail.state.attempt <= FLAPS + 1, "never lost, or lost more often than it was cut off"
        client.cordon("steady", False)
        (detail,) = (client.wait(steady, timeout=240),)
        assert (detail.state.phase, detail.state.attempt) == ("SUCCEEDED", 1), (
            "a node that flaps took another's job along"
        )
    for process in (*platform.agents.values(), *platform.servers.values()):
        process.kill()
    judge(
        [Acknowledged("steady", steady.id), Acknowledged("flapping", flapping.id)],
        read_store(platform.store_url),
        marks,
    )


@pytest.mark.etcd
@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_leader_that_flaps_loses_nothing(build: Build, tmp_path: Path, seed: int) -> None:
    """Whoever leads is frozen for longer than leadership lasts, again and again, under load from clients that roam."""
    platform = build("etcd")
    for number in range(3):
        platform.server(number)
    for name in ("node-a", "node-b"):
        platform.agent(name)
    marks = tmp_path / "marks"
    load = Load([platform.roaming_client(number) for number in range(3)], marks, seed)
    load.start()
    led: Counter[int] = Counter()
    for _ in range(FLAPS):
        leader = platform.leader()
        led[leader] += 1
        platform.servers[leader].pause()
        time.sleep(7.0)
        platform.servers[leader].resume()
    say(f"led: {dict(led)}")
    load.stop(DRAIN_S)
    drain(platform.client(), load.acknowledged)
    for process in (*platform.agents.values(), *platform.servers.values()):
        process.kill()
    found = read_store(platform.store_url)
    seen = judge(load.acknowledged, found, marks)
    silent = [event for events in found.events.values() for event, _ in events if "silent" in (event.reason or "")]
    say(f"history: {dict(seen)}; taken for silence: {len(silent)}")
    assert len(led) > 1, "leadership never moved: this proved nothing"
    assert not silent, f"a new leader took jobs from nodes that were alive: {silent[0]}"


@pytest.mark.etcd
@pytest.mark.timeout(600)
@pytest.mark.soak
def test_a_flood_of_output_while_the_store_is_slow(build: Build) -> None:
    """Output does not go through the store: it must not wait for it, nor pile up in memory, nor hold up a lease."""
    platform = build("etcd")
    assert platform.etcd is not None
    platform.server()
    platform.agent("node-a")
    platform.agent("node-b")
    client = platform.client()
    before = [held(process.pid) for process in (platform.servers[0], *platform.agents.values())]
    line = "x" * 99
    flood = JobSpec(
        command=("sh", "-c", f"yes {line} | head -c {FLOOD_MIB * 1024 * 1024}"),
        resources=Resources(cpu_milli=100, memory_mib=64),
        lease_s=120.0,
    )
    jobs = [client.submit(flood) for _ in range(6)]
    stop = time.monotonic() + 15.0
    while time.monotonic() < stop:
        platform.etcd.pause()
        time.sleep(0.8)
        platform.etcd.resume()
        time.sleep(0.2)
    details = [client.wait(job, timeout=240) for job in jobs]
    after = [held(process.pid) for process in (platform.servers[0], *platform.agents.values())]
    sizes = [sum(len(piece) for piece in client.logs(job)) for job in jobs]
    say(f"{sum(sizes) / 1024 / 1024:.0f} MiB of output; memory {before} -> {after}")
    assert [(detail.state.phase, detail.state.attempt) for detail in details] == [("SUCCEEDED", 1)] * len(jobs)
    assert all(size > 1024 * 1024 for size in sizes), sizes
    for name, early, late in zip(("server", "agent", "agent"), before, after, strict=True):
        assert late.peak - early.rss < QUEUES_MIB, f"the {name} grew: {early} -> {late}"
