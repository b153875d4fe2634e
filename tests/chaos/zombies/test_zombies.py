"""The zombie matrix on real processes: who is frozen, at which point of a job, for how long.

Whatever wakes up late finds its writes refused; every job ends once, with the result of its last attempt; nothing that
lost its fence goes on for longer than allowed. Judged by every commit, by the marks of attempts and by the checkers.

Left out, since nothing of the frozen process takes part in it: a job's own process while its node renews, uploads,
commits or reports (it has ended, or has no part in it).
"""

import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from ares.core import keys
from ares.edge.client.sync import Client
from tests.chaos.zombies.ground import HEALTHY, LENGTHS, TIMING, UPLOAD_BYTES, Case, Ground, Pids, ground
from tests.platform import NeverHappened, say

pytestmark = [pytest.mark.chaos, pytest.mark.etcd]

# Where a job is when something is frozen.
POINTS = ("start", "running", "commit", "report", "renew", "upload")
# With five nodes and more, several that fall silent at once would be a storm, in which nothing is taken away at first.
NODES = ("node-a", "node-b", "node-c")
# How long a command may take to an agent whose link is about to be given up.
PATIENCE_S = 5.0


# ---- a node: its agent alone, everything on it, or only the job's own process


def before_start_is_told(ground: Ground, case: Case, client: Client) -> None:
    """The process runs, and the control plane has not heard of it."""
    ground.hold(case.node, "tx")
    ground.submit(case, client)
    try:
        ground.until(lambda: ground.fences(case), f"the first mark of {case}", PATIENCE_S)
        ground.met["start"] += 1
    except NeverHappened:
        # Its agent gave up on the silent link before the command came, and cannot get through again.
        ground.met["missed start"] += 1
        ground.release(case.node)
        ground.until(lambda: ground.fences(case), f"the first mark of {case}")


def while_running(ground: Ground, case: Case, client: Client) -> None:
    ground.run(case, client)


def between_check_and_commit(ground: Ground, case: Case, client: Client) -> None:
    """The job has ended, its agent found that it may say so, and the word is under way."""
    ground.run(case, client)
    ground.hold(case.node, "tx")
    case.gate.touch()
    ground.meet("commit", lambda: ground.under_way(case.node, "tx", b"exited", case.job.encode()), case)
    # The next attempt finds it closed, and is still at work when the late word arrives.
    case.gate.unlink()


def while_reporting(ground: Ground, case: Case, client: Client) -> None:
    """The result is committed, and its agent has not heard of that."""
    ground.run(case, client)
    ground.hold(case.node, "rx")
    case.gate.touch()
    ground.until(lambda: ground.phase(case) == "SUCCEEDED", f"the commit of {case}")


def while_renewing(ground: Ground, case: Case, client: Client) -> None:
    """The renewal is durable, and the word of it reaches the agent after it woke."""
    ground.run(case, client)
    ground.hold(case.node, "rx")
    ground.meet("renew", lambda: ground.under_way(case.node, "rx", b"renewed"), case)


def while_uploading(ground: Ground, case: Case, client: Client) -> None:
    """Part of its output is with the control plane, which must never show it unless the rest and the result follow."""
    case.upload = UPLOAD_BYTES
    ground.run(case, client)
    ground.upload(case)


Prepare = Callable[[Ground, Case, Client], None]
PREPARE: dict[str, Prepare] = dict(
    zip(
        POINTS,
        (
            before_start_is_told,
            while_running,
            between_check_and_commit,
            while_reporting,
            while_renewing,
            while_uploading,
        ),
        strict=True,
    )
)


def freeze_node(who: str, ground: Ground, case: Case, length_s: float) -> None:
    pids: Pids = {
        "agent": lambda: [ground.platform.agents[case.node].pid],
        "machine": lambda: ground.machine(case.node),
        "job": lambda: ground.processes_of(case.job),
    }[who]
    fences = ground.fences(case)
    if who != "agent":
        ground.frozen.update(f"{case.job} {fence}" for fence in fences)
    name = {"agent": f"agent {case.node}", "machine": f"node {case.node}", "job": f"job {case.job} {fences[-1]}"}[who]
    if who == "job":
        # Nothing else is wrong with its node.
        ground.release(case.node)
    ground.freeze(name, pids, length_s, partial(ground.release, case.node))


