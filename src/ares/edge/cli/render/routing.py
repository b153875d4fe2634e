"""Clusters in a decision: each with its terms, the winner first, and those that were refused with the reason."""

from typing import TYPE_CHECKING

from ares.edge.cli.render.explanation import section
from ares.edge.cli.render.text import duration, printable

if TYPE_CHECKING:
    from ares.api.decisions import RouteSeen
    from ares.model.cluster import RoutedCluster, RouteWeights

_HEADER = (
    "CLUSTER", "SCORE", "WAIT", "BOOT", "DATA", "IMAGE", "RUN", "COST", "EGRESS", "INTERRUPTION", "ROUND TRIP",
    "REPORT", "MACHINES",
)  # fmt: skip


def lines(seen: "RouteSeen", now: float) -> list[str]:
    """Nothing where there are no clusters."""
    decision = seen.decision
    if decision is None:
        return []
    when = "as they are now" if seen.at is None else f"as they were {duration(now - seen.at)} ago"
    found = ["", f"Clusters, {when}", f"  {printable(seen.message)}"]
    found += section("Terms, in seconds and money: the least score wins", _HEADER, map(_row, decision.ranked))
    found += [f"  {_weights(decision.weights)}"] if decision.ranked else []
    if decision.catalogue:
        aged = duration(decision.catalogue_age_s)
        found.append(f"  egress by version {printable(decision.catalogue)} of the catalogue of prices, {aged} old")
    refused = ((no.cluster, no.code, printable(no.message)) for no in decision.refused)
    found += section("Clusters that do not come into question", ("CLUSTER", "CODE", "WHY"), refused)
    return [*found, f"  and {decision.more} more"] if decision.more else found


def _row(routed: "RoutedCluster") -> tuple[str, ...]:
    terms = routed.terms
    times = (terms.wait_s, terms.boot_s, terms.data_s, terms.image_s, terms.run_s)
    money = (terms.run_cost, terms.egress_cost, terms.interruption_cost)
    report = f"{routed.seq}, {terms.age_s:.0f}s ago"
    return (
        routed.cluster, f"{routed.score:,.1f}", *(_seconds(time) for time in times),
        *(f"{cost:,.2f}" for cost in money), f"{terms.rtt_s * 1000:.0f}ms", report, printable(routed.machines),
    )  # fmt: skip


def _seconds(time: float) -> str:
    return duration(time) if time >= 1 else f"{time:.1f}s" if time else "0s"


def _weights(weights: "RouteWeights") -> str:
    rest = f"a second of round trip {weights.rtt:g} s, a second of a report's age {weights.age:g} s"
    return f"score: a unit of money counts {weights.money_s:g} s, {rest}"
