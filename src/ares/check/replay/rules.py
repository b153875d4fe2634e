"""The rules that a policy is checked by: which jobs may pass others, and which promises it must keep."""

from typing import NamedTuple

from ares.model.profile import Profile

# Actions by which a job waits for other reasons than room, or takes room from other jobs.
_UNUSUAL = ("pace", "shrink", "reclaim", "preempt", "consolidate", "grow")

_EVICTS = frozenset({"shrink", "reclaim", "preempt"})
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
    # Whether a job of higher priority may preempt others.
    evicts: bool = False


def rules_of(profile: Profile, *, committed: bool = False) -> PolicyRules:
    strategy = profile.backfill.strategy if "backfill" in profile.actions else "strict"
    said = [f"{why}: the first that waits is not compared" for why in _why_not(profile, committed=committed)]
    filling = profile.backfill
    drains = filling.drain and not said and strategy in ("easy", "deadline")
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
    )


def _slips_s(profile: Profile, strategy: str, weights: dict[str, float]) -> float | None:
    if strategy not in _HOLDS or profile.shares or profile.licences or not _BY_RUN_TIME.isdisjoint(weights):
        return None
    if strategy == "aggressive":
        return profile.backfill.delay_max_s
    return 0.0 if profile.backfill.drain else None


def _endless(profile: Profile, strategy: str, weights: dict[str, float]) -> list[str]:
    """Why a job may wait for ever while other jobs keep coming."""
    said = {
        "nothing is held for whoever waits": strategy == "greedy",
        "those who are shorter or smaller stay ahead, however late they come": not _BY_RUN_TIME.isdisjoint(weights),
        "who used less stays ahead, and waiting counts nothing": "fair-share" in weights and "age" not in weights,
        "those with a deadline stay ahead": "deadline" in weights and "age" not in weights,
        "others enter again when a promise slips": strategy in _HOLDS and not profile.backfill.drain,
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
