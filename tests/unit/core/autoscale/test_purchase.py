"""What is worth buying: by the real cycle, on machines that are not there."""

from msgspec.structs import replace

from ares.core.autoscale.instance import InstanceStep, Known, pause_s, room, step
from ares.core.autoscale.purchase import Growth, Purchase, purchases, virtual
from ares.core.autoscale.worth import JobStake
from ares.core.kube.inventory import features
from ares.core.schedule.cluster import Cluster
from ares.model.job import Gang, Image
from ares.model.scaling import InstanceRecord, NodeShape, ScalingPool
from tests.unit.core.world import NOW, cluster, node, nodes_of, plan, spec, state

SHAPE = NodeShape(cpu_milli=4000, memory_mib=8192, gpus=4, gpu_model="NVIDIA A100-SXM4-80GB", gpu_memory_mib=80_000)


def pool(name: str = "gold", shape: NodeShape = SHAPE, **changes: float) -> ScalingPool:
    return ScalingPool(name=name, shape=shape, nodes_max=10, **changes)  # pyright: ignore[reportArgumentType]


def bought(made: Cluster, *growths: Growth, coming: int = 0, waited_s: float = 60.0) -> tuple[Purchase, ...]:
    on_way = [virtual(f"coming-{number}", pool()) for number in range(coming)]
    return purchases(made, on_way, growths, lambda _: JobStake(waited_s), NOW)


def test_as_many_as_the_waiting_jobs_fill_and_no_more() -> None:
    made = cluster(node("a", gpus=1))
    for number in range(5):
        made.enqueue(state(f"j{number}", number), spec(gpus=2))
    (purchase,) = bought(made, Growth(pool(), 10))
    assert (purchase.pool, purchase.machines, len(purchase.jobs)) == ("gold", 3, 5)
    (fewer,) = bought(made, Growth(pool(), 2))
    assert (fewer.machines, len(fewer.jobs)) == (2, 4)


def test_the_picture_is_left_as_it_was() -> None:
    made = cluster(node("a", cpu=2))
    made.enqueue(state("j1"), spec(cpu=2))
    made.enqueue(state("j2", 1), spec(cpu=2))
    before = nodes_of(plan(made))
    bought(made, Growth(pool(), 3))
    assert (set(made.rows), made.ready_nodes, nodes_of(plan(made))) == ({"a"}, {"a"}, before)


def test_nothing_for_jobs_that_have_room_or_wait_for_something_else() -> None:
    made = cluster(node("a", gpus=4))
    made.enqueue(state("fits"), spec(gpus=2))
    made.enqueue(state("never", 1), spec(gpus=64))
    assert bought(made, Growth(pool(), 10)) == ()


def test_machines_on_their_way_count() -> None:
    made = cluster(node("a", gpus=0))
    for number in range(4):
        made.enqueue(state(f"j{number}", number), spec(gpus=2))
    assert [purchase.machines for purchase in bought(made, Growth(pool(), 10), coming=1)] == [1]
    assert bought(made, Growth(pool(), 10), coming=2) == ()


def test_a_gang_is_bought_for_whole_or_not_at_all() -> None:
    made = cluster(node("a", gpus=0))
    made.enqueue(state("gang"), spec(gpus=4, gang=Gang(ranks=3)))
    (purchase,) = bought(made, Growth(pool(), 3))
    assert (purchase.machines, purchase.jobs) == (3, ("gang",))
    assert bought(made, Growth(pool(), 2)) == ()


def test_jobs_that_have_not_waited_long_enough_are_not_bought_for() -> None:
    made = cluster(node("a", gpus=0))
    made.enqueue(state("j"), spec(gpus=1))
    assert bought(made, Growth(pool(after_s=30.0), 3), waited_s=29.0) == ()
    assert len(bought(made, Growth(pool(after_s=30.0), 3), waited_s=30.0)) == 1


def test_the_pool_that_starts_more_for_its_price_comes_first() -> None:
    made = cluster(node("a", gpus=0))
    made.enqueue(state("j"), spec(gpus=1))
    dear, cheap = pool("dear", node_hour=30.0), pool("cheap", node_hour=3.0)
    long = 36_000.0
    assert [purchase.pool for purchase in bought(made, Growth(dear, 1), Growth(cheap, 1), waited_s=long)] == ["cheap"]
    made.enqueue(state("big", 1), spec(gpus=4))
    made.enqueue(state("other", 2), spec(gpus=4))
    found = bought(made, Growth(dear, 5), Growth(cheap, 1), waited_s=long)
    assert [(purchase.pool, purchase.machines) for purchase in found] == [("cheap", 1), ("dear", 2)]
    assert found[1].cost == 60.0


