"""Scorers: which of the nodes that can take a job is best. One file each, weighted by a profile."""

from collections.abc import Callable

from ares.core.capacity.node_slice import Rows
from ares.core.capacity.node_table import Floats
from ares.core.schedule.scorers import affinity, balance, bandwidth, cost, energy, fit, fragmentation, locality, speed

# About 0..1 for rows that can take the ask, larger is better; None when it makes no difference between any rows.
# What it says about a row must depend on that row, the ask and `Rows.facts` only; `locality` also on what other nodes
# are, and `affinity` of an ask with `near` on which jobs run elsewhere.
Scorer = Callable[[Rows], Floats | None]

SCORERS: dict[str, Scorer] = {
    "fit": fit.score,
    "affinity": affinity.score,
    "balance": balance.score,
    "locality": locality.score,
    "cost": cost.score,
    "fragmentation": fragmentation.score,
    "bandwidth": bandwidth.score,
    "energy": energy.score,
    "speed": speed.score,
}
