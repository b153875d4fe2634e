"""By what a policy is judged: whom it may let pass, and what it must keep."""

from typing import NamedTuple

from ares.model.profile import Profile

# Actions after which a job waits for other reasons than the lack of room, or room is taken away from others.
_UNUSUAL = ("pace", "shrink", "reclaim", "preempt", "consolidate", "grow")


class Rules(NamedTuple):
    """`in_line`: jobs come in the order of their submission, and wait for nothing but room."""

    strategy: str
    delay_max_s: float
    in_line: bool
    # Whether the log may say less of promises than the scheduler goes by.
    partial: bool
    # Whether nobody new may enter the room of a promise that slipped.
    drains: bool
    not_judged: tuple[str, ...]


def rules_of(profile: Profile, *, committed: bool = False) -> Rules:
    strategy = profile.backfill.strategy if "backfill" in profile.actions else "strict"
    said = [f"{why}: the first that waits is not compared" for why in _why_not(profile, committed=committed)]
    filling = profile.backfill
    drains = filling.drain and not said and strategy in ("easy", "deadline")
    return Rules(strategy, filling.delay_max_s, not said, bool(filling.depth), drains, tuple(said))


def _why_not(profile: Profile, *, committed: bool) -> list[str]:
    order = profile.order
    fifo = [one.name for one in order.primary if one.weight] == ["fifo"]
    unusual = [name for name in _UNUSUAL if name in profile.actions]
    said = {
        "jobs come in another order than that of their submission": not fifo or committed,
        f"the profile has {', '.join(unusual)}": bool(unusual),
        "the profile has limits or licences": bool(profile.shares or profile.licences),
        "pools have power caps, or are spot": any(one.power_cap_watts or one.spot for one in profile.pools.values()),
    }
    return [why for why, so in said.items() if so]
