"""Whether a job fits into the limits of its tenant, its team and its user, with the numbers either way."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ares.api.quotas import LevelUse
from ares.core.queue.order import LEVELS
from ares.core.quota.asked import units_of
from ares.core.quota.counts import TENANT, QuotaLevel
from ares.core.quota.measures import AT_USE, STANDING, Amounts, from_units, kind_of, to_units, words
from ares.core.refusal import Refusal
from ares.model.job import PRIORITIES, Priority
from ares.model.quota import Limits, Quota

_MILLI = 1000
# How much earlier a tenant's jobs are refused while its counts are in doubt.
DOUBT = 100


class OverQuota(Refusal, frozen=True):
    """`levels` is what is used of the limits in the way, `worst` the limit that is named first, and `needs` how many
    units of it must become free."""

    levels: tuple[LevelUse, ...] = ()
    worst: tuple[QuotaLevel, str] = (TENANT, "")
    needs: int = 0


class WithinQuota(NamedTuple):
    """The job fits. Lists what is beyond a soft limit now."""

    warnings: tuple[str, ...] = ()


_NOTHING: Amounts = {}
# What a level uses now.
Used = Callable[[QuotaLevel], Amounts]


def limits_of(quota: Quota, level: QuotaLevel) -> Limits:
    if level.kind == "tenant":
        return quota.own
    if level.kind == "team":
        return quota.teams.get(level.name, quota.team_default)
    return quota.users.get(level.name, quota.user_default)


def bound(measure: str, hard: float, threshold: float, *, in_doubt: bool = False) -> int:
    """The most units that may be in use after an admission."""
    most, threshold_milli = to_units(measure, hard), _threshold_milli(measure, threshold, in_doubt=in_doubt)
    if threshold_milli >= _MILLI:
        return most
    # Reaching the threshold is too much already.
    return -(-most * threshold_milli // _MILLI) - 1


def _threshold_milli(measure: str, threshold: float, *, in_doubt: bool) -> int:
    return (_MILLI if kind_of(measure).whole else round(threshold * _MILLI)) - (DOUBT if in_doubt else 0)


def ceiling(quota: Quota, levels: Sequence[QuotaLevel]) -> Priority | None:
    """The highest priority allowed: the lowest of all ceilings."""
    found: list[Priority] = [priority for level in levels if (priority := limits_of(quota, level).priority) is not None]
    return PRIORITIES[max(LEVELS[priority] for priority in found)] if found else None


def above_ceiling(quota: Quota, levels: Sequence[QuotaLevel], priority: Priority) -> OverQuota | None:
    most = ceiling(quota, levels)
    if most is None or LEVELS[priority] >= LEVELS[most]:
        return None
    message = f"priority {priority} is above {most}, the highest that is allowed here"
    fix = f"submit it with priority {most} or lower, or ask an operator to"
    return OverQuota(code="priority-ceiling", message=message, fix=fix, reason="priority")


def judge(
    quota: Quota, levels: Sequence[QuotaLevel], used: Used, asked: Amounts, *, in_doubt: bool = False
) -> WithinQuota | OverQuota:
    """Whether use and what is asked for stay within every limit."""
    broken: list[tuple[QuotaLevel, str, int, bool]] = []
    warnings: list[str] = []
    for level in levels:
        amounts = limits_of(quota, level).amounts
        held = used(level) if amounts else _NOTHING
        for measure, limit in amounts.items():
            wants = units_of(asked, measure)
            if (not wants and measure not in STANDING) or measure in AT_USE:
                continue
            total = units_of(held, measure) + wants
            if limit.hard is not None and total > (
                most := bound(measure, limit.hard, quota.threshold, in_doubt=in_doubt)
            ):
                broken.append((level, measure, total - most, wants > most))
            elif limit.soft is not None and total > to_units(measure, limit.soft):
                warnings.append(_beyond_soft(level, measure, total, limit.soft))
    if broken:
        return _no(quota, levels, used, asked, broken, in_doubt=in_doubt)
    return WithinQuota(tuple(warnings))


def over(quota: Quota, level: QuotaLevel, measure: str, held: Amounts, asked: Amounts) -> bool:
    """Whether one measure alone would be beyond what is allowed."""
    limit = limits_of(quota, level).amounts.get(measure)
    if limit is None or limit.hard is None:
        return False
    most = bound(measure, limit.hard, quota.threshold)
    return units_of(held, measure) + units_of(asked, measure) > most


def _no(
    quota: Quota,
    levels: Sequence[QuotaLevel],
    used: Used,
    asked: Amounts,
    broken: list[tuple[QuotaLevel, str, int, bool]],
    *,
    in_doubt: bool,
) -> OverQuota:
    # Limits that can never be met come first, then the ones that take longest to become free.
    level, measure, needs, never = max(broken, key=lambda breach: (breach[3], kind_of(breach[1]).frees != "jobs"))
    shown = tuple(
        use_at(
            quota,
            each,
            which,
            used(each),
            asked,
            in_doubt=in_doubt,
            exceeded=(each, which) in {breach[:2] for breach in broken},
        )
        for which in dict.fromkeys(breach[1] for breach in broken)
        for each in levels
    )
    worst = next(row for row in shown if (row.level, row.name, row.measure) == (level.kind, level.name, measure))
    whose = "the tenant" if level.kind == "tenant" else f"{level.kind} {level.name}"
    limit, free = worst.limit or 0.0, worst.free or 0.0
    message = (
        f"{whose} may have {limit:g} {words(measure)}: {worst.used:g} in use, {worst.asked:g} asked for, {free:g} free"
    )
    if (threshold_milli := _threshold_milli(measure, quota.threshold, in_doubt=in_doubt)) < _MILLI:
        message += f" (jobs are taken below {threshold_milli / 10:g} % of a limit)"
    if measure == "budget" and not never:
        code, fix = "budget-exceeded", _FIXES["month"]
    elif never:
        code, fix = "quota-too-small", "ask for less, or have the limit raised"
    else:
        code, fix = "quota-exceeded", _FIXES[kind_of(measure).frees]
    return OverQuota(
        code=code,
        message=message,
        fix=fix,
        reason="budget" if code == "budget-exceeded" else "quota",
        levels=shown,
        worst=(level, measure),
        needs=needs,
    )


_FIXES = {
    "jobs": "wait until jobs end, cancel some, or ask for less",
    "month": "wait for the next month, ask for less, or have the limit raised",
    "retention": "remove datasets, have jobs with large outputs removed, or the limit raised",
}


def use_at(
    quota: Quota,
    level: QuotaLevel,
    measure: str,
    held: Amounts,
    asked: Amounts,
    *,
    in_doubt: bool = False,
    exceeded: bool = False,
) -> LevelUse:
    limit = limits_of(quota, level).amounts.get(measure)
    units = units_of(held, measure)
    hard = None if limit is None else limit.hard
    free = None if hard is None else max(0, bound(measure, hard, quota.threshold, in_doubt=in_doubt) - units)
    return LevelUse(
        level=level.kind,
        name=level.name,
        measure=measure,
        asked=from_units(measure, units_of(asked, measure)),
        used=from_units(measure, units),
        limit=hard,
        soft=None if limit is None else limit.soft,
        free=None if free is None else from_units(measure, free),
        exceeded=exceeded,
    )


def _beyond_soft(level: QuotaLevel, measure: str, total: int, soft: float) -> str:
    whose = "the tenant" if level.kind == "tenant" else f"{level.kind} {level.name}"
    return (
        f"{whose} is beyond its soft limit of {soft:g} {words(measure)}: {from_units(measure, total):g} with this job"
    )
