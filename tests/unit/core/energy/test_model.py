"""What placements draw and cost: by model, pool and profile, in shares, in slices; and nothing counted twice."""

import pytest

from ares.core.capacity.node_table import NodeTable
from ares.core.capacity.power import draw_of_pools
from ares.core.energy import MICRO, UNKNOWN, KnownCard, WaveRates, card_of, drawn, known, node_power, rate_of, rates_of
from ares.model.node import Gpu, NodeInfo, NodeRecord
from ares.model.profile import EnergyPolicy, Pool, Profile
from ares.model.state import Placement, Rate

A100 = "NVIDIA A100-SXM4-80GB"


def node(name: str = "n", *models: str, pool: str = "default", mig: tuple[int, ...] = (), **more: object) -> NodeRecord:
    gpus = tuple(
        Gpu(index=at, uuid=f"{name}{at}", model=model, memory_mib=80_000, mig=at in mig)
        for at, model in enumerate(models)
    )
    info = NodeInfo(name=name, cpu_milli=64_000, memory_mib=1 << 20, gpus=gpus, pool=pool, **more)  # pyright: ignore[reportArgumentType]
    return NodeRecord(info=info, incarnation=1, registered_at=0.0)


def place(*gpus: int, on: str = "n", cpu: int = 0, memory: int = 0, milli: int = 1000, **more: object) -> Placement:
    return Placement(node=on, incarnation=1, cpu_milli=cpu, memory_mib=memory, gpus=gpus, gpu_milli=milli, **more)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("model", "watts"),
    [
        ("NVIDIA A100-SXM4-80GB", 400.0),
        ("NVIDIA A100-SXM4-40GB", 400.0),
        ("NVIDIA A100 80GB PCIe", 300.0),
        ("NVIDIA A100-PCIE-40GB", 250.0),
        ("NVIDIA H100 80GB HBM3", 700.0),
        ("NVIDIA H100 PCIe", 350.0),
        ("NVIDIA H100 NVL", 400.0),
        ("NVIDIA H200", 700.0),
        ("NVIDIA B200", 1000.0),
        ("Tesla V100-SXM2-32GB", 300.0),
        ("Tesla V100-PCIE-16GB", 250.0),
        ("NVIDIA L40S", 350.0),
        ("NVIDIA L4", 72.0),
        ("Tesla T4", 70.0),
        ("NVIDIA A10", 150.0),
        ("NVIDIA A10G", 300.0),
        ("NVIDIA GeForce RTX 2080 Ti", 250.0),
        ("NVIDIA GeForce RTX 2080", 215.0),
        ("NVIDIA GeForce RTX 4090", 450.0),
        ("NVIDIA RTX A6000", 300.0),
        ("NVIDIA RTX 6000 Ada Generation", 300.0),
        ("AMD Instinct MI300X", 750.0),
        ("AMD Instinct MI250X", 250.0),
        ("AMD Instinct MI100", 290.0),
    ],
)
def test_models_are_known_by_the_names_drivers_give_them(model: str, watts: float) -> None:
    found = known(model)
    assert found is not None
    assert found.watts == watts
    assert 0 < found.idle < 0.25 * watts


def test_the_pool_has_the_last_word_then_the_profile() -> None:
    policy = EnergyPolicy(gpu_watts={"A100": 350.0, "A100 PCIe": 220.0})
    assert card_of("Some GPU") == UNKNOWN
    assert card_of(A100) == KnownCard(400.0, 55.0)
    # Idle follows where only the full load is said, and never exceeds it.
    assert card_of(A100, policy=policy) == KnownCard(350.0, 35.0)
    assert card_of("NVIDIA A100 80GB PCIe", policy=policy) == KnownCard(220.0, 22.0)
    assert card_of(A100, Pool(gpu_watts=500.0), policy) == KnownCard(500.0, 50.0)
    assert card_of(A100, Pool(gpu_watts=500.0, gpu_idle_watts=80.0), policy) == KnownCard(500.0, 80.0)
    assert card_of(A100, Pool(gpu_idle_watts=9_000.0)) == KnownCard(400.0, 400.0)