def node_round(who: str, points: Sequence[str], ground: Ground, length: str) -> None:
    """Each node on its own: prepared, frozen and woken beside the others."""
    client, length_s = ground.platform.client(), LENGTHS[length]
    ground.ready(client)
    cases = {point: ground.case(f"{who} {point}", node) for point, node in zip(points, NODES, strict=False)}

    def one(point: str) -> None:
        PREPARE[point](ground, cases[point], ground.platform.client())
        freeze_node(who, ground, cases[point], length_s)

    with ThreadPoolExecutor(len(cases)) as threads:
        under_way = [threads.submit(one, point) for point in points]
        ground.until(
            lambda: all(each.done() for each in under_way) or all(c.job and ground.fences(c) for c in cases.values()),
            "the first mark of every job",
        )
        client.cordon(HEALTHY, on=False)
        for each in under_way:
            each.result()
    ground.finish(list(cases.values()))
    if who != "job" and length_s > TIMING.dead_after_s + 2 * TIMING.scan_every_s:
        check_lost_and_refused(ground, cases)


def check_lost_and_refused(ground: Ground, cases: dict[str, Case]) -> None:
    for point, case in cases.items():
        if point not in ("report", "upload"):
            assert "lease-lost" in ground.recorder.kinds(case.job), f"{case}: frozen for long, and lost nothing"
    if "commit" in cases and not ground.met["missed commit"]:
        assert ground.refusals(cases["commit"].job), "the zombie's result was refused, and nobody says so"


# ---- a replica or the store: all points at once, since there is one of it


def shared_round(who: str, points: Sequence[str], ground: Ground, length: str) -> None:
    """What is under way to the store when it happens is held before it, and let go right before the wake."""
    platform, leader = ground.platform, ground.leader()
    # The one that serves clients and agents; in the leader's case the leader.
    serving = leader if who == "leader" else 1 - leader
    other, client = platform.client(1 - serving), platform.client(serving)
    ground.seat(serving)
    ground.ready(other)
    # The links of two nodes are held; what needs none of that is on the third.
    nodes = {"start": NODES[0], "report": NODES[1]}
    store, cases = ground.stores[serving], {p: ground.case(f"{who} {p}", nodes.get(p, NODES[2])) for p in points}
    for point in set(points) - {"start"}:
        ground.run(cases[point], client)
    if "report" in cases:
        ground.hold(cases["report"].node, "rx")
        cases["report"].gate.touch()
        ground.until(lambda: ground.phase(cases["report"]) == "SUCCEEDED", "the commit of the result")
    if "start" in cases:
        before_start_is_told(ground, cases["start"], client)
    other.cordon(HEALTHY, on=False)
    store.hold("tx")
    if "commit" in cases:
        cases["commit"].gate.touch()
        ground.meet("commit", lambda: cases["commit"].job.encode() in store.waiting("tx"), cases["commit"])
        cases["commit"].gate.unlink()
    if "renew" in cases:
        ground.meet("renew", lambda: keys.LEASES.encode() in store.waiting("tx"), cases["renew"])
    strike(who, ground, serving, LENGTHS[length])
    ground.finish(list(cases.values()))
    say(f"{who}, {length}: led by {ground.leader()} after {leader}")
    if who == "leader" and LENGTHS[length] > 2 * TIMING.leader_ttl_s:
        assert ground.leader() != leader, "frozen for longer than its lease, and never deposed"


def strike(who: str, ground: Ground, serving: int, length_s: float) -> None:
    platform = ground.platform
    assert platform.etcd is not None
    pid = platform.etcd.pid if who == "store" else platform.servers[serving].pid
    name = "store" if who == "store" else f"replica {platform.servers[serving].name}"

    def let_go() -> None:
        ground.stores[serving].heal()
        for node in ground.nodes:
            ground.release(node)

    ground.freeze(name, lambda: [pid], length_s, let_go)


# ---- moments that only a replica has


def reply_lost(who: str, ground: Ground, length: str) -> None:
    """The result is committed, and the replica that wrote it never hears so before it is frozen."""
    leader = ground.leader()
    serving = leader if who == "leader" else 1 - leader
    other = ground.platform.client(1 - serving)
    ground.seat(serving)
    ground.ready(other)
    case = ground.case(f"{who} reply", NODES[0])
    ground.run(case, other)
    other.cordon(HEALTHY, on=False)
    ground.stores[serving].hold("rx")
    case.gate.touch()
    ground.until(lambda: ground.phase(case) == "SUCCEEDED", f"the commit of {case}")
    strike(who, ground, serving, LENGTHS[length])
    ground.finish([case])


def upload_under_way(who: str, ground: Ground, length: str) -> None:
    """A part of an output is with the replica, or on its way through it to where outputs are kept."""
    leader = ground.leader()
    serving = leader if who == "leader" else 1 - leader
    other = ground.platform.client(1 - serving)
    ground.seat(serving)
    ground.ready(other)
    case = ground.case(f"{who} upload", NODES[2])
    while_uploading(ground, case, other)
    other.cordon(HEALTHY, on=False)
    strike(who, ground, serving, LENGTHS[length])
    ground.finish([case])


