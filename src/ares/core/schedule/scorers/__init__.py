"""Scorers: which of the nodes that can take a job is best. One file each, weighted by a profile."""

from ares.core.capacity.rule import Scorer
from ares.core.schedule.scorers import affinity, balance, bandwidth, cost, energy, fit, fragmentation, locality, speed

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
