"""Decisions as real ledgers keep them, for the same judge that looks at simulated ones.

The names are written down a second time on purpose: what the code under test forgets must not be forgotten here.
"""

import re
from typing import Any

from ares.check.federation.books import FederationBooks
from ares.check.federation.history import RouteWritten
from ares.check.federation.rules import TermsRecompute
from ares.model.state import LedgerEvent

_TERMS = (
    "wait_s", "boot_s", "data_s", "image_s", "run_s", "run_cost", "egress_cost", "interruption_cost", "rtt_s", "age_s",
)  # fmt: skip
_WEIGHTS = ("money_s", "rtt", "age")


def unlike_its_score(event: LedgerEvent) -> str:
    """What is wrong with the decision that an entry keeps; empty when its terms make its score, or there is none."""
    written = route_written(event)
    if written is None:
        return ""
    rule = TermsRecompute(FederationBooks())
    rule.before(written)
    return rule.broken[0].what if rule.broken else ""


def route_written(event: LedgerEvent) -> RouteWritten | None:
    """None for an entry that is no decision about a cluster."""
    kept: dict[str, Any] | None = event.data.get("route")
    if event.kind != "offered" or kept is None:
        return None
    ranked: list[dict[str, Any]] = kept["ranked"]
    return RouteWritten(
        t=event.at, job=event.job, chosen=str(event.data["cluster"]),
        terms={routed["cluster"]: _named(routed["terms"], _TERMS) for routed in ranked},
        scores={routed["cluster"]: float(routed["score"]) for routed in ranked},
        weights=_named(kept["weights"], _WEIGHTS),
    )  # fmt: skip


def _named(given: dict[str, float], names: tuple[str, ...]) -> dict[str, float]:
    """A term of 0 is left out of the entry; one of another name is a mistake."""
    unknown = given.keys() - {_camel(name) for name in names}
    if unknown:
        raise ValueError(f"no term is called {sorted(unknown)[0]!r}")
    return {name: float(given.get(_camel(name), 0.0)) for name in names}


def _camel(name: str) -> str:
    return re.sub(r"_([a-z])", lambda found: found[1].upper(), name)
