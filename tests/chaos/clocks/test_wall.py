"""Wall clocks that jump: no lease, fence, retry, time limit or leadership moves with them, and tokens fail closed."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from ares.edge.client.calls.answers import Submitted
from ares.edge.client.errors import Unauthorized
from ares.edge.client.sync import Client
from ares.model.job import RetryPolicy
from tests.chaos.clocks.wall import Wall
from tests.chaos.load import marked
from tests.history import Acknowledged, judge, read_store
from tests.platform import Platform, StoreKind, eventually

pytestmark = pytest.mark.chaos

JUMP_S = 300.0
STROBES = 20
# Which clocks are wrong, and in which direction each goes.
WHOSE = {
    "server": {"server": 1},
    "agent": {"agent": 1},
    "both": {"server": 1, "agent": 1},
    "apart": {"server": 1, "agent": -1},
}
# Uptime seconds that the marks of a job may be off by: they are written with two digits.
TICK_S = 0.02
BACKOFF = RetryPolicy(limit=5, base_s=3.0, max_s=3.0)
LIMIT_S = 4.0
# Far less than a jump, and far more than a busy machine keeps a renewal waiting.
LEASE_S = 60.0


@dataclass
class Clocks:
    """A platform whose server and agent have wall clocks of their own."""

    platform: Platform
    marks: Path
    walls: dict[str, Wall]
    told: list[Acknowledged]

    @property
    def client(self) -> Client:
        return self.platform.client()

    def submit(self, **wanted: object) -> Submitted:
        request = f"clock-{len(self.told)}"
        job = self.client.submit(marked(self.marks, lease_s=LEASE_S, **wanted), request_id=request)  # pyright: ignore[reportArgumentType]
        self.told.append(Acknowledged(request, job.id))
        return job

    def jump(self, whose: str, offset_s: float) -> None:
        for who, sign in WHOSE[whose].items():
            self.walls[who].set(sign * offset_s)

    def strobe(self, whose: str, rng: random.Random) -> None:
        for _ in range(STROBES):
            self.jump(whose, rng.choice((-JUMP_S, JUMP_S, 0.0)))
            # Not a synchronisation: the clock is wrong for so long.
            time.sleep(rng.uniform(0.004, 0.1))

    def ticks(self, job: Submitted, fence: str) -> list[float]:
        """When an attempt began and lived, by the machine's own uptime."""
        return [float(line) for line in (self.marks / f"{job.id}.{fence}").read_text().split()]


@pytest.fixture
def clocks(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Clocks]:
    store: StoreKind = getattr(request, "param", "sqlite")
    with ExitStack() as stack:
        platform = stack.enter_context(Platform(tmp_path / "platform", store))
        walls = {who: Wall(tmp_path / f"{who}.clock") for who in ("server", "agent")}
        platform.server(env=walls["server"].env)
        platform.agent("node-a", env=walls["agent"].env)
        marks = tmp_path / "marks"
        marks.mkdir()
        yield Clocks(platform, marks, walls, [])


def go_through(clocks: Clocks, whose: str, wrong: Callable[[], None]) -> None:
    """Jobs of every kind are under way when the clocks go wrong, and all go on as if nothing had been."""
    client = clocks.client
    running = clocks.submit(beats=40)
    limited = clocks.submit(beats=6000, time_limit_s=LIMIT_S, grace_s=0.0, retry=RetryPolicy(limit=0))
    waiting = clocks.submit(fails=1, beats=0, retry=BACKOFF)
    for job in (running, limited):
        eventually(lambda job=job: client.get(job).state.started_at, f"the start of {job.id}")
    eventually(lambda: client.get(waiting).state.retries, "the first failure")
    leading = leader_since(clocks)

    wrong()

    assert client.wait(running, timeout=60).state.attempt == 1, f"{whose}: {client.job_events(running)}"
    check_backoff(clocks, waiting)
    check_limit(clocks, limited)
    after = clocks.submit(beats=0)
    assert client.wait(after, timeout=60).state.phase == "SUCCEEDED"
    lost = [event for one in clocks.told for event in client.job_events(one.job) if event.kind == "lease-lost"]
    assert not lost, f"{whose}: a jump of the wall clock took jobs away: {lost}"
    assert leader_since(clocks) == leading, f"{whose}: leadership changed hands"


