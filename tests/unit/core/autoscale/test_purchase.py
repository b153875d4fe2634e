"""What is worth buying: by the real cycle, on machines that are not there."""

from ares.core.autoscale.instance import InstanceStep, Known, pause_s, room, step
from ares.core.autoscale.purchase import Growth, Purchase, purchases, virtual
from ares.core.schedule.cluster import Cluster
from ares.model.job import Gang
from ares.model.scaling import InstanceRecord, NodeShape, ScalingPool
from tests.unit.core.world import NOW, cluster, node, nodes_of, plan, spec, state

SHAPE = NodeShape(cpu_milli=4000, memory_mib=8192, gpus=4, gpu_model="NVIDIA A100-SXM4-80GB", gpu_memory_mib=80_000)


def pool(name: str = "gold", shape: NodeShape = SHAPE, **changes: float) -> ScalingPool:
    return ScalingPool(name=name, shape=shape, nodes_max=10, **changes)  # pyright: ignore[reportArgumentType]


def bought(made: Cluster, *growths: Growth, coming: int = 0, waited_s: float = 60.0) -> tuple[Purchase, ...]:
    on_way = [virtual(f"coming-{number}", "gold", SHAPE) for number in range(coming)]
    return purchases(made, on_way, growths, lambda _: waited_s, NOW)


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
    assert [purchase.pool for purchase in bought(made, Growth(dear, 1), Growth(cheap, 1))] == ["cheap"]
    made.enqueue(state("big", 1), spec(gpus=4))
    made.enqueue(state("other", 2), spec(gpus=4))
    found = bought(made, Growth(dear, 5), Growth(cheap, 1))
    assert [(purchase.pool, purchase.machines) for purchase in found] == [("cheap", 1), ("dear", 2)]
    assert found[1].cost == 60.0


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
