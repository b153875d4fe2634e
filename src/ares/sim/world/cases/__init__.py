"""Directed cases: small worlds in which a script causes, at an exact point, what random faults seldom cause.

The product keeps every promise in each of them. A seed changes details: delays, jitter, the replica asked first.
"""

from ares.sim.world.cases import (
    absences,
    answers,
    checkpoints,
    inputs,
    leaders,
    logs,
    needs,
    records,
    steering,
    tenants,
    watches,
    zombies,
)
from ares.sim.world.stage import DirectedCase

CASES: dict[str, DirectedCase] = {
    **zombies.CASES,
    **answers.CASES,
    **leaders.CASES,
    **watches.CASES,
    **absences.CASES,
    **tenants.CASES,
    **records.CASES,
    **logs.CASES,
    **steering.CASES,
    **needs.CASES,
    **checkpoints.CASES,
    **inputs.CASES,
}
