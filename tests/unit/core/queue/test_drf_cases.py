"""The worked cases of data/drf, each at every level of the tree: tenants, teams of one tenant, users of one team."""

import json
from collections import Counter
from fractions import Fraction
from typing import Any

import pytest

from ares.core.queue.drf import Amounts
from ares.model.profile import Share
from tests import needs
from tests.unit.core.queue.filling import fill, shares, times

CASES = needs.DATA / "drf" / "cases.json"
LEVELS = {"tenant": "{}/team/user", "team": "tenant/{}/user", "user": "tenant/team/{}"}
# Divisible cases are filled with this small a part of a task.
FINE = 200


@pytest.fixture(scope="module")
def cases() -> dict[str, Any]:
    if not CASES.exists():
        pytest.skip(needs.data("drf/cases.json"))
    return {case["name"]: case for case in json.loads(CASES.read_text())}


def _held(amounts: dict[str, int], unit: int) -> Amounts:
    return Amounts(unit * amounts.get("cpu", 0), unit * amounts.get("mem_gb", 0), unit * amounts.get("gpu", 0))


def _accounts(case: dict[str, Any], level: str, unit: int) -> dict[str, Amounts]:
    return {LEVELS[level].format(name): _held(task, unit) for name, task in case["users"].items()}


def _name(account: str, level: str) -> str:
    return account.split("/")[list(LEVELS).index(level)]


def _tasks(order: list[str], level: str) -> dict[str, int]:
    return dict(Counter(_name(account, level) for account in order))


@pytest.mark.parametrize("level", LEVELS)
def test_running_example(cases: dict[str, Any], level: str) -> None:
    case = cases["nsdi11_running_example"]
    tasks = dict(reversed(_accounts(case, level, unit=1000).items()))
    order = fill(_held(case["capacity"], 1000), tasks)
    assert [_name(account, level) for account in order] == case["progressive_filling_order_if_B_first"]
    assert _tasks(order, level) == case["expected_tasks"]
    tally = shares(_held(case["capacity"], 1000))
    for account, task in tasks.items():
        name = _name(account, level)
        used = times(task, case["expected_tasks"][name])
        assert used == _held(case["expected_usage"][name], 1000)
        tally.take(LEVELS["tenant"].format(name), used)
        expected = float(Fraction(case["expected_dominant_share"][name]))
        assert tally.dominant(LEVELS["tenant"].format(name)) == pytest.approx(expected, abs=2e-6)


@pytest.mark.parametrize("level", LEVELS)
def test_divisible_running_example(cases: dict[str, Any], level: str) -> None:
    case = cases["nsdi11_running_example"] | cases["drf_divisible_same_example"]
    order = fill(_held(case["capacity"], 1000 * FINE), _accounts(case, level, unit=1000))
    found = {name: count / FINE for name, count in _tasks(order, level).items()}
    assert found == pytest.approx(case["expected_tasks"], abs=1.5 / FINE)


@pytest.mark.parametrize("level", LEVELS)
def test_weights(cases: dict[str, Any], level: str) -> None:
    case = cases["nsdi11_running_example"] | cases["weighted"]
    paths = {name: LEVELS[level].format(name) for name in case["weights"]}
    tree = {
        "/".join(path.split("/")[: list(LEVELS).index(level) + 1]): Share(weight=case["weights"][name])
        for name, path in paths.items()
    }
    order = fill(_held(case["capacity"], 1000 * FINE), _accounts(case, level, unit=1000), tree)
    found = {name: count / FINE for name, count in _tasks(order, level).items()}
    expected = {name: float(Fraction(text)) for name, text in case["expected_tasks_exact"].items()}
    # Where A's last part no longer fits, up to three of B's still do.
    assert found == pytest.approx(expected, abs=4 / FINE)


@pytest.mark.parametrize("level", LEVELS)
def test_one_resource_is_max_min(cases: dict[str, Any], level: str) -> None:
    case = cases["single_resource_reduces_to_max_min"]
    order = fill(_held(case["capacity"], 1000), _accounts(case, level, unit=1000))
    gpus = {name: count * case["users"][name]["gpu"] for name, count in _tasks(order, level).items()}
    assert gpus == case["expected_gpus_divisible"]


def test_other_notions_of_fairness_give_something_else(cases: dict[str, Any]) -> None:
    """Asset fairness and CEEI are there as contrasts: solved here by their definitions, and DRF is neither."""
    running = cases["nsdi11_running_example"]
    cpu, memory = (Fraction(running["capacity"][name]) for name in ("cpu", "mem_gb"))
    (a_cpu, a_memory), (b_cpu, b_memory) = ((task["cpu"], task["mem_gb"]) for task in running["users"].values())

    # Equal sums of shares, as far as the first resource lasts.
    per_a = (b_cpu / cpu + b_memory / memory) / (a_cpu / cpu + a_memory / memory)
    b = min(cpu / (a_cpu * per_a + b_cpu), memory / (a_memory * per_a + b_memory))
    asset = {"A": float(per_a * b), "B": float(b)}
    assert asset == pytest.approx(cases["asset_fairness_same_example_divisible"]["expected_tasks"])

    # The largest product lies where both resources are used up, unless it is inside one edge: here it is the corner.
    corner = a_cpu * b_memory - b_cpu * a_memory
    ceei = {"A": (cpu * b_memory - b_cpu * memory) / corner, "B": (a_cpu * memory - cpu * a_memory) / corner}
    edges = [(cpu, a_cpu, b_cpu), (memory, a_memory, b_memory)]
    middles = [(whole / (2 * x), whole / (2 * y)) for whole, x, y in edges]
    assert all(a_cpu * x + b_cpu * y > cpu or a_memory * x + b_memory * y > memory for x, y in middles)
    assert ceei == {n: Fraction(t) for n, t in cases["ceei_same_example_divisible"]["expected_tasks"].items()}

    found = fill(_held(running["capacity"], 1000 * FINE), _accounts(running, "tenant", unit=1000))
    drf = {name: count / FINE for name, count in _tasks(found, "tenant").items()}
    assert all(abs(drf[name] - other[name]) > 0.1 for name in drf for other in (asset, ceei))
