"""How far machines are apart."""

import pytest

from ares.core.topology.network import TIERS, between, domain_path
from ares.model.node import NodeInfo


def node(name: str, place: str = "", gbps: float = 0.0) -> NodeInfo:
    """`place` is "region zone rack", of which the last may be left out."""
    region, zone, rack = (*place.split(), "", "", "")[:3]
    return NodeInfo(
        name=name, cpu_milli=1, memory_mib=1, rack=rack, zone=zone, region=region, network_gbps=gbps
    )  # fmt: skip


def test_equal_names_in_two_zones_are_two_racks() -> None:
    one, other = domain_path(node("a", "eu z1 r1")), domain_path(node("b", "eu z2 r1"))
    assert one == ("eu/z1/r1", "eu/z1", "eu")
    assert one[0] != other[0]
    assert one[2] == other[2]


def test_names_with_slashes_do_not_run_together() -> None:
    one = NodeInfo(name="a", cpu_milli=1, memory_mib=1, zone="a/b", rack="c")
    other = NodeInfo(name="b", cpu_milli=1, memory_mib=1, zone="a", rack="b/c")
    assert domain_path(one)[0] != domain_path(other)[0]


def test_unknown_places_are_one_place() -> None:
    assert domain_path(node("a")) == domain_path(node("b")) == ("", "", "")
    assert between(node("a"), node("b")).level == "rack"
    assert domain_path(node("a", "eu")) != domain_path(node("b"))


@pytest.mark.parametrize(
    ("one", "other", "level", "gbytes"),
    [
        ("eu z1 r1", "eu z1 r1", "rack", 50.0),
        ("eu z1 r1", "eu z1 r2", "zone", 25.0),
        ("eu z1 r1", "eu z2 r1", "region", 12.5),
        ("eu z1 r1", "us z1 r1", None, 2.5),
    ],
)
def test_tiers(one: str, other: str, level: str | None, gbytes: float) -> None:
    a, b = node("a", one, 400.0), node("b", other, 800.0)
    assert between(a, b)[:2] == (level, pytest.approx(gbytes))
    assert between(a, b) == between(b, a)


def test_further_is_never_faster() -> None:
    assert [tier.share for tier in TIERS] == sorted((tier.share for tier in TIERS), reverse=True)
    assert [tier.latency_us for tier in TIERS] == sorted(tier.latency_us for tier in TIERS)


def test_one_machine_and_an_unknown_network() -> None:
    assert between(node("a"), node("a")).level == "node"
    assert between(node("a", gbps=400.0), node("b")).bandwidth_gbps == pytest.approx(1.25)
