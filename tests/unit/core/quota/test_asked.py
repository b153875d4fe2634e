"""What jobs take of limits, and what they will cost."""

import pytest

from ares.core.quota.asked import asked_by, may_be, per_hour, units_of
from ares.model.job import Gang, JobSpec, Preemption, Resources
from ares.model.profile import Pool


def job(**changes: object) -> JobSpec:
    wants = {key: changes.pop(key) for key in list(changes) if key in Resources.__struct_fields__}
    return JobSpec(command=("true",), resources=Resources(**wants), **changes)  # type: ignore[arg-type]


def test_ranks_multiply_and_of_alternatives_the_most_of_everything_counts() -> None:
    spec = job(
        cpu_milli=2000, memory_mib=512, gpus=1, gpu_model="A100", gang=Gang(ranks=4, min_ranks=2),
        alternatives=(Resources(cpu_milli=1000, memory_mib=1024, gpus=2, gpu_model="V100"),),
    )  # fmt: skip
    assert asked_by(spec) == {
        "cpu": 8000, "memory": 4096, "gpus": 8000, "gpus.A100": 4000, "gpus.V100": 8000, "jobs": 1,
    }  # fmt: skip


def test_shares_and_slices_of_gpus_count_in_part_and_other_devices_do_not() -> None:
    asked = asked_by(job(gpus=2, gpu_milli=250, devices={"mig-3g.40gb": 2, "fpga": 4}))
    assert asked["gpus"] == 500 + 2 * 429
    assert asked["gpus.*"] == asked["gpus"]


@pytest.mark.parametrize(
    ("named", "limited", "counts"),
    [
        ("A100", "A100", True),
        ("A100 PCIe", "A100", True),
        ("A100", "A100 PCIe", True),
        ("a100-sxm4-80gb", "A100", True),
        ("H100", "A100", False),
        ("A10", "A100", False),
        # Nobody can tell what these will be.
        ("80GB", "A100", True),
        ("NVIDIA", "A100", True),
        ("*", "A100", True),
    ],
)
def test_a_job_counts_for_every_model_that_its_gpus_may_turn_out_to_be(named: str, limited: str, counts: bool) -> None:
    assert may_be(named, limited) is counts
    assert units_of({f"gpus.{named}": 3000, "gpus": 3000}, f"gpus.{limited}") == (3000 if counts else 0)


def test_the_price_is_that_of_the_dearest_pool_the_job_may_go_to() -> None:
    pools = {
        "plain": Pool(gpu_hour=2.0, cpu_hour=0.1),
        "spot": Pool(gpu_hour=10.0, spot=True, spot_factor=0.5),
        "big": Pool(gpu_hour=4.0, memory_gib_hour=1.0),
    }
    models = {"plain": frozenset({"V100"}), "spot": frozenset({"A100"}), "big": frozenset({"H100 80GB HBM3"})}
    one = {"cpu_milli": 1000, "memory_mib": 1024, "gpus": 1}
    assert per_hour(job(**one), pools, models) == 5.0
    assert per_hour(job(**one, preemption=Preemption(allowed=False)), pools, models) == 5.0
    assert per_hour(job(**one, gpu_model="V100"), pools, models) == pytest.approx(2.1)
    assert per_hour(job(**one, gpu_model="H100", gang=Gang(ranks=3)), pools, models) == 15.0
    # No node has it now: one of any pool may.
    assert per_hour(job(**one, gpu_model="B200"), pools, models) == 5.0
    assert per_hour(job(**one, selector={"pool": "plain"}), pools, models) == pytest.approx(2.1)
    assert per_hour(job(**one, selector={"pool": "unpriced"}), pools, models) == 0.0
    assert per_hour(job(**one), {}, {}) == 0.0


def test_a_job_that_may_not_be_taken_away_is_not_priced_by_a_spot_pool() -> None:
    pools = {"plain": Pool(gpu_hour=2.0), "spot": Pool(gpu_hour=10.0, spot=True)}
    models = {name: frozenset({"A100"}) for name in pools}
    assert per_hour(job(gpus=1, preemption=Preemption(allowed=False)), pools, models) == 2.0
    assert per_hour(job(gpus=1), pools, models) == 10.0
