"""What it costs to bring a job's data to a cluster: by prices between regions, from the cheapest place that has it."""

from collections.abc import Iterable, Mapping

from ares.core.routing.facts import DataRoute, RouteAsk
from ares.model.scaling import EgressPrice

# In place of a region: any.
ANY = "*"
_AS_IT_IS = DataRoute()
# By (from, to).
EgressPrices = Mapping[tuple[str, str], DataRoute]
# By dataset, the regions of clusters that have it.
Holders = Mapping[str, frozenset[str]]


def prices_of(listed: Iterable[EgressPrice]) -> dict[tuple[str, str], DataRoute]:
    return {
        (price.from_, price.to): DataRoute(gib_per_s=price.gib_per_s, egress_per_gib=price.per_gib) for price in listed
    }


def route_between(prices: EgressPrices, source: str, target: str) -> DataRoute:
    """The price that names most of the two regions; nothing is paid within one."""
    if source and source == target:
        return _AS_IT_IS
    places = ((source, target), (source, ANY), (ANY, target), (ANY, ANY))
    return next((prices[place] for place in places if place in prices), _AS_IT_IS)


def routes_to(
    target: str, ask: RouteAsk, holders: Holders, prices: EgressPrices
) -> tuple[DataRoute, dict[str, DataRoute]]:
    """How data comes to a cluster of this region: what no cluster has, and each of the job's datasets."""
    routes = {
        name: min((route_between(prices, source, target) for source in sorted(holders[name])), key=_cost)
        for name, _ in ask.inputs
        if holders.get(name)
    }
    return route_between(prices, ANY, target), routes


def _cost(route: DataRoute) -> tuple[float, float]:
    return route.egress_per_gib, -route.gib_per_s
