"""Which cluster a job is offered to, by the real router and scripted clusters."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from ares.control.federation import router
from ares.control.federation.owner_index import UnownedJobs
from ares.core import keys
from ares.core.routing.egress import prices_of
from ares.model.cluster_link import Accepted, Offered
from ares.model.job import DataInput
from ares.model.scaling import EgressPrice
from ares.model.uplink import ReportedEta, ReportedRoom
from ares.ports.store import Put
from tests.unit.control.federation.clusters import SHAPE, ScriptedCluster, standing
from tests.world import ALICE, BOB, World
from tests.world import spec as world_spec

# Four GPUs on four machines: no job of two fits one of them.
SPREAD = replace(
    SHAPE, cpu_milli=8000, memory_mib=8000, gpus=2, nodes=4, free_cpu_milli=32_000, free_memory_mib=32_000, free_gpus=4,
    rooms=(ReportedRoom(machines=4, cpu_milli=8000, memory_mib=8000, gpus=1),),
    etas=(ReportedEta(cpu_milli=8000, memory_mib=8000, gpus=2, eta80_s=900.0),),
)  # fmt: skip
FOUR = replace(SHAPE, gpus=4, free_gpus=4)
FULL = replace(SHAPE, free_gpus=0, etas=(ReportedEta(cpu_milli=64_000, memory_mib=64_000, gpus=8, eta80_s=600.0),))


async def _two(world: World, **changes: Any) -> tuple[ScriptedCluster, ScriptedCluster]:
    """`east` and `west`, with this in their reports."""
    found: list[ScriptedCluster] = []
    for name in ("east", "west"):
        cluster = ScriptedCluster(world, name)
        await cluster.connect()
        await cluster.list_()
        await cluster.report(**changes.get(name, {}))
        found.append(cluster)
    return found[0], found[1]


def _route(world: World, job: str) -> dict[str, Any]:
    """As the last offer's entry keeps it."""
    return [event for event in world.audit.events[job] if event.kind == "offered"][-1].data["route"]


async def _offered(world: World, cluster: ScriptedCluster, job: str) -> None:
    await world.until(lambda: job in [offer.offer.job for offer in cluster.of(Offered)])


async def test_free_room_is_where_one_machine_has_it() -> None:
    async with World() as world:
        _, west = await _two(world, east={"shapes": (SPREAD,)}, west={"shapes": (FULL,)})
        # East has four GPUs free, and not two of them together: 900 s against 600 s.
        job = await world.submit(gpus=2)
        await _offered(world, west, job)
        kept = _route(world, job)
        assert [(routed["cluster"], routed["terms"]["waitS"]) for routed in kept["ranked"]] == [
            ("west", 600.0),
            ("east", 900.0),
        ]


async def test_a_burst_is_spread_although_reports_do_not_show_it_yet() -> None:
    async with World() as world:
        east, west = await _two(world, east={"shapes": (FOUR,)}, west={"shapes": (FOUR,)})
        jobs = [await world.submit(gpus=1) for _ in range(6)]
        await world.until(lambda: len(east.of(Offered)) + len(west.of(Offered)) == 6)
        for cluster in (east, west):
            assert len(cluster.of(Offered)) == 3
            # Taken, and in no report: each report that follows still shows all of it as free.
            await cluster.say(*(Accepted(job=offer.offer.job, epoch=offer.epoch) for offer in cluster.of(Offered)))
        await world.advance(2.0)
        for cluster in (east, west):
            await cluster.report(shapes=(FOUR,))
        late = await world.submit(gpus=2)
        await world.until(lambda: world.state(late).owner is not None)
        assert {(routed["free"], routed["offered"]) for routed in _route(world, late)["ranked"]} == {(2, 2)}
        # A cluster that has told of its jobs, and reported since, has them in its report.
        await east.say(
            *(standing(offer.offer.job, offer.epoch) for offer in east.of(Offered) if offer.offer.job in jobs)
        )
        await world.advance(2.0)
        await east.report(shapes=(FOUR,))
        last = await world.submit(gpus=1)
        await world.until(lambda: world.state(last).owner is not None)
        told = {routed["cluster"]: routed["offered"] for routed in _route(world, last)["ranked"]}
        late_at = world.state(late).owner
        assert late_at is not None
        assert told == {"east": 2 if late_at.cluster == "east" else 0, "west": 5 if late_at.cluster == "west" else 3}