def check_backoff(clocks: Clocks, job: Submitted) -> None:
    """The second attempt came after the delay that was drawn, and not when the wall clock said so."""
    client = clocks.client
    assert client.wait(job, timeout=60).state.phase == "SUCCEEDED"
    events = client.job_events(job)
    first, second = [event.fence for event in events if event.kind == "bound"]
    (delay_s,) = [float(event.data["delayS"]) for event in events if event.kind == "retrying"]
    paused_s = clocks.ticks(job, second)[0] - clocks.ticks(job, first)[-1]
    assert paused_s >= delay_s - TICK_S, f"{job.id} was repeated after {paused_s} s instead of {delay_s} s"


def check_limit(clocks: Clocks, job: Submitted) -> None:
    """It ran as long as it may, and no longer than it was noticed."""
    state = clocks.client.wait(job, timeout=60).state
    assert state.exit is not None
    assert (state.phase, state.exit.failure) == ("FAILED", "time-limit"), state
    ticks = clocks.ticks(job, str(state.fence))
    ran_s = ticks[-1] - ticks[0]
    assert ran_s >= LIMIT_S - 1.0, f"{job.id} may run for {LIMIT_S:g} s and was ended after {ran_s:g} s"


def leader_since(clocks: Clocks) -> list[str]:
    """Every election is a line in the log."""
    log = clocks.platform.servers[0].log.read_text()
    return [line for line in log.splitlines() if "leader." in line and "elected" in line]


def judge_all(clocks: Clocks) -> None:
    for process in (*clocks.platform.agents.values(), *clocks.platform.servers.values()):
        process.kill()
    judge(clocks.told, read_store(clocks.platform.store_url), clocks.marks)


@pytest.mark.timeout(240)
def test_clocks_that_jump_apart_move_nothing(clocks: Clocks) -> None:
    def jump() -> None:
        clocks.jump("apart", JUMP_S)

    go_through(clocks, "apart", jump)
    judge_all(clocks)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("clocks", ["sqlite", pytest.param("etcd", marks=pytest.mark.etcd)], indirect=True)
@pytest.mark.parametrize("whose", sorted(WHOSE))
def test_wrong_clocks_of_every_kind_move_nothing(clocks: Clocks, whose: str, seed: int) -> None:
    """Each of five kinds of work, on each wrong clock, through each way of being wrong."""
    rng = random.Random(seed)
    ways: dict[str, Callable[[], None]] = {
        "ahead": lambda: clocks.jump(whose, JUMP_S),
        "behind": lambda: clocks.jump(whose, -JUMP_S),
        "strobe": lambda: clocks.strobe(whose, rng),
        "there and back": lambda: (clocks.jump(whose, -JUMP_S), clocks.jump(whose, 0.0))[0],
    }
    for name in rng.sample(sorted(ways), len(ways)):
        go_through(clocks, f"{whose}, {name}", ways[name])
    judge_all(clocks)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("offset_s", [-JUMP_S, JUMP_S])
def test_processes_that_start_again_with_a_wrong_clock_are_known_again(clocks: Clocks, offset_s: float) -> None:
    client = clocks.client
    before = clocks.submit(beats=0)
    client.wait(before, timeout=60)
    running = clocks.submit(beats=100)
    eventually(lambda: client.get(running).state.phase == "RUNNING", "the start")
    clocks.jump("both", offset_s)
    clocks.platform.servers[0].kill()
    clocks.platform.server()
    clocks.platform.agents["node-a"].kill()
    clocks.platform.agent("node-a")
    assert client.wait(running, timeout=90).state.phase == "SUCCEEDED"
    assert client.get(before).state.phase == "SUCCEEDED"
    judge_all(clocks)


@pytest.mark.soak
@pytest.mark.timeout(240)
def test_tokens_fail_closed_whichever_way_the_clock_jumps(clocks: Clocks) -> None:
    admin, server = clocks.client, clocks.walls["server"]
    minute = clocks.platform.client(token=admin.create_token(role="viewer", ttl_s=60.0).token)
    second = clocks.platform.client(token=admin.create_token(role="viewer", ttl_s=1.0).token)
    join = admin.create_join_token(node="node-b", ttl_s=60.0).token
    minute.nodes()

    server.set(JUMP_S)
    assert refused(minute)
    late = clocks.platform.agent("node-b", wait=False, env={"ARES_JOIN_TOKEN": join})
    eventually(lambda: not late.alive, "the end of an agent that came too late")
    assert "expired" in late.tail()

    server.set(0)
    eventually(lambda: refused(second), "the end of a token that is good for a second")
    server.set(-JUMP_S)
    assert refused(second), "a clock that was set back revived a token"
    minute.nodes()


def refused(client: Client) -> bool:
    try:
        client.nodes()
    except Unauthorized:
        return True
    return False
