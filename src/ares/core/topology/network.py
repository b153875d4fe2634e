"""How far two machines are apart, and what goes between them."""

from typing import Final, NamedTuple

from ares.model.job import TopologyLevel
from ares.model.node import NodeInfo

Reach = TopologyLevel | None


class Tier(NamedTuple):
    # The tightest level that both machines share; None when they share none.
    level: Reach
    # The part of the slower machine's network bandwidth.
    share: float
    latency_us: float
    why: str


class Between(NamedTuple):
    level: Reach
    # In GB/s in one direction, as for links inside a machine.
    bandwidth_gbps: float
    latency_us: float


# Tightest first. Shares and latencies are what is usual, not measured here: they order places, they promise nothing.
TIERS: Final = (
    Tier("node", 1.0, 1.0, "both ends are one machine; its GPU links say more"),
    Tier("rack", 1.0, 5.0, "one switch, no oversubscription"),
    Tier("zone", 0.5, 20.0, "uplinks of racks commonly carry half of what their machines could send"),
    Tier("region", 0.25, 1_000.0, "lines between buildings are shared by all"),
    Tier(None, 0.05, 50_000.0, "long lines, shared and far"),
)
# In Gbit/s, for machines that do not say: the least that is built into servers today.
ASSUMED_NETWORK_GBPS: Final = 10.0
_BITS: Final = 8


def domain_path(info: NodeInfo) -> tuple[str, str, str]:
    """Ids of its rack, zone and region. A rack is inside a zone and a zone inside a region, so equal names in two
    zones are two racks. What is not known is one place, shared by all machines that do not know it."""
    region, zone, rack = (_escaped(name) for name in (info.region, info.zone, info.rack))
    return _joined(region, zone, rack), _joined(region, zone), region


def between(one: NodeInfo, other: NodeInfo) -> Between:
    """What lies between two machines. Two machines of one name are one machine."""
    tier = TIERS[_distance(one, other)]
    slower = min(one.network_gbps or ASSUMED_NETWORK_GBPS, other.network_gbps or ASSUMED_NETWORK_GBPS)
    return Between(tier.level, slower / _BITS * tier.share, tier.latency_us)


def _distance(one: NodeInfo, other: NodeInfo) -> int:
    """The index in `TIERS`."""
    if one.name == other.name:
        return 0
    shared = (mine == theirs for mine, theirs in zip(domain_path(one), domain_path(other), strict=True))
    return next((at for at, same in enumerate(shared, 1) if same), len(TIERS) - 1)


def _escaped(name: str) -> str:
    return name.replace("%", "%25").replace("/", "%2F")


def _joined(*names: str) -> str:
    return "/".join(names) if any(names) else ""
