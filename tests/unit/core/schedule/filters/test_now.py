"""Filters about what is free now: not yet is another answer than never."""

import pytest

from ares.core.ask import Ask, Near
from tests.unit.core.schedule.nodes import links, matching, node, passing, refusal


def test_health_tells_cordoned_from_drained_and_silent() -> None:
    nodes = [node("c", cordoned=True), node("s", ready=False), node("t", ready=False)]
    assert passing("health", [*nodes, node("ok")], Ask()) == ["ok"]
    assert passing("health", nodes, Ask(), emptied=True) == ["c", "s", "t"]
    reason = refusal("health", nodes, Ask())
    assert reason.code == "NO_READY_NODES"
    assert reason.message == "none of the 3 nodes that could take it is ready: 1 cordoned, 2 silent"
    drained = node("d", cordoned=True, drained_by="ops")
    reason = refusal("health", [*nodes, drained], Ask())
    assert reason.message == "none of the 4 nodes that could take it is ready: 1 drained, 1 cordoned, 2 silent"
    assert reason.numbers == {"nodes": 4, "drained": 1, "cordoned": 1, "silent": 2}
    assert refusal("health", [drained], Ask()).message == "not even d is ready: 1 drained"


BUSY = [
    node("n0", cpu=8, memory=1000, cpu_used=7500, memory_used=0),
    node("n1", cpu=16, memory=4000, cpu_used=15_750, memory_used=3700),
]


def test_cpu_now_and_ever() -> None:
    assert passing("cpu", BUSY, Ask(cpu_milli=500)) == ["n0"]
    now = refusal("cpu", BUSY, Ask(cpu_milli=1000))
    assert now.code == "INSUFFICIENT_CPU"
    assert now.message == "needs 1 CPU on one node; the nearest, n0, has 0.5 free of 8"
    assert now.numbers == {"asked": 1000, "free": 500, "total": 8000, "nodes": 2}
    ever = refusal("cpu", BUSY, Ask(cpu_milli=32_000), ever=True)
    assert ever.code == "INFEASIBLE_CPU"
    assert ever.message == "needs 32 CPUs on one node; the largest that could take it, n1, has 16"


def test_memory_now_and_ever() -> None:
    now = refusal("memory", BUSY, Ask(memory_mib=2048))
    assert now.code == "INSUFFICIENT_MEMORY"
    assert now.message == "needs 2,048 MiB of memory on one node; the nearest, n0, has 1,000 MiB free of 1,000 MiB"
    ever = refusal("memory", BUSY, Ask(memory_mib=8192), ever=True)
    assert ever.code == "INFEASIBLE_MEMORY"
    assert ever.message == "needs 8,192 MiB of memory on one node; the largest that could take it, n1, has 4,000 MiB"


def test_gpus_now() -> None:
    nodes = [node("n0", gpus=4, gpus_used={0: 1000, 1: 1}), node("n1", gpus=8, gpus_used=dict.fromkeys(range(7), 1000))]
    assert passing("gpus", nodes, Ask()) is None
    assert passing("gpus", nodes, Ask(gpus=2)) == ["n0"]
    now = refusal("gpus", nodes, Ask(gpus=4))
    assert now.code == "INSUFFICIENT_GPU"
    assert now.message == "needs 4 GPUs on one node; the nearest, n0, has 2 free of 4"
    assert now.numbers == {"asked": 4, "free": 2, "total": 4, "nodes": 2}
    assert passing("gpus", nodes, Ask(gpus=8), emptied=True) == ["n1"]


def test_shares_of_gpus() -> None:
    nodes = [node("n0", gpus=2, gpus_used={0: 700, 1: 600}), node("n1", gpus=2, gpus_used={0: 1000, 1: 650})]
    assert passing("gpus", nodes, Ask(gpus=1, gpu_milli=400)) == ["n0"]
    assert passing("gpus", nodes, Ask(gpus=2, gpu_milli=300)) == ["n0"]
    reason = refusal("gpus", nodes, Ask(gpus=1, gpu_milli=500))
    assert reason.code == "INSUFFICIENT_GPU"
    assert reason.message == (
        "needs 50 % of 1 GPU on one node; the nearest, n0, has 40 % left on the emptiest of 2 GPUs"
    )
    assert reason.numbers["left_milli"] == 400
    several = refusal("gpus", nodes, Ask(gpus=2, gpu_milli=400))
    assert several.message == "needs 40 % of 2 GPUs on one node; the nearest, n0, has 1 free of 2"


TOGETHER = Ask(gpus=8, level="nvlink", level_required=True)


