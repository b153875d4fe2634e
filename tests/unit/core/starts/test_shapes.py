"""When a job of some size would start: now, by the estimates, around what is held for others, or never."""

from ares.api.pools import Shape, ShapeEta
from ares.core.schedule.cluster import Cluster
from ares.core.starts.shapes import common_shapes, shape_etas
from ares.model.job import Resources
from tests.unit.core.reserve.booked import ALL, HOUR, book, runs
from tests.unit.core.world import NOW, cluster, node, placed, plan, spec, state

LONG = 600.0


def gpus(number: int, ranks: int = 1) -> Shape:
    return Shape(words=f"{number} GPUs", resources=Resources(cpu_milli=100, memory_mib=1, gpus=number), ranks=ranks)


def shape_eta(made: Cluster, tenant: str, pool: str | None, shape: Shape, runs_s: float, now: float) -> ShapeEta:
    (found,) = shape_etas(made, state("planned", tenant=tenant), pool, [shape], runs_s, now)
    return found


def start(found: ShapeEta) -> float | None:
    """When it starts for sure; None when nobody can say."""
    assert found.starts is not None, found
    return found.starts.latest


def test_common_sizes_are_those_the_machines_have() -> None:
    mixed = [node("a", cpu=16, memory=64, gpus=4).info, node("b", cpu=16, memory=64, gpus=4).info, node("c").info]
    assert [one.words for one in common_shapes(mixed)] == [
        "1 GPU", "2 GPUs", "4 GPUs", "1 whole node", "2 whole nodes",
    ]  # fmt: skip
    assert [one.words for one in common_shapes([node("c").info])] == ["1 CPU", "1 whole node"]
    (whole,) = [one for one in common_shapes(mixed[:1]) if one.words == "1 whole node"]
    assert (whole.resources.cpu_milli, whole.resources.memory_mib, whole.resources.gpus) == (16_000, 64, 4)


def test_now_later_unknown_and_never() -> None:
    made = cluster(node("a", gpus=4), node("b", gpus=4))
    runs(made, "ends", placed("a", gpus=(0, 1)), gpus=2, expected_runtime_s=1000.0)
    runs(made, "silent", placed("b", gpus=ALL), gpus=4)
    assert start(shape_eta(made, "t", None, gpus(2), LONG, NOW)) == NOW + 2
    assert start(shape_eta(made, "t", None, gpus(4), LONG, NOW)) == NOW + 900
    two = shape_eta(made, "t", None, gpus(4, ranks=2), LONG, NOW)
    assert start(two) is None
    assert two.starts is not None
    assert "do not say how long they run" in two.starts.basis
    never = shape_eta(made, "t", None, gpus(5), LONG, NOW)
    assert (never.starts, bool(never.never)) == (None, True)


def test_only_in_the_pool_and_not_beyond_it() -> None:
    made = cluster(node("a", gpus=4, pool="gold"), node("b", gpus=8, pool="tin"))
    assert start(shape_eta(made, "t", "tin", gpus(8), LONG, NOW)) == NOW + 2
    assert shape_eta(made, "t", "gold", gpus(8), LONG, NOW).starts is None


def test_what_is_booked_or_promised_is_in_the_way_of_those_who_run_into_it() -> None:
    made = cluster(node("a", gpus=4))
    one = book(made, placed("a", gpus=ALL), start=NOW + LONG)
    assert start(shape_eta(made, "t", None, gpus(1), LONG, NOW)) == NOW + 2
    assert start(shape_eta(made, "t", None, gpus(1), LONG + 1, NOW)) == one.until
    made.unbook(one.name)
    runs(made, "r", placed("a", gpus=(0, 1, 2)), gpus=3, expected_runtime_s=LONG + 100)
    made.enqueue(state("first"), spec(gpus=4, expected_runtime_s=HOUR))
    made.promise(plan(made).promises)
    assert made.promises["first"].start == NOW + LONG
    until = NOW + LONG + HOUR
    assert start(shape_eta(made, "t", None, gpus(1), LONG, NOW)) == NOW + 2
    assert start(shape_eta(made, "t", None, gpus(1), LONG + 1, NOW)) == until


def test_the_cluster_is_left_as_it_was() -> None:
    made = cluster(node("a", gpus=4))
    book(made, placed("a", gpus=(0, 1)), start=NOW + LONG)
    before = made.table.gpu_left.tolist(), made.table.cpu_free.tolist(), made.table.memory_free.tolist()
    shape_eta(made, "t", None, gpus(4), HOUR, NOW)
    assert (made.table.gpu_left.tolist(), made.table.cpu_free.tolist(), made.table.memory_free.tolist()) == before
