"""What each scorer says, in numbers."""

import pytest
from msgspec.structs import replace

from ares.core.ask import Ask, Near, asks_of
from ares.core.schedule.scorers import SCORERS
from ares.model.job import DataInput, JobSpec, NodeTerm
from ares.model.node import Taint
from ares.model.profile import Pool, Profile
from tests.unit.core.schedule.nodes import Node, links, matching, node, rows


def scores(name: str, nodes: list[Node], ask: Ask, **more: object) -> list[float] | None:
    said = SCORERS[name](rows(nodes, ask, **more))  # pyright: ignore[reportArgumentType]
    return None if said is None else said.tolist()


def test_every_scorer_is_in_the_default_profile() -> None:
    assert set(SCORERS) <= {one.name for one in Profile().scorers}


def test_the_fuller_node_is_the_better_fit() -> None:
    nodes = [node("empty", cpu=4, memory=400), node("half", cpu=4, memory=400, cpu_used=2000, memory_used=200)]
    assert scores("fit", nodes, Ask(cpu_milli=1000, memory_mib=100)) == pytest.approx([0.5, 1 - 0.5 / 3])


def test_idle_gpus_keep_jobs_without_gpus_away() -> None:
    nodes = [node("gpus", cpu=4, memory=400, gpus=4), node("plain", cpu=4, memory=400)]
    ask = Ask(cpu_milli=1000, memory_mib=100)
    assert scores("fit", nodes, ask) == pytest.approx([1 - 2.5 / 3, 0.5])
    busy = node("gpus", cpu=4, memory=400, gpus=4, gpus_used=dict.fromkeys(range(4), 1000))
    assert scores("fit", [busy], ask) == pytest.approx([0.5])


def test_nodes_on_which_the_job_runs_shorter_are_better() -> None:
    nodes = [node("a", gpus=1, model="NVIDIA A100"), node("v", gpus=1, model="V100"), node("t", gpus=1, model="T4")]
    nodes.append(node("plain"))
    ask = Ask(gpus=1, runs=(("", 40.0), ("A100", 10.0), ("V100", 20.0)))
    assert scores("speed", nodes, ask) == [1.0, 0.5, 0.25, 0.0]
    assert scores("speed", nodes, ask._replace(runs=())) is None
    # No time at all is no reason to divide by it.
    assert scores("speed", nodes[:2], ask._replace(runs=(("A100", 0.0), ("V100", 0.0)))) == [1.0, 1.0]


def test_shares_of_gpus_count_by_the_thousandth() -> None:
    nodes = [node("n0", cpu=4, memory=400, gpus=2, gpus_used={0: 750}), node("n1", cpu=4, memory=400, gpus=2)]
    ask = Ask(cpu_milli=4000, memory_mib=400, gpus=1, gpu_milli=250)
    assert scores("fit", nodes, ask) == pytest.approx([1 - 0.5 / 3, 1 - 0.875 / 3])


def test_gpus_of_other_models_are_part_of_the_node() -> None:
    mixed = node("n0", cpu=4, memory=400, gpus=4, gpus_used={0: 1000})
    info = mixed.record.info
    gpus = tuple(replace(gpu, model="NVIDIA A10") if gpu.index < 2 else gpu for gpu in info.gpus)
    nodes = [mixed._replace(record=replace(mixed.record, info=replace(info, gpus=gpus)))]
    # Two of four are left over, both of the model that was not asked for.
    ask = Ask(cpu_milli=4000, memory_mib=400, gpus=1, gpu_model="A10")
    assert scores("fit", nodes, ask) == pytest.approx([1 - 0.5 / 3])


def test_balance_is_the_widest_gap() -> None:
    nodes = [
        node("plain", cpu=4, memory=400),
        node("even", cpu=4, memory=400, gpus=4),
        node("no gpus left", cpu=4, memory=400, gpus=4, gpus_used=dict.fromkeys(range(3), 1000)),
    ]
    # Left: 3/4 of CPU, 2/4 of memory; 3/4 and 0 of the GPUs.
    ask = Ask(cpu_milli=1000, memory_mib=200, gpus=1)
    assert scores("balance", nodes, ask) == pytest.approx([0.75, 0.75, 0.25])


def test_preferred_terms_count_by_weight_and_discouraging_taints_against() -> None:
    nodes = [
        node("n0", info={"labels": {"disk": "ssd", "gen": "9"}}),
        node("n1", info={"labels": {"disk": "ssd"}}),
        node("n2", info={"labels": {"gen": "9"}}, taints=(Taint(key="spot", effect="prefer-not"),)),
    ]
    terms = (
        NodeTerm(key="disk", values=("ssd",), required=False, weight=3),
        NodeTerm(key="gen", op="gt", values=("8",), required=False),
        # Required terms are the filter's business.
        NodeTerm(key="zone", op="absent"),
    )
    assert scores("affinity", nodes, Ask(terms=terms)) == [1.0, 0.75, -0.75]
    assert scores("affinity", nodes, Ask()) == [0.0, 0.0, -1.0]
    assert scores("affinity", nodes, Ask(tolerations=(("spot", None),))) is None


