"""Bugs in fair shares: the wrong tenant's job is preempted."""
# pyright: reportPrivateUsage=false

from ares.core.schedule.preempt import eligible
from ares.core.schedule.preempt.eligible import _TESTS_OF
from ares.sim.mutants.mutant import Mutant
from ares.sim.mutants.patching import replace

_BY_PRIORITY_ALONE = {
    **_TESTS_OF,
    "priority": tuple((word, test) for word, test in _TESTS_OF["priority"] if word != "own-share"),
}

MUTANTS = {
    "own-yields-to-borrower": Mutant(
        "a job within its tenant's own share is preempted for a tenant that borrows",
        ("E20",),
        replace(eligible, "_TESTS_OF", _BY_PRIORITY_ALONE),
        case="borrowed",
    ),
}
