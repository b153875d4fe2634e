"""Which holder may be evicted for which asker, by which rule; and why the others may not."""

from collections.abc import Callable, Iterator
from typing import Literal

from ares.core.schedule.preempt.holders import Asker, EvictionCandidate, ServedTurn
from ares.model.job import PRIORITIES
from ares.model.profile import PreemptionPolicy

# Why a job is evicted: for a more important job, for a lender's own, for a job that has had less service, to tidy up,
# or because an operator says so.
Rule = Literal["priority", "reclaim", "service", "shrink", "consolidate", "drain"]
# Why a holder stays.
Exclusion = Literal[
    "itself", "not-preemptible", "gap", "critical", "not-borrowing", "asker-would-borrow", "own-share", "cap",
    "cooldown", "min-runtime", "more-important", "not-saving", "its-turn", "quantum",
]  # fmt: skip

_LOWEST = len(PRIORITIES) - 1

_Test = Callable[[EvictionCandidate, Asker, PreemptionPolicy], bool]


def _own(account: str, other: str) -> Iterator[str]:
    """The account's path from where it parts with the other's, downwards."""
    mine, theirs = account.split("/"), other.split("/")
    for depth in range(1, len(mine) + 1):
        if mine[:depth] != theirs[:depth]:
            yield "/".join(mine[:depth])


def answerable(account: str, other: str, asker: Asker) -> str | None:
    """The account that speaks for `account` towards `other`: the highest one not shared that has a soft limit.

    A team that borrows within a tenant that does not takes nothing from another tenant.
    """
    return next((path for path in _own(account, other) if path in asker.standing), None)


def _borrows(holder: EvictionCandidate, asker: Asker) -> bool:
    path = answerable(holder.account, asker.account, asker)
    return path is not None and asker.standing[path] > 0


def _stays_within(holder: EvictionCandidate, asker: Asker) -> bool:
    """With all that the asker asks for: an account that would borrow itself has nothing to take back."""
    path = answerable(asker.account, holder.account, asker)
    return path is not None and asker.standing[path] + asker.asked <= 0


def _own_share(holder: EvictionCandidate, asker: Asker) -> bool:
    """The holder's account is within what it declared, and the asker's would be beyond its own. Without this rule the
    holder's account would reclaim in the next cycle what was preempted in this one, and so on."""
    mine = answerable(holder.account, asker.account, asker)
    theirs = answerable(asker.account, holder.account, asker)
    if mine is None or theirs is None:
        return False
    return asker.standing[mine] <= 0 < asker.standing[theirs] + asker.asked


def _has_had_more(holder: ServedTurn | None, asker: ServedTurn | None) -> bool:
    """More service, and its turn is over by age and service together: else it would be first in line again."""
    return holder is not None and asker is not None and holder.counted_s > asker.counted_s and holder.at > asker.at


_TESTS: dict[Exclusion, _Test] = {
    "itself": lambda holder, asker, _: holder.job == asker.job,
    "not-preemptible": lambda holder, _, __: not holder.preemptible,
    "gap": lambda holder, asker, policy: holder.level - asker.level < policy.gap,
    "critical": lambda holder, asker, _: holder.level == 0 < asker.level,
    "not-borrowing": lambda holder, asker, _: not _borrows(holder, asker),
    "asker-would-borrow": lambda holder, asker, _: not _stays_within(holder, asker),
    "own-share": lambda holder, asker, _: _own_share(holder, asker),
    "cap": lambda holder, _, policy: holder.preemptions >= policy.cap,
    "cooldown": lambda holder, _, policy: (
        holder.preempted_s_ago is not None and holder.preempted_s_ago < policy.cooldown_s
    ),
    "min-runtime": lambda holder, _, policy: holder.ran_s < policy.min_runtime_s,
    "more-important": lambda holder, asker, _: holder.level < asker.level,
    "not-saving": lambda holder, _, __: holder.service is None,
    "its-turn": lambda holder, asker, _: not _has_had_more(holder.service, asker.service),
    "quantum": lambda holder, _, __: holder.service is not None and not holder.service.rested,
}
_PEACE: tuple[Exclusion, ...] = ("cap", "cooldown", "min-runtime")
# What lasts comes first: a person reads the first reason that holds.
_RULES: dict[Rule, tuple[Exclusion, ...]] = {
    "priority": ("itself", "not-preemptible", "gap", "own-share", *_PEACE),
    "reclaim": ("itself", "not-preemptible", "critical", "not-borrowing", "asker-would-borrow", *_PEACE),
    "service": (
        "itself",
        "not-preemptible",
        "not-saving",
        "more-important",
        "its-turn",
        "own-share",
        "quantum",
        "cooldown",
        "min-runtime",
    ),
    "shrink": ("own-share",),
    "consolidate": ("not-preemptible", *_PEACE),
    "drain": (),
}
_TESTS_OF: dict[Rule, tuple[tuple[Exclusion, _Test], ...]] = {
    rule: tuple((word, _TESTS[word]) for word in words) for rule, words in _RULES.items()
}


# A victim that counts nothing, however large.
_FREE = 62


def leniency(holder: EvictionCandidate, asker: Asker, policy: PreemptionPolicy, rule: Rule) -> int:
    """How often the size of a victim is halved before it counts in the disruption bound: not at all just `gap` levels
    below the asker, once for each further level. BEST_EFFORT is nothing to CRITICAL, which never waits behind it."""
    if rule != "priority":
        return 0
    if asker.level == 0 and holder.level == _LOWEST:
        return _FREE
    return max(0, holder.level - asker.level - policy.gap)


def eligible(holder: EvictionCandidate, asker: Asker, policy: PreemptionPolicy, rule: Rule) -> Exclusion | None:
    """Why the holder may not be evicted; None when it may."""
    for word, excludes in _TESTS_OF[rule]:
        if excludes(holder, asker, policy):
            return word
    return None
