"""Nodes that die, freeze or are cut off: their attempts end by themselves, the loss is decided within 10 s,
and another node finishes each job exactly once. Who comes back late cannot commit."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from ares.api.jobs import JobDetail
from ares.edge.client.calls.answers import Submitted
from ares.edge.client.sync import Client
from ares.model.state import LedgerEvent
from ares.sim.chaos.proxy import Proxy
from tests.chaos.load import marked
from tests.history import Acknowledged, judge, read_store
from tests.platform import Platform, StoreKind, eventually, say

DECIDED_WITHIN_S = 10.0
Build = Callable[[StoreKind], Platform]


@dataclass
class Victim:
    """A node with one running job, and what befalls it."""

    node: str
    job: Submitted
    strike: Callable[[], object]


@pytest.fixture
def cluster(build: Build, request: pytest.FixtureRequest) -> Iterator[tuple[Platform, Proxy]]:
    """Three nodes to lose, one of them behind a proxy, and one to finish their work."""
    with ExitStack() as stack:
        platform = build(request.param)
        platform.server()
        proxy = stack.enter_context(Proxy(platform.servers[0].agents))
        platform.agent("killed")
        platform.agent("frozen")
        platform.agent("cut-off", servers=[proxy.address])
        platform.agent("healthy")
        yield platform, proxy


def run_on(client: Client, node: str, marks: Path) -> Submitted:
    """A long job on one node; later attempts are short."""
    for view in client.nodes():
        client.cordon(view.name, view.name != node)
    job = client.submit(marked(marks, beats=6000, later_beats=0), request_id=f"job-on-{node}")
    eventually(lambda: client.get(job).state.phase == "RUNNING", f"the start of the job on {node}")
    return job


def lost(client: Client, victim: Victim) -> LedgerEvent:
    def look() -> list[LedgerEvent]:
        return [event for event in client.job_events(victim.job) if event.kind == "lease-lost"]

    return eventually(look, f"the loss of {victim.node}")[0]


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "cluster", ["sqlite", pytest.param("etcd", marks=[pytest.mark.etcd, pytest.mark.soak])], indirect=True
)
def test_silent_nodes_lose_their_jobs_in_time_and_cannot_commit(
    cluster: tuple[Platform, Proxy], tmp_path: Path
) -> None:
    platform, proxy = cluster
    client, marks = platform.client(), tmp_path / "marks"
    marks.mkdir()
    strikes = {
        "killed": platform.agents["killed"].kill,
        "frozen": platform.agents["frozen"].pause,
        "cut-off": proxy.cut,
    }
    victims = [Victim(node, run_on(client, node, marks), strike) for node, strike in strikes.items()]
    for view in client.nodes():
        client.cordon(view.name, view.name != "healthy")
    for victim in victims:
        victim.strike()

    for victim in victims:
        decided = lost(client, victim)
        # The frozen agent is still frozen here: its attempt was ended by what it runs in.
        alive = [pid for pid, who in platform.job_processes().items() if who == f"{victim.job.id} {decided.fence}"]
        assert not alive, f"{victim.node}: {alive} still run after the loss was decided"
        took_s = decided.at - platform.lease_renewed_at(victim.node)
        say(f"{victim.node}: loss decided {took_s:.2f} s after the last renewal ({decided.reason})")
        assert took_s < DECIDED_WITHIN_S
    finished = {victim.node: client.wait(victim.job, timeout=60) for victim in victims}
    for node, detail in finished.items():
        assert (detail.state.phase, detail.state.attempt) == ("SUCCEEDED", 2), f"{node}: {detail.state}"
        assert detail.state.placements[0].node == "healthy"

    platform.agents["frozen"].resume()
    proxy.heal()
    platform.agent("killed")
    for victim in victims:
        check_node_works(client, victim.node)
        assert client.get(victim.job) == finished[victim.node], f"{victim.node} changed a finished job"
    check_recovery_metric(platform)
    for process in (*platform.agents.values(), *platform.servers.values()):
        process.kill()
    acknowledged = [Acknowledged(f"job-on-{victim.node}", victim.job.id) for victim in victims]
    found = read_store(platform.store_url)
    for job in set(found.states) - {victim.job.id for victim in victims}:
        del found.states[job]
    judge(acknowledged, found, marks)


def check_node_works(client: Client, node: str) -> None:
    """By then it has told all it had to tell: reports go out in order."""
    for view in client.nodes():
        client.cordon(view.name, view.name != node)
    detail: JobDetail = client.wait(client.submit(command=["true"]), timeout=60)
    assert detail.state.phase == "SUCCEEDED"
    assert detail.state.placements[0].node == node


def check_recovery_metric(platform: Platform) -> None:
    lines = [line for line in platform.metrics() if line.startswith("ares_recovery_seconds")]
    (within,) = (float(line.split()[-1]) for line in lines if 'le="10.0"' in line)
    (count,) = (float(line.split()[-1]) for line in lines if line.startswith("ares_recovery_seconds_count"))
    assert within == count == 3