def submission_under_way(_who: str, ground: Ground, length: str) -> None:
    """A client's submission is under way to the store; the client asks elsewhere, and has one job in the end."""
    platform = ground.platform
    serving = 1 - ground.leader()
    other = platform.client(1 - serving)
    ground.ready(other)
    other.cordon(HEALTHY, on=False)
    case, store = ground.case("api submit", NODES[0]), ground.stores[serving]
    urls = ",".join(platform.servers[n].url for n in (serving, 1 - serving))
    store.hold("tx")
    with ThreadPoolExecutor(1) as threads:
        submitting = threads.submit(ground.submit, case, platform.client(url=urls, timeout_s=1.0))
        ground.until(lambda: case.gate.name.encode() in store.waiting("tx"), "the submission under way")
        strike("api", ground, serving, LENGTHS[length])
        submitting.result()
    ground.finish([case])


def binding_under_way(_who: str, ground: Ground, length: str) -> None:
    """The leader has decided where a job goes, and is deposed before its word arrives."""
    leader = ground.leader()
    other, store = ground.platform.client(1 - leader), ground.stores[leader]
    ground.seat(1 - leader)
    ground.ready(other)
    other.cordon(HEALTHY, on=False)
    case = ground.case("leader bind", NODES[0])
    store.hold("tx")
    ground.submit(case, other)
    ground.meet("bind", lambda: case.job.encode() in store.waiting("tx"), case)
    strike("leader", ground, leader, LENGTHS[length])
    ground.finish([case])


def revocation_under_way(_who: str, ground: Ground, length: str) -> None:
    """The leader has taken a silent node for dead, is frozen before its word arrives, and the node comes back."""
    platform = ground.platform
    leader = ground.leader()
    other, store = platform.client(1 - leader), ground.stores[leader]
    ground.seat(1 - leader)
    ground.ready(other)
    case = ground.case("leader revoke", NODES[0])
    ground.run(case, other)
    other.cordon(HEALTHY, on=False)
    agent = platform.agents[case.node]

    def hold_and_wait() -> None:
        store.hold("tx")
        ground.meet("revoke", lambda: case.job.encode() in store.waiting("tx"), case)

    # Held only when it is about to come: a leader that cannot renew resigns before it says anything.
    ground.freeze(f"agent {case.node}", lambda: [agent.pid], 0.7 * TIMING.dead_after_s, hold_and_wait)
    strike("leader", ground, leader, LENGTHS[length])
    ground.finish([case])


# ---- the matrix

Round = Callable[[Ground, str], None]
ROUNDS: dict[str, tuple[Round, ...]] = {
    "agent": (partial(node_round, "agent", POINTS[:3]), partial(node_round, "agent", POINTS[3:])),
    "machine": (partial(node_round, "machine", POINTS[:3]), partial(node_round, "machine", POINTS[3:])),
    "job": (partial(node_round, "job", ("start", "running")),),
    "leader": (
        partial(shared_round, "leader", POINTS[:5]),
        partial(upload_under_way, "leader"),
        partial(reply_lost, "leader"),
        partial(binding_under_way, "leader"),
        partial(revocation_under_way, "leader"),
    ),
    "api": (
        partial(shared_round, "api", POINTS[:5]),
        partial(upload_under_way, "api"),
        partial(reply_lost, "api"),
        partial(submission_under_way, "api"),
    ),
    "store": (partial(shared_round, "store", POINTS[:5]), partial(upload_under_way, "store")),
}


@pytest.mark.timeout(180)
def test_a_few_zombies(tmp_path: Path) -> None:
    """Three machines that sleep until others have their jobs, and a leader that sleeps until it is none."""
    with ground(tmp_path, NODES) as one:
        node_round("machine", ("start", "running", "commit"), one, "longer than T_dead")
        shared_round("leader", ("running", "commit"), one, "longer than the leader's lease")
        one.judge(tmp_path)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("repeat", range(3))
@pytest.mark.parametrize("who", ROUNDS)
def test_every_zombie(tmp_path: Path, seed: int, who: str, repeat: int) -> None:
    rounds = [(length, each) for length in LENGTHS for each in ROUNDS[who]]
    random.Random(seed + repeat).shuffle(rounds)
    with ground(tmp_path, NODES) as one:
        for length, each in rounds:
            each(one, length)
        one.judge(tmp_path)
