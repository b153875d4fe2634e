"""A shadow profile: when it is judged again, how sure a verdict must be, and what follows from it."""

from typing import Literal

from ares.model.profile import ShadowJudgement, ShadowRecord

# Fewer jobs say nothing.
JOBS_MIN = 100
# Of all looks of one phase together: how likely it is that one of them calls better, or worse, what is neither.
_CHANCE = 0.05
_DAY_S = 86_400.0

ShadowStep = Literal["keep", "promote", "revert"]


def chance_of(look: int) -> float:
    """What one look may be wrong by, the first being 1. Over all looks, however many, they add up to 0.05."""
    return _CHANCE / (look * (look + 1))


def due(record: ShadowRecord, fresh: int) -> bool:
    """Whether it is worth another look, with so many jobs that count and came since the last one.

    As many again as at the last look: so there are few looks, and each knows much more than the one before.
    """
    if record.phase not in ("held", "promoted"):
        return False
    known = 0 if record.judgement is None or record.looks == 0 else record.judgement.jobs
    return fresh >= max(JOBS_MIN, known)


def step_after(record: ShadowRecord, found: ShadowJudgement) -> ShadowStep:
    if record.phase == "held":
        return "promote" if record.promotes == "when-better" and found.verdict == "better" else "keep"
    return "revert" if record.phase == "promoted" and found.verdict in ("worse", "waits-longer") else "keep"


def sentence(found: ShadowJudgement) -> str:
    """The verdict with its numbers."""
    days = (found.until - found.since) / _DAY_S
    head = (
        f"{found.verdict}: gain {100 * found.gain:.1f} % over {found.jobs:,} jobs of {days:.1f} days, against "
        f"version {found.version}"
    )
    longest = f"longest wait {found.base.longest_wait_s / 3600:.2f} -> {found.shadow.longest_wait_s / 3600:.2f} h"
    if found.low is None or found.high is None:
        return f"{head}; how sure that is cannot be said yet; {longest}"
    between = f"between {100 * found.low:.1f} and {100 * found.high:.1f} %"
    sure = f"as far as {found.blocks} {found.of} tell, wrong in {100 * found.chance:.2g} % of such looks"
    return f"{head}; {between} {sure}; {longest}"