def test_a_machine_is_bought_when_the_waiting_has_cost_as_much_as_it_will() -> None:
    made = cluster(node("a", gpus=0))
    made.enqueue(state("j"), spec(gpus=4))
    # An hour of run time, a minute to boot and ten idle minutes, at 3 an hour: 3.55, worth 213 s of waiting.
    priced = pool(node_hour=3.0)
    assert bought(made, Growth(priced, 3), waited_s=210.0) == ()
    (purchase,) = bought(made, Growth(priced, 3), waited_s=214.0)
    assert (purchase.machines, round(purchase.worth.price, 2), round(purchase.worth.value, 2)) == (1, 3.55, 3.57)


def test_of_many_jobs_those_that_have_waited_long_have_a_machine_first() -> None:
    made = cluster(node("a", gpus=0))
    for number in range(4):
        made.enqueue(state(f"j{number}", number), spec(gpus=4))
    waited = {"j0": 400.0}
    found = purchases(made, (), [Growth(pool(node_hour=3.0), 9)], lambda job: JobStake(waited.get(job, 31.0)), NOW)
    assert [(purchase.machines, purchase.jobs) for purchase in found] == [(1, ("j0",))]


def test_the_cheapest_machines_that_are_in_time_are_bought_for_a_deadline() -> None:
    made = cluster(node("a", gpus=0))
    made.enqueue(state("j"), spec(gpus=1))
    slow_shape = replace(SHAPE, gpu_model="Tesla T4", gpu_memory_mib=16_000)
    slow, fast = pool("slow", slow_shape, node_hour=1.0), pool("fast", node_hour=8.0)
    faster = pool("faster", node_hour=20.0)
    runs = (("A100", 600.0), ("T4", 3000.0))

    def look(spare_s: float) -> list[str]:
        stake = JobStake(0.0, runs=runs, deadline_at=NOW + 60.0 + 600.0 + spare_s)
        growths = [Growth(slow, 1), Growth(fast, 1), Growth(faster, 1)]
        return [purchase.pool for purchase in purchases(made, (), growths, lambda _: stake, NOW)]

    # There is time: it may yet find room. Then there is none to lose, and the slow ones are cheap and too late.
    assert look(1000.0) == []
    assert look(60.0) == ["fast"]
    assert look(-1.0) == []


# ---- what becomes of a machine

BOUGHT = InstanceRecord(id="m1", pool="gold", node="gold-m1", since=NOW)
IDLE = Known(listed=True, ready=True, busy=False, idle_s=601.0, drained=False, spare=True)


def stepped(state_: str, known: Known = IDLE, after_s: float = 0.0, **changes: float) -> InstanceStep:
    instance = InstanceRecord(id="m1", pool="gold", node="gold-m1", state=state_, since=NOW)  # pyright: ignore[reportArgumentType]
    return step(instance, pool(**changes), known, NOW + after_s)


def test_a_machine_goes_its_way() -> None:
    coming = IDLE._replace(ready=False, listed=None)
    assert stepped("wanted", coming).doing == "create"
    assert stepped("wanted", coming, after_s=301.0) == ("delete", "it was not created within 300 s", True)
    assert stepped("created", coming, after_s=899.0).doing == "wait"
    assert stepped("created", coming, after_s=901.0).doing == "delete"
    assert stepped("created", IDLE).doing == "ready"
    assert stepped("ready").doing == "drain"
    assert stepped("leaving", IDLE._replace(busy=True, drained=True)).doing == "wait"
    assert stepped("leaving", IDLE._replace(drained=True)).doing == "delete"
    assert stepped("leaving", IDLE._replace(listed=False)).doing == "forget"


def test_a_machine_is_kept_while_it_is_of_use() -> None:
    for kept in (IDLE._replace(busy=True), IDLE._replace(idle_s=599.0), IDLE._replace(spare=False)):
        assert stepped("ready", kept).doing == "wait"
    assert stepped("ready", IDLE._replace(listed=False)).doing == "forget"
    assert step(BOUGHT, None, IDLE, NOW).doing == "drain"


def test_pauses_double_and_budgets_bound() -> None:
    scaled = pool(node_hour=3.0, budget_hour=10.0)
    assert [pause_s(scaled, failures) for failures in (0, 1, 2, 3, 4, 9)] == [0, 300, 600, 1200, 1800, 1800]
    assert (room(scaled, 0), room(scaled, 3), room(scaled, 5), room(pool(), 4)) == (3, 0, 0, 6)


def test_a_job_with_an_image_is_bought_for_where_the_nodes_will_run_it() -> None:
    """What nodes of Kubernetes give is known before there is one."""
    made = cluster(node("a", cpu=1))
    made.enqueue(state("j1"), replace(spec(cpu=2), image=Image(ref="docker://python:3.12")))
    assert bought(made, Growth(pool(), 3)) == ()
    (purchase,) = bought(made, Growth(replace(pool(), features=features(bare=False, files=False)), 3))
    assert (purchase.machines, purchase.jobs) == (1, ("j1",))
