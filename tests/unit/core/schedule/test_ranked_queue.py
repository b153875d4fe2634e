"""Which class is next: the same by estimates and by exact ranks, and few exact ranks however many classes wait."""

import random
from math import inf

import numpy as np
import pytest

from ares.api.decisions import Promise
from ares.core.ask import Ask
from ares.core.capacity.fit import Evaluations
from ares.core.capacity.node_slice import NodeSlice
from ares.core.capacity.node_table import Ints
from ares.core.queue.factors import rank
from ares.core.queue.heads import about, estimable
from ares.core.queue.waiting import WaitingQueue, facts_of
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.cycle import cycle
from ares.core.schedule.ranked_queue import RankedQueue
from ares.core.schedule.trial import Trial
from ares.model.job import PRIORITIES
from ares.model.profile import BackfillPolicy, OrderPolicy, Profile, Share, Weight
from tests.unit.core.world import NOW, cluster, node, placed, run, spec, state

EASY = Profile(backfill=BackfillPolicy(strategy="easy"), shares={"t1": Share(weight=3.0)})


def _many(chance: random.Random, made: Cluster, jobs: int) -> None:
    """Jobs of many classes: tenants, priorities, sizes and deadlines of all kinds, some submitted at one moment."""
    for number in range(jobs):
        tenant = f"t{chance.randrange(7)}"
        wanted = spec(
            cpu=chance.randrange(1, 9),
            memory=chance.randrange(1, 40),
            priority=chance.choice(PRIORITIES),
            deadline_at=NOW + chance.randrange(100_000) if chance.random() < 0.2 else None,
        )
        made.enqueue(state(f"j{number:04}", tenant=tenant, at=NOW - 100.0 * chance.randrange(400)), wanted)


def _order(made: Cluster) -> list[str]:
    trial = Trial(made, made.profile, NOW)
    found: list[str] = []
    for job, job_class in RankedQueue(trial).rest():
        found.append(job)
        # Shares move while the order is asked for.
        if len(found) % 3 == 0:
            trial.spend(job_class.key.account, made.capacity())
    trial.close()
    return found


