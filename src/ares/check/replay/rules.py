"""The rules that a policy is checked by: which jobs may pass others, which promises it must keep; and the result."""

from typing import NamedTuple

from ares.model.base import Record
from ares.model.profile import Profile

# ---- rules


# Actions by which a job waits for other reasons than room, or takes room from other jobs.
_UNUSUAL = ("pace", "shrink", "reclaim", "preempt", "rotate", "consolidate", "grow")

_EVICTS = frozenset({"shrink", "reclaim", "preempt", "rotate"})
_HOLDS = ("easy", "aggressive", "deadline")
# Factors that are at most 1, and those that set a job apart from like ones.
_BOUNDED = ("drf", "fair-share")
_BY_RUN_TIME = frozenset({"shortest", "f1"})


class PolicyRules(NamedTuple):
    """The rules of one profile. `in_line`: jobs start in the order of submission, and wait for room only."""

    strategy: str
    delay_max_s: float
    in_line: bool
    # Whether the scheduler may have promises that are not in the log.
    partial: bool
    # Whether no later job may enter the room of a promise that slipped.
    drains: bool
    not_judged: tuple[str, ...]
    # How far a promise may slip before its room is closed to other jobs. None: it is never closed.
    slips_s: float | None = None
    # How much younger a job may be that comes first, all else being equal. None: no bound. Then the seconds that a
    # level of priority and a deadline add to that.
    turn_s: float | None = None
    level_s: float = 0.0
    deadline_s: float = 0.0
    # What half of the cluster adds once a job has waited for `ageing_s`, and takes from jobs that would pass it.
    width_s: float = 0.0
    ageing_s: float = 1.0
    # Whether a job of higher priority may preempt others, and one that has had less service jobs that save their work.
    evicts: bool = False
    rotates: bool = False
    # Whether promises go by likely run times: ends of running jobs move when plans go by limits, and back.
    guesses: bool = False


def rules_of(profile: Profile, *, committed: bool = False) -> PolicyRules:
    strategy = profile.backfill.strategy if "backfill" in profile.actions else "strict"
    said = [f"{why}: the first that waits is not compared" for why in _why_not(profile, committed=committed)]
    filling = profile.backfill
    drains = filling.drain and filling.hold == "longest" and not said and strategy in ("easy", "deadline")
    weights = {factor.name: factor.weight for factor in profile.order.primary if factor.weight}
    unit_s = profile.order.ageing_s / weights["age"] if "age" in weights else 0.0
    endless = _endless(profile, strategy, weights)
    ages = "age" in weights and not endless
    return PolicyRules(
        strategy=strategy,
        delay_max_s=filling.delay_max_s,
        in_line=not said,
        partial=bool(filling.depth),
        drains=drains,
        not_judged=(*said, *(f"no bound on waiting: {why}" for why in endless)),
        slips_s=None if committed else _slips_s(profile, strategy, weights),
        turn_s=unit_s * sum(weights.get(name, 0.0) for name in _BOUNDED) if ages else None,
        level_s=unit_s * weights.get("priority", 0.0),
        deadline_s=unit_s * weights.get("deadline", 0.0),
        width_s=unit_s * weights.get("size", 0.0),
        ageing_s=profile.order.ageing_s,
        evicts=bool(_EVICTS.intersection(profile.actions)),
        rotates="rotate" in profile.actions,
        guesses=filling.hold == "likely",
    )


def _slips_s(profile: Profile, strategy: str, weights: dict[str, float]) -> float | None:
    if strategy not in _HOLDS or profile.shares or profile.licences or not _BY_RUN_TIME.isdisjoint(weights):
        return None
    if strategy == "aggressive":
        return profile.backfill.delay_max_s
    return 0.0 if profile.backfill.drain and profile.backfill.hold == "longest" else None


def _endless(profile: Profile, strategy: str, weights: dict[str, float]) -> list[str]:
    """Why a job may wait for ever while other jobs keep coming."""
    said = {
        "nothing is held for whoever waits": strategy == "greedy",
        "those who are shorter or smaller stay ahead, however late they come": not _BY_RUN_TIME.isdisjoint(weights),
        "who used less stays ahead, and waiting counts nothing": "fair-share" in weights and "age" not in weights,
        "those with a deadline stay ahead": "deadline" in weights and "age" not in weights,
        "others enter again when a promise slips": strategy in _HOLDS and not profile.backfill.drain,
        "promises by likely run times slip until the guard holds": profile.backfill.hold == "likely",
    }
    return [why for why, so in said.items() if so]


def _why_not(profile: Profile, *, committed: bool) -> list[str]:
    order = profile.order
    fifo = [factor.name for factor in order.primary if factor.weight] == ["fifo"]
    unusual = [name for name in _UNUSUAL if name in profile.actions]
    said = {
        "jobs come in another order than that of their submission": not fifo or committed,
        f"the profile has {', '.join(unusual)}": bool(unusual),
        "the profile has limits or licences": bool(profile.shares or profile.licences),
        "pools have power caps, or are spot": any(pool.power_cap_watts or pool.spot for pool in profile.pools.values()),
    }
    return [why for why, so in said.items() if so]


# ---- the verdict


class ReplayVerdict(Record, frozen=True):
    """Counts of what was checked, and every violation in words, up to a limit."""

    policy: str
    # The backfill strategy that promises are checked by.
    strategy: str
    decisions: int = 0
    starts: int = 0
    ends: int = 0
    # How often the start of the head of the queue was compared: with the jobs that passed it, and without them.
    heads: int = 0
    # How often a promise was compared with the one before, and all promises of a decision with all that runs.
    promises: int = 0
    plans: int = 0
    # How often a promise that had slipped was looked at: whether others came into its room.
    drains: int = 0
    # Promises that moved, or could not be checked, because a job outlived its estimate or a node failed.
    excused: int = 0
    # Jobs that were promised a start and started, and how many of them within a minute of what they were told first.
    told: int = 0
    kept: int = 0
    # Jobs whose wait, since they were promised a start, was held against the most it may be; and those of them that
    # started later than the earliest they were told.
    bounded: int = 0
    slipped: int = 0
    # What of the policy is not judged here, and why.
    not_judged: tuple[str, ...] = ()
    violations: tuple[str, ...] = ()
    # Violations beyond the limit.
    more: int = 0

    @property
    def broken(self) -> int:
        return len(self.violations) + self.more

    def words(self) -> list[str]:
        """For a person: one line, then what is wrong or was not looked at."""
        counts = (
            f"{self.policy}: {self.decisions:,} decisions, {self.starts:,} starts, {self.heads:,} waits of the first in"
            f" line, {self.promises:,} promises, {self.plans:,} plans ahead; {self.excused:,} excused;"
            f" {self.broken:,} violations"
        )
        if self.bounded:
            counts += f"; {self.bounded:,} waits within their bound, {self.slipped:,} of them beyond what was told"
        if self.told:
            share = 100 * self.kept / self.told
            counts += f"; {share:.1f} % of {self.told:,} started within a minute of what they were told first"
        rest = [f"and {self.more:,} more"] if self.more else []
        return [counts, *(f"not judged: {rule}" for rule in self.not_judged), *self.violations, *rest]