def test_eight_free_are_six_and_two_in_two_domains() -> None:
    n3 = node("n3", gpus=16, info={"gpu_links": links(8, 8)}, gpus_used=dict.fromkeys([0, 1, *range(8, 14)], 1000))
    spread = node(
        "n4", gpus=16, info={"gpu_links": links(8, 8)}, gpus_used=dict.fromkeys([*range(4), *range(8, 12)], 1)
    )
    full = node("n5", gpus=8, info={"gpu_links": links(8)}, gpus_used={0: 1000})
    reason = refusal("gpus", [full, spread, n3], TOGETHER)
    assert reason.code == "INSUFFICIENT_TOPOLOGY"
    assert reason.message == ("needs 8 GPUs in one NVLink domain; the nearest, n3, has 8 free = 6 + 2 in two domains")
    assert reason.numbers == {"asked": 8, "free": 6, "total": 8, "nodes": 3}
    assert passing("gpus", [full, spread, n3], TOGETHER, emptied=True) == ["n5", "n4", "n3"]
    # A wish is not a condition.
    assert passing("gpus", [full, spread, n3], TOGETHER._replace(level_required=False)) == ["n4", "n3"]


def test_too_few_gpus_is_not_the_domains_fault() -> None:
    full = node("n5", gpus=8, info={"gpu_links": links(4, 4)}, gpus_used={0: 1000})
    assert refusal("gpus", [full], TOGETHER).code == "INSUFFICIENT_GPU"


def test_a_machine_whose_links_never_do() -> None:
    halves = node("n0", gpus=8, info={"gpu_links": links(4, 4)}, gpus_used={0: 1000})
    reason = refusal("gpus", [halves], TOGETHER, ever=True)
    assert reason.code == "INFEASIBLE_TOPOLOGY"
    assert reason.message == (
        "needs 8 GPUs in one NVLink domain; the largest that could take it, n0, has 8 = 4 + 4 in two domains"
    )
    loose = node("n1", gpus=8, info={"gpu_links": links(*[1] * 8)})
    assert refusal("gpus", [loose], TOGETHER).message == (
        "needs 8 GPUs in one NVLink domain; the nearest, n1, has 8 free, none of them joined by NVLink"
    )
    assert passing("gpus", [loose], TOGETHER._replace(gpus=1)) == ["n1"]


def test_devices_now_and_ever() -> None:
    tpus = {"devices": {"tpu": ("a", "b", "c", "d"), "fpga": ("x",)}}
    nodes = [
        node("n0", info=tpus, devices_used={"tpu": 4}),
        node("n1", info=tpus, devices_used={"tpu": 3, "fpga": 1}),
        node("n2", info=tpus, devices_used={"tpu": 3}),
    ]
    assert passing("devices", nodes, Ask()) is None
    assert passing("devices", nodes, Ask(devices=(("tpu", 1),))) == ["n1", "n2"]
    # n1 is two short in all, n2 only one.
    now = refusal("devices", nodes, Ask(devices=(("fpga", 1), ("tpu", 2))))
    assert now.code == "INSUFFICIENT_DEVICE"
    assert now.message == "needs 2 tpu devices on one node; the nearest, n2, has 1 free of 4"
    assert now.numbers == {"asked": 2, "free": 1, "total": 4, "nodes": 3}
    ever = refusal("devices", nodes, Ask(devices=(("fpga", 2),)), ever=True)
    assert ever.code == "INFEASIBLE_DEVICE"
    assert ever.message == "needs 2 fpga devices on one node; the largest that could take it, n0, has 1"


NUMA = Ask(cpu_milli=3000, memory_mib=300, gpus=2, numa="required")


def test_one_numa_node_must_have_it_all() -> None:
    whole = node("whole", cpu=8, memory=1000, gpus=4, numa=2)
    torn = node("torn", cpu=8, memory=1000, gpus=4, numa=2, gpus_used={0: 1000}, numa_used={1: (2000, 0)})
    flat = node("flat", cpu=8, memory=1000, gpus=4)
    assert passing("numa", [whole, torn, flat], NUMA._replace(numa="preferred")) is None
    assert passing("numa", [whole, torn, flat], NUMA) == ["whole"]
    now = refusal("numa", [flat, torn], NUMA)
    assert now.code == "INSUFFICIENT_NUMA"
    assert now.message == (
        "needs 3 CPUs, 300 MiB and 2 GPUs on one NUMA node; "
        "the nearest, torn, has 2 CPUs, 500 MiB and 2 GPUs free on NUMA node 1"
    )
    assert now.numbers == {"asked": 3000, "free": 2000, "nodes": 2}
    assert passing("numa", [flat, torn], NUMA, emptied=True) == ["torn"]