def test_preferred_neighbours() -> None:
    nodes = [node("n0", info={"rack": "r"}), node("n1", info={"rack": "r"}), node("n2", info={"rack": "s"})]
    near = Near((("app", "db"),), "rack", away=False, required=False, weight=1)
    away = Near((("app", "db"),), "node", away=True, required=False, weight=1)
    jobs = matching(("t", {"app": "db"}, (0,)))
    assert scores("affinity", nodes, Ask(near=(near, away), tenant="t"), jobs=jobs) == [0.5, 1.0, 0.5]


def test_data_counts_by_size_and_distance() -> None:
    nodes = [
        node("holder", info={"datasets": ("big",), "rack": "r", "zone": "a", "region": "eu"}),
        node("rack", info={"datasets": ("small",), "rack": "r", "zone": "a", "region": "eu"}),
        node("zone", info={"rack": "s", "zone": "a", "region": "eu"}),
        node("region", info={"rack": "r", "zone": "b", "region": "eu"}),
        node("afar", info={"rack": "r", "zone": "a", "region": "us"}),
        node("unknown"),
    ]
    # 10 Gbit/s where nodes do not say; a tenth of a point is a second.
    second = 1e9 / 8 / (1 << 20) * 10
    gib = 100 * second
    assert scores("locality", nodes, Ask(inputs=(("big", gib),))) == pytest.approx([0, -10, -20, -40, -50, -50])
    mixed = scores("locality", nodes, Ask(inputs=(("big", second), ("small", 3 * second))))
    assert mixed == pytest.approx([-0.3, -0.1, -0.2 - 0.6, -0.4 - 1.2, -2 - 6, -2 - 6])
    assert scores("locality", nodes, Ask()) is None


def test_copies_are_as_fast_as_the_slower_network() -> None:
    def info(gbps: float, *datasets: str) -> dict[str, object]:
        return {"rack": "r", "network_gbps": gbps, "datasets": datasets}

    nodes = [node("slow", info=info(10, "d")), node("fast", info=info(100, "d")), node("a", info=info(200)),
             node("b", info=info(5))]  # fmt: skip
    size = int(100 * 1e9 / 8 / (1 << 20))
    assert scores("locality", nodes, Ask(inputs=(("d", size),))) == pytest.approx([0, 0, -0.1, -2.0], rel=1e-3)


def test_much_data_outweighs_fragmentation_and_little_does_not() -> None:
    """By the weights of the default profile: what all other scorers can say together is about 200."""
    nodes = [node("holder", info={"datasets": ("d",), "rack": "r"}), node("near", info={"rack": "r"})]
    weights = {weight.name: weight.weight for weight in Profile().scorers}
    others = sum(weight for name, weight in weights.items() if name != "locality")

    def difference(mib: int) -> float:
        holder, near = scores("locality", nodes, Ask(inputs=(("d", mib),))) or (0.0, 0.0)
        return (holder - near) * weights["locality"]

    assert difference(500 * 1024) > others
    assert 0 < difference(1) < 0.01


def test_a_reference_into_a_dataset_is_near_where_the_dataset_is() -> None:
    nodes = [node("holder", info={"datasets": ("s3://b/set", "s3://b/set/deep")}), node("other")]
    spec = JobSpec(command=("x",), input_refs=("s3://b/set/part-1", "s3://b/set", "s3://b/settee", "elsewhere"))
    (ask,) = asks_of(spec, "acme")
    holder, other = scores("locality", nodes, ask) or (1.0, 1.0)
    assert holder == 0.0 > other
    # What no node has makes no difference.
    (ask,) = asks_of(replace(spec, inputs=(DataInput(name="elsewhere", size_mib=5),)), "acme")
    assert scores("locality", nodes, ask) == [holder, other]
    assert len(asks_of(replace(spec, input_refs=tuple(f"r{n}" for n in range(1000))), "acme")[0].inputs) == 64


def test_a_staged_input_is_looked_for_by_its_dataset() -> None:
    nodes = [node("namesake", info={"datasets": ("data",)}), node("holder", info={"datasets": ("ares://datasets/d",)})]
    (ask,) = asks_of(JobSpec(command=("x",), inputs=(DataInput(name="data", from_="ares://datasets/d"),)), "acme")
    namesake, holder = scores("locality", nodes, ask) or (1.0, 1.0)
    assert holder == 0.0 > namesake


def test_a_version_that_a_node_has_is_near_for_its_tenant_alone() -> None:
    sha256 = "ab" * 32
    given = DataInput(name="data", from_=f"ares://datasets/d@sha256:{sha256}", size_mib=10_000)
    spec = JobSpec(command=("x",), inputs=(given,))
    nodes = [
        node("holder", cached=(f"acme@sha256:{sha256}",), info={"rack": "r1"}),
        node("beside", info={"rack": "r1"}),
        node("afar", info={"rack": "r2"}),
        node("theirs", cached=(f"umbrella@sha256:{sha256}",)),
    ]
    (ask,) = asks_of(spec, "acme")
    holder, beside, afar, theirs = scores("locality", nodes, ask) or [9.0] * 4
    assert holder == 0.0 > beside > afar == theirs
    (ask,) = asks_of(spec, "umbrella")
    holder, *_, theirs = scores("locality", nodes, ask) or [9.0] * 4
    assert theirs == 0.0 > holder