def _by_exact_ranks(made: Cluster, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    def none(_: WaitingQueue) -> None:
        """The way through all classes."""

    with monkeypatch.context() as patched:
        patched.setattr(WaitingQueue, "heads", none)
        return _order(made)


@pytest.mark.parametrize("seed", range(6))
def test_the_order_is_that_of_exact_ranks(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    made = cluster(*(node(f"n{at}", cpu=64) for at in range(4)), profile=EASY)
    run(made, "r", spec(cpu=8), placed("n0", cpu=8), since=NOW - 50.0)
    _many(chance, made, 300)
    for _ in range(4):
        assert made.waiting.heads() is not None, "there are classes enough"
        assert _order(made) == _by_exact_ranks(made, monkeypatch)
        waiting = _order(made)
        for job in chance.sample(waiting, 30):
            made.dequeue(job)
        # Some of the jobs that are left were promised a start: no job of their priority passes them.
        kept = [job for job in waiting if job in made.waiting][40:200:40]
        made.promise(
            Promise(job=job, start=NOW + 5.0, until=None, placements=(), first_start=NOW, made_at=NOW) for job in kept
        )
        for number in range(20):
            made.enqueue(state(f"new{chance.random()}", at=NOW - number), spec(memory=100 + chance.randrange(9)))


def test_an_order_with_a_factor_of_a_plugin_goes_by_exact_ranks() -> None:
    assert estimable(OrderPolicy())
    assert not estimable(OrderPolicy(primary=(Weight(name="priority", weight=1.0), Weight(name="luck", weight=1.0))))


def test_estimates_enclose_the_exact_rank_and_hardly_more() -> None:
    made = cluster(node("a", cpu=64), profile=EASY)
    run(made, "r", spec(cpu=8), placed("a", cpu=8), since=NOW - 50.0)
    _many(random.Random(9), made, 400)
    heads, order, shares = made.waiting.heads(), made.profile.order, made.shares(NOW)
    assert heads is not None
    ids, facts = heads.columns()
    assert set(ids.tolist()) == set(made.waiting.active)
    least, most = about(facts, order.primary, shares, order, NOW)
    for number, low, high in zip(ids.tolist(), least.tolist(), most.tolist(), strict=True):
        job_class = made.waiting.active[number]
        exact, _ = rank(facts_of(job_class.line.nth(0), job_class.key), shares, order, NOW)
        assert low < exact < high
        assert high - low < 1e-6


def test_accounts_that_left_do_not_stay_in_the_columns() -> None:
    made = cluster(node("a"))
    for number in range(70):
        made.enqueue(state(f"stays{number}", at=NOW), spec(memory=1 + number))
    for wave in range(5):
        for number in range(300):
            made.enqueue(state(f"j{number}", tenant=f"t{wave}-{number}", at=NOW), spec())
        heads = made.waiting.heads()
        assert heads is not None
        assert len(heads.columns()[1].accounts) == 301
        for number in range(300):
            made.dequeue(f"j{number}")
    heads = made.waiting.heads()
    assert heads is not None
    assert len(heads.columns()[1].accounts) == 1


class _Counted:
    """How many exact ranks were made, and how many rows had changed for an ask."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ranks = self.rows = 0
        key, behind = RankedQueue._key, Evaluations._behind  # pyright: ignore[reportPrivateUsage]

        def counted_key(queue: RankedQueue, turn: object) -> object:
            self.ranks += 1
            return key(queue, turn)  # type: ignore[arg-type]

        def counted_behind(evaluations: Evaluations, ask: Ask, caught_up: int) -> Ints | slice:
            rows = behind(evaluations, ask, caught_up)
            self.rows += evaluations.table.used if isinstance(rows, slice) else len(rows)
            return rows

        monkeypatch.setattr(RankedQueue, "_key", counted_key)
        monkeypatch.setattr(Evaluations, "_behind", counted_behind)

    def start(self) -> None:
        self.ranks = self.rows = 0


def _news(nodes: int, classes: int, each: int, monkeypatch: pytest.MonkeyPatch) -> _Counted:
    """Ten jobs end and ten come, on nodes that are full: what the cycle after that has to look at."""
    made = cluster(*(node(f"n{at}", cpu=8) for at in range(nodes)), profile=Profile(max_placements_per_cycle=20))
    for at in range(nodes):
        run(made, f"r{at}", spec(cpu=8), placed(f"n{at}", cpu=8), since=NOW - 50.0)
    for number in range(classes * each):
        made.enqueue(state(f"j{number:07}", at=NOW - 9000.0 + number), spec(cpu=8, memory=2 + number % classes))
    cycle(made, NOW)
    counted = _Counted(monkeypatch)
    for at in range(10):
        made.release(f"r{at}")
        made.enqueue(state(f"new{at}", at=NOW), spec(cpu=8, memory=2))
    counted.start()
    assert len(cycle(made, NOW).placed) == 10
    return counted


def test_a_cycle_costs_what_its_news_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        few = _news(100, 70, 1, patched)
    with monkeypatch.context() as patched:
        more_nodes = _news(1000, 70, 1, patched)
    with monkeypatch.context() as patched:
        more_jobs = _news(100, 70, 60, patched)
    # Every class is told why it waits; jobs behind the first of a class, and nodes without news, cost nothing.
    assert more_nodes.ranks <= few.ranks
    assert more_jobs.ranks <= 2 * few.ranks, "of 60 times as many jobs"
    assert few.rows
    assert more_nodes.rows <= 2 * few.rows, "of ten times as many nodes"
    assert more_jobs.rows <= 2 * few.rows


def test_columns_are_scored_once_for_each_kind_of_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs of many kinds by turns: what each changes is few rows, and these are scored one by one."""
    made = cluster(*(node(f"n{at}", cpu=8, memory=64) for at in range(100)))
    for number in range(200):
        made.enqueue(state(f"j{number:03}", at=NOW - 9000.0 + number), spec(cpu=2, memory=10 + number % 10))
    weighed: list[int] = []
    weigh = Evaluations.weigh

    def counted(evaluations: Evaluations, rows: NodeSlice) -> object:
        weighed.append(len(rows))
        return weigh(evaluations, rows)

    monkeypatch.setattr(Evaluations, "weigh", counted)
    assert len(cycle(made, NOW).placed) == 200
    assert len(weighed) == 10
    assert min(weighed) > 90


def test_few_of_many_classes_get_an_exact_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    made = cluster(
        node("a", cpu=64_000, memory=1 << 30), profile=Profile(max_placements_per_cycle=5, actions=("allocate",))
    )
    for number in range(3000):
        made.enqueue(state(f"j{number:05}", at=NOW - 9000.0 + number), spec(memory=1 + number % 1500))
    counted = _Counted(monkeypatch)
    assert len(cycle(made, NOW).placed) == 5
    assert counted.ranks < 40


def test_a_node_that_changes_is_seen_by_jobs_that_looked_before() -> None:
    made = cluster(node("a", labels={"disk": "hdd"}), node("b"), node("c"), node("d"), node("e"))
    wanted = spec(selector={"disk": "ssd"})
    made.enqueue(state("j", at=NOW), wanted)
    assert not cycle(made, NOW).placed
    made.put_node(node("c", labels={"disk": "ssd"}))
    (job,) = cycle(made, NOW).placed
    assert job.placements[0].node == "c"
    made.put_node(node("c"))
    assert not cycle(made, NOW).placed
    found = made.waiting.class_of("j")
    assert found is not None
    assert np.count_nonzero(made.evaluations.of(found.key.asks[0]).score != -inf) == 0