def test_numa_never() -> None:
    nodes = [node("n0", cpu=8, memory=1000, numa=2, cpu_used=8000)]
    ever = refusal("numa", nodes, Ask(cpu_milli=2000, memory_mib=600, numa="required"), ever=True)
    assert ever.code == "INFEASIBLE_NUMA"
    assert ever.message == (
        "needs 2 CPUs and 600 MiB on one NUMA node; "
        "the largest that could take it, n0, has 4 CPUs and 500 MiB on NUMA node 0"
    )
    flat = refusal("numa", [node("flat")], Ask(numa="required"))
    assert flat.message == "needs 1 CPU and 256 MiB on one NUMA node; no node that could take it reports its NUMA nodes"


def test_a_full_numa_node_is_nearer_than_none() -> None:
    full = node("full", cpu=8, memory=1000, numa=2, numa_used={0: (4000, 500), 1: (4500, 500)})
    assert refusal("numa", [node("flat"), full], Ask(numa="required")).message == (
        "needs 1 CPU and 256 MiB on one NUMA node; the nearest, full, has 0 CPUs and 0 MiB free on NUMA node 0"
    )


def test_nvlink_and_numa_must_hold_for_the_same_gpus() -> None:
    """Pairs joined across the NUMA nodes: two GPUs on each, two joined, never both."""
    crossed = tuple(tuple("X" if a == b else "NV4" if a % 2 == b % 2 else "SYS" for b in range(4)) for a in range(4))
    nodes = [node("n0", gpus=4, numa=2, info={"gpu_links": crossed})]
    ask = Ask(gpus=2, numa="required")
    both = ask._replace(level="nvlink", level_required=True)
    assert passing("numa", nodes, ask) == ["n0"]
    assert passing("gpus", nodes, both) == ["n0"]
    assert passing("numa", nodes, both) == []
    assert refusal("numa", nodes, both).message == (
        "needs 1 CPU, 256 MiB and 2 GPUs joined by NVLink on one NUMA node; "
        "the nearest, n0, has 4 CPUs, 512 MiB and 1 GPU free on NUMA node 0"
    )


# ---- near to and away from other jobs

PLACES = [
    node("a0", info={"rack": "r", "zone": "a"}),
    node("a1", info={"rack": "r", "zone": "a"}),
    # The same name in another zone is another rack.
    node("b0", info={"rack": "r", "zone": "b"}),
    node("c0"),
    node("c1"),
]
DB = (("app", "db"),)


def _near(*, level: str = "node", away: bool = False, labels: tuple[tuple[str, str], ...] = DB) -> Near:
    return Near(labels, level, away, required=True, weight=1)


@pytest.mark.parametrize(
    ("near", "at", "expected"),
    [
        (_near(), (1,), ["a1"]),
        (_near(level="rack"), (1,), ["a0", "a1"]),
        (_near(level="zone"), (2,), ["b0"]),
        # Nobody knows what c0 shares with c1.
        (_near(level="rack"), (3,), ["c0"]),
        (_near(away=True), (1, 3), ["a0", "b0", "c1"]),
        (_near(away=True, level="rack"), (0,), ["b0", "c0", "c1"]),
        (_near(away=True, level="region"), (4,), ["a0", "a1", "b0", "c0"]),
        (_near(away=True), (), ["a0", "a1", "b0", "c0", "c1"]),
    ],
)
def test_near_and_away(near: Near, at: tuple[int, ...], expected: list[str]) -> None:
    jobs = matching(
        ("t", {"app": "db", "x": "y"}, at), ("other", {"app": "db"}, (0, 1, 2, 3)), ("t", {"app": "web"}, (2,))
    )
    assert passing("job-affinity", PLACES, Ask(near=(near,), tenant="t"), jobs=jobs) == expected


def test_where_jobs_run_is_never_a_lasting_reason() -> None:
    ask = Ask(near=(_near(), _near(away=True)), tenant="t")
    assert passing("job-affinity", PLACES, ask, emptied=True) is None
    assert passing("job-affinity", PLACES, Ask()) is None


def test_labels_that_nobody_carries_are_named() -> None:
    reason = refusal("job-affinity", PLACES, Ask(near=(_near(level="rack"),), tenant="t"))
    assert reason.code == "JOB_AFFINITY_UNMET"
    assert reason.message == (
        "must share a rack with jobs that carry app=db, and no running job of its tenant carries these labels"
    )


def test_terms_that_contradict_each_other_are_both_named() -> None:
    jobs = matching(("t", {"app": "db"}, (0, 1)), ("t", {"app": "web"}, (0, 1)))
    ask = Ask(near=(_near(), _near(away=True, labels=(("app", "web"),))), tenant="t")
    assert refusal("job-affinity", PLACES, ask, jobs=jobs).message == (
        "must share a node with jobs that carry app=db, which run on a0 and 1 other node only; "
        "must not share a node with jobs that carry app=web, which run on a0 and 1 other node; "
        "none of the 5 nodes that could take it is right for all of these"
    )