def test_undeclared_places_are_not_one_place() -> None:
    nodes = [node("holder", info={"datasets": ("d",)}), node("other")]
    holder, other = scores("locality", nodes, Ask(inputs=(("d", 1),))) or (1.0, 1.0)
    assert holder == 0.0 > other


def test_price_against_the_dearest() -> None:
    nodes = [node("dear", pool=Pool(gpu_hour=4.0, cpu_hour=0.5)), node("cheap", pool=Pool(gpu_hour=1.0)), node("free")]
    # Two halves of a GPU and two CPUs: 5.0, 1.0 and nothing an hour.
    assert scores("cost", nodes, Ask(cpu_milli=2000, gpus=2, gpu_milli=500)) == pytest.approx([0.0, 0.8, 1.0])
    assert scores("cost", nodes, Ask(cpu_milli=2000)) == pytest.approx([0.0, 1.0, 1.0])
    assert scores("cost", nodes[1:], Ask()) is None


def test_bandwidth_of_what_is_free() -> None:
    pair = {"gpu_links": links(2, 2)}
    nodes = [
        node("joined", gpus=4, info=pair),
        node("apart", gpus=4, info=pair, gpus_used={0: 1000, 2: 1000}),
        node("too few", gpus=4, info=pair, gpus_used={0: 1000, 1: 1000, 2: 1000}),
    ]
    said = scores("bandwidth", nodes, Ask(gpus=2))
    assert said is not None
    assert said[0] == 1.0
    assert 0.0 < said[1] < 0.5
    assert said[2] == 0.0
    assert scores("bandwidth", nodes, Ask(gpus=1)) is None


def test_behind_a_switch_the_choice_does_not_matter() -> None:
    switched = tuple(tuple("X" if a == b else "NV12" for b in range(8)) for a in range(8))
    busy = dict.fromkeys([0, 3, 4, 7], 1000)
    nodes = [
        node("n0", gpus=8, info={"gpu_links": switched}),
        node("n1", gpus=8, info={"gpu_links": switched}, gpus_used=busy),
    ]
    assert scores("bandwidth", nodes, Ask(gpus=3)) is None
    apart = node("n2", gpus=4, info={"gpu_links": links(2, 2)})
    said = scores("bandwidth", [*nodes, apart], Ask(gpus=3))
    assert said is not None
    assert said[:2] == [1.0, 1.0]


def test_gangs_look_at_the_network_too() -> None:
    nodes = [node("slow", gpus=2, info={"network_gbps": 100.0}), node("fast", gpus=2, info={"network_gbps": 400.0})]
    assert scores("bandwidth", nodes, Ask(ranks=4)) == [0.25, 1.0]
    assert scores("bandwidth", nodes, Ask(ranks=4, gpus=2)) == [0.625, 1.0]
    assert scores("bandwidth", nodes, Ask(gpus=2)) is None
    unknown = [node("n0", gpus=2), node("n1", gpus=2)]
    assert scores("bandwidth", unknown, Ask(ranks=4, gpus=2)) is None
    assert scores("bandwidth", unknown, Ask(ranks=4)) is None


def test_power_against_the_thirstiest() -> None:
    nodes = [
        node("hot", gpus=1, pool=Pool(gpu_watts=800.0)),
        node("cool", gpus=1, pool=Pool(gpu_watts=200.0)),
        node("known", gpus=1, model="NVIDIA A100-SXM4-80GB"),
        node("none"),
    ]
    assert scores("energy", nodes, Ask(gpus=1)) == [0.0, 0.75, 0.5, 1.0]
    assert scores("energy", nodes, Ask()) is None
    assert scores("energy", nodes[3:], Ask(gpus=1)) is None


def test_a_thirstier_gpu_that_is_done_sooner_may_take_less_energy_and_cost_less() -> None:
    nodes = [
        node("h100", gpus=1, model="NVIDIA H100 80GB HBM3", pool=Pool(gpu_hour=4.0)),
        node("a100", gpus=1, model="NVIDIA A100-SXM4-80GB", pool=Pool(gpu_hour=2.0)),
    ]
    ask = Ask(gpus=1, runs=(("A100", 1000.0), ("H100", 250.0)))
    # 700 W for a quarter of the time, against 400 W for all of it.
    assert scores("energy", nodes, ask) == pytest.approx([1 - 0.25, 1 - 400 / 700])
    assert scores("cost", nodes, ask) == pytest.approx([0.75, 0.5])
    assert scores("energy", nodes, Ask(gpus=1)) == pytest.approx([0.0, 1 - 400 / 700])


def test_the_price_of_memory_and_of_spot() -> None:
    owned = Pool(gpu_hour=2.0, memory_gib_hour=0.5)
    nodes = [node("owned", pool=owned), node("spot", pool=replace(owned, spot=True, spot_factor=0.25))]
    assert scores("cost", nodes, Ask(gpus=1, memory_mib=4096)) == pytest.approx([0.0, 0.75])
