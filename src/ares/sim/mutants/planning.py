"""Bugs in believing a planner whose picture is old: it has not heard of the places that were given since."""
# pyright: reportPrivateUsage=false

from collections.abc import Callable, Sequence

from msgspec import structs

from ares.control.planner.messages import JobNews, News
from ares.control.planner.mirror import Mirror
from ares.control.scheduler import proposer
from ares.core.schedule import verification
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.plan import Plan
from ares.core.schedule.verification import verified_in_turn
from ares.model.state import BOUND
from ares.sim.mutants.mutant import Mutant
from ares.sim.mutants.patching import replace, together

_follow = Mirror._follow


def _old(self: Mirror, told: JobNews, news: News) -> None:
    if told.state.phase not in BOUND:
        _follow(self, told, news)


# Harmless as long as plans are verified: it costs time.
OLD_PICTURE = replace(Mirror, "_follow", _old)


def _believed(cluster: Cluster, plan: Plan, now: float, unchanged: Callable[[str], bool]) -> tuple[Plan, int]:
    return plan, 0


def _records_alone(cluster: Cluster, plan: Plan, now: float, unchanged: Callable[[str], bool]) -> tuple[Plan, int]:
    placed = tuple(entry for entry in plan.placed if unchanged(entry.job))
    return structs.replace(plan, placed=placed), len(plan.placed) - len(placed)


def _each_alone(
    cluster: Cluster, proposals: Sequence[verification.Proposed], now: float
) -> tuple[Plan, list[verification.Refused]]:
    """Every plan is verified, and none against what the others just got."""
    alone = [verified_in_turn(cluster, [proposal], now) for proposal in proposals]
    joined = structs.replace(alone[0][0], placed=tuple(entry for plan, _ in alone for entry in plan.placed))
    return joined, [refused for _, found in alone for refused in found]


MUTANTS = {
    "planners-not-in-turn": Mutant(
        "of two planners' plans that come at once each is verified as if there were no other",
        ("E8",),
        replace(proposer, "verified_in_turn", _each_alone),
        case="same-room",
    ),
    "plan-not-verified": Mutant(
        "the leader writes what the planner proposes, whatever its picture was",
        ("E8",),
        replace(proposer, "verified", _believed),
        case="old-plan",
    ),
    "old-picture-accepted": Mutant(
        "of a plan by an old picture only the jobs' own records are compared, not the live columns",
        ("E8",),
        together(OLD_PICTURE, replace(proposer, "verified", _records_alone)),
        case="old-plan",
    ),
}