def test_a_share_draws_and_costs_its_part() -> None:
    pool = Pool(gpu_hour=2.0, cpu_hour=0.1, memory_gib_hour=0.01)
    record = node("n", A100, A100, pool="big")
    whole = rate_of(record, place(0, 1, cpu=8000, memory=4096), pool)
    assert (whole.pool, whole.gpu_model, whole.watts) == ("big", A100, 824.0)
    assert whole.per_hour == pytest.approx(4.84)
    half = rate_of(record, place(1, milli=500), pool)
    assert (half.watts, half.per_hour) == (200.0, 1.0)
    no_gpu = rate_of(record, place(cpu=1500), pool, EnergyPolicy(cpu_watts=4.0))
    assert (no_gpu.gpu_model, no_gpu.watts) == ("", 6.0)
    assert no_gpu.per_hour == pytest.approx(0.15)
    assert rate_of(record, place(cpu=1000), Pool(cpu_watts=7.0)).watts == 7.0


def test_spot_costs_its_part_of_the_price() -> None:
    spot = Pool(gpu_hour=2.0, spot=True, spot_factor=0.3)
    assert rate_of(node("n", A100), place(0), spot).per_hour == pytest.approx(0.6)
    assert rate_of(node("n", A100), place(0), Pool(gpu_hour=2.0, spot_factor=0.3)).per_hour == 2.0


def test_slices_draw_by_how_many_sevenths_they_are() -> None:
    record = node("n", A100, mig=(0,), devices={"mig-1g.10gb": ("a", "b"), "mig-3g.40gb": ("c",), "fpga": ("f",)})
    one = rate_of(record, place(devices={"mig-1g.10gb": ("a",)}))
    assert one.watts == pytest.approx(400 / 7)
    assert rate_of(record, place(devices={"mig-3g.40gb": ("c",)})).watts == pytest.approx(3 * 400 / 7)
    assert rate_of(record, place(devices={"fpga": ("f",)})).watts == 0.0


def test_rates_of_like_ranks_are_one() -> None:
    nodes = {"a": node("a", A100, pool="x"), "b": node("b", "Tesla T4", pool="y"), "c": node("c", A100, pool="x")}
    profile = Profile(pools={"x": Pool(gpu_hour=3.0)})
    like = rates_of(nodes, profile, (place(0, on="a"), place(0, on="c")))
    assert like == (Rate(pool="x", gpu_model=A100, watts=400.0, per_hour=3.0),)
    mixed = rates_of(nodes, profile, (place(0, on="a"), place(0, on="b"), place(0, on="gone")))
    assert mixed == (like[0], Rate(pool="y", gpu_model="Tesla T4", watts=70.0), Rate())


def test_a_node_draws_its_jobs_watts_and_the_idle_watts_of_the_rest() -> None:
    record, pool = node("n", A100, A100, A100), Pool()
    power = node_power(record.info)
    jobs = [place(0, cpu=4000), place(1, milli=250, cpu=1000)]
    table = NodeTable()
    table.put(0, record, pool)
    table.cpu_free[0] = 64_000 - 5000
    for gpu, left in enumerate((0, 750, 1000)):
        table.set_gpus_left(0, (gpu,), (left,))
    idle = 55.0 * (0 + 0.75 + 1)
    assert draw_of_pools(table) == {"default": pytest.approx(sum(drawn(power, one) for one in jobs) / MICRO + idle)}


def test_rates_of_a_wave_are_those_of_each_attempt() -> None:
    nodes = {name: node(name, A100, A100) for name in ("a", "b")}
    profile = Profile(pools={"default": Pool(gpu_hour=2.0, cpu_hour=0.1)})
    wave = WaveRates(nodes, profile)
    alike = [(place(0, on=name, cpu=cpu),) for name in ("a", "b", "gone") for cpu in (1000, 2000)] * 2
    gang = (place(0, on="a"), place(0, on="gone"))
    for placements in (*alike, (place(on="a", devices={"mig": ("m1",)}),), gang):
        assert wave.of(placements) == rates_of(nodes, profile, placements)