async def test_the_next_leader_counts_what_the_one_before_it_offered() -> None:
    async with World(replicas=2) as world:
        _, west = await _two(world, east={"shapes": (FULL,)}, west={"shapes": (FOUR,)})
        for _ in range(3):
            await world.submit(gpus=1)
        await world.until(lambda: len(west.of(Offered)) == 3)
        before = world.leading()[0]
        await before.stop()
        other = next(replica for replica in world.replicas if replica is not before)
        await world.until(lambda: other.leader.leading)
        await world.settle()
        sums = other.federation.routes.offered_room.of("west")
        assert [amounts[2] for amounts in sums.values()] == [3]


async def test_jobs_that_no_cluster_can_run_hold_up_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router, "_AT_ONCE", 2)
    async with World() as world:
        east, _ = await _two(world, east={"shapes": (FOUR,)}, west={"shapes": (FOUR,)})
        never = [await world.submit(gpus=64, priority="HIGH") for _ in range(3)]
        jobs = [await world.submit(gpus=1, selector={"only": "east"} if number else {}) for number in range(2)]
        await _offered(world, east, jobs[0])
        assert all(world.state(job).owner is None for job in (*never, jobs[1]))


async def test_the_highest_priority_is_offered_first_then_what_came_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router, "_AT_ONCE", 1)
    async with World() as world:
        one = ScriptedCluster(world, "east")
        asked: list[str] = []
        for priority in ("LOW", "NORMAL", "HIGH", "NORMAL"):
            asked.append(await world.submit(gpus=1, priority=priority))
            await world.advance(1.0)
        await one.connect()
        await one.list_()
        await one.report(shapes=(FOUR,))
        await world.until(lambda: len(one.of(Offered)) == 4)
        assert [offer.offer.job for offer in one.of(Offered)] == [asked[2], asked[1], asked[3], asked[0]]


def test_jobs_without_a_cluster_are_in_order_whatever_becomes_of_them() -> None:
    unowned = UnownedJobs()
    for job, level, since in (("a", 1, 1.0), ("b", 1, 2.0), ("c", 0, 3.0), ("d", 1, 4.0)):
        unowned.put(job, level, since)
    assert unowned.in_order() == ["c", "a", "b", "d"]
    # Its priority is changed; it came back from a cluster; it has gone; it is as it was.
    unowned.put("c", 1, 3.0)
    unowned.put("a", 1, 5.0)
    unowned.remove("d")
    unowned.put("b", 1, 2.0)
    assert (unowned.in_order(), len(unowned), "d" in unowned) == (["b", "c", "a"], 3, False)


async def test_money_counts_by_the_profile_and_data_where_it_is() -> None:
    async with World() as world:
        dear = {"shapes": (replace(SHAPE, gpu_hour=10.0),), "datasets": ("imagenet",)}
        east, west = await _two(world, east=dear, west={})
        cheap = await world.submit(gpus=1, expected_runtime_s=3600.0)
        await _offered(world, west, cheap)
        assert _route(world, cheap)["ranked"][1]["terms"]["runCost"] == 10.0
        # 1,000 GiB at one in a second: 1,000 s are more than 10 x 60 s.
        near = await world.submit(
            gpus=1, expected_runtime_s=3600.0, inputs=(DataInput(name="imagenet", size_mib=1000 * 1024),)
        )
        await _offered(world, east, near)


async def test_moving_data_costs_what_the_catalogue_says_from_the_cheapest_region_that_has_it() -> None:
    async with World() as world:
        there = {"datasets": ("imagenet",)}
        east, west = await _two(world, east={**there, "shapes": (replace(SHAPE, gpu_hour=10.0),)}, west={})
        for name, region in (("east", "eu"), ("west", "us")):
            record = replace(world.one.view.kept.clusters[name], region=region)
            await world.store.txn([], [Put(keys.cluster(name), msgspec.json.encode(record))])
        await world.settle()
        data = (DataInput(name="imagenet", size_mib=100 * 1024),)
        first = await world.submit(gpus=1, expected_runtime_s=3600.0, inputs=data)
        # 100 s for the data are less than 10 x 60 s.
        await _offered(world, west, first)
        listed = [
            EgressPrice(from_="eu", to="us", per_gib=0.2, gib_per_s=4.0), EgressPrice(from_="*", to="*", per_gib=9.0)
        ]  # fmt: skip
        world.one.federation.routes.prices.egress = prices_of(listed)
        second = await world.submit(gpus=1, expected_runtime_s=3600.0, inputs=data)
        await _offered(world, east, second)
        terms = {found["cluster"]: found["terms"] for found in _route(world, second)["ranked"]}
        assert (terms["west"]["egressCost"], terms["west"]["dataS"]) == (20.0, 25.0)
        assert terms["east"].get("egressCost", 0.0) == 0.0


async def test_hard_rules_keep_a_job_here_and_say_why_for_each_cluster() -> None:
    async with World() as world:
        east, west = await _two(world)
        job = await world.submit(gpus=9)
        await world.advance(3.0)
        assert not east.of(Offered)
        assert not west.of(Offered)
        spec = world.one.view.spec(world.state(job))
        assert spec is not None
        found = world.one.federation.routes.of(world.state(job), spec)
        assert [(no.cluster, no.code) for no in found.refused] == [("east", "too-large"), ("west", "too-large")]


async def test_a_slow_answer_is_not_waited_for_where_that_gains_enough() -> None:
    async with World() as world:
        east, west = await _two(world, east={"shapes": (SHAPE,)}, west={"shapes": (FULL,)})
        job = await world.submit(gpus=1, expected_runtime_s=100.0)
        await _offered(world, east, job)
        # East does not answer, its room has gone, and west has some now: 600 s are saved.
        await world.advance(2.0)
        await east.report(shapes=(FULL,))
        await west.report(shapes=(SHAPE,))
        await _offered(world, west, job)
        kinds = world.kinds(job)
        assert kinds.count("offered") == 2
        over = next(event for event in world.audit.events[job] if event.kind == "offer-over")
        assert "cluster west is better by now" in over.reason


async def test_a_region_is_a_hard_rule() -> None:
    async with World() as world:
        for name, region in (("east", "us"), ("west", "eu")):
            cluster = ScriptedCluster(world, name)
            await cluster.connect(region=region)
            await cluster.list_()
            # East has room at once, west in ten minutes.
            await cluster.report(shapes=(SHAPE if name == "east" else FULL,))
        job = await world.submit(gpus=1, residency=("eu",))
        await world.until(lambda: world.state(job).owner is not None)
        kept = _route(world, job)
        assert [routed["cluster"] for routed in kept["ranked"]] == ["west"]
        assert [(no["cluster"], no["code"]) for no in kept["refused"]] == [("east", "residency")]


# ---- what people are told


async def test_a_job_that_no_cluster_can_run_says_why_for_each_and_everywhere_the_same() -> None:
    async with World() as world:
        await _two(world, west={"shapes": ()})
        job = await world.submit(gpus=9)
        await world.advance(3.0)
        seen = await world.one.federation.answers.of(ALICE, job)
        assert seen is not None
        assert seen.message == (
            "no cluster can take it: east: none of its 1 kinds of machines has 1 cores, 9 GPUs and 64 MiB (too-large); "
            "west: it has no machine that is ready (too-large)"
        )
        explained = await world.one.explain.job(ALICE, job)
        assert explained is not None
        assert explained.reason is not None
        assert (explained.reason.code, explained.reason.message) == ("NO_CLUSTER", seen.message)
        # Another tenant's job is none.
        assert await world.one.federation.answers.of(BOB, job) is None


async def test_a_decision_is_told_as_it_was_made_with_what_would_have_changed_it() -> None:
    async with World() as world:
        _, west = await _two(world, east={"shapes": (FULL,)}, west={"rtt_ms": 50})
        job = await world.submit(gpus=1, expected_runtime_s=100.0)
        await _offered(world, west, job)
        seen = await world.one.federation.answers.of(ALICE, job)
        assert seen is not None
        assert seen.decision is not None
        assert seen.at is not None
        assert (seen.decision.chosen, seen.flip and (seen.flip.cluster, seen.flip.term)) == ("west", ("east", "wait_s"))
        assert "cluster east would win with wait_s below" in seen.message


async def test_a_strict_deadline_is_judged_by_the_clusters() -> None:
    async with World() as world:
        await _two(world, east={"shapes": (FULL,)}, west={"shapes": (FULL,)})
        due = world.clock.wall() + 500.0
        spec = world_spec(gpus=1, expected_runtime_s=100.0, deadline_at=due, deadline_strict=True)
        # There is room in 600 s.
        late = await world.one.deadlines.ahead(ALICE, spec)
        assert late is not None
        assert late.verdict == "no"
        soon = await world.one.deadlines.ahead(ALICE, replace(spec, deadline_at=due + 1000.0))
        assert soon is not None
        assert soon.verdict == "yes"
