"""Which rank of a gang failed first. The others fell with it."""

from collections.abc import Sequence, Set
from typing import Final

from msgspec.structs import replace

from ares.model.job import FailureClass
from ares.model.state import ExitInfo, RankEnd

# An agent's clock is believed as far as it agrees with the control plane's so well.
CLOCK_BOUND_S: Final = 2.0
# Ends so close together count as one moment: reports take their time, and clocks differ.
TOGETHER_S: Final = 0.25
# Ends of ranks that are kept to judge by, and how much of each one's words: a state has a bound in the store.
_ENDS_MAX: Final = 64
_WORDS_MAX: Final = 500
# What a peer's death rarely brings about, first.
_FIRST: Final[tuple[FailureClass | None, ...]] = ("node-lost", "oom", "signal", "exit")


def believed(at: float, heard: float) -> float:
    """When a rank ended: by its agent's word, or when the report came if that cannot be."""
    return at if heard - CLOCK_BOUND_S <= at <= heard else heard


def in_short(exit_info: ExitInfo) -> ExitInfo:
    return replace(exit_info, message=exit_info.message[:_WORDS_MAX])


def likely(ends: tuple[RankEnd, ...]) -> tuple[RankEnd, ...]:
    """Those of many ends that may have been the first: not blamed on others, and the earliest."""
    if len(ends) <= _ENDS_MAX:
        return ends
    return tuple(sorted(ends, key=lambda end: (end.blames is not None, end.at, end.rank))[:_ENDS_MAX])


def root_of(ends: Sequence[RankEnd]) -> RankEnd:
    """The end that no other end explains: not blamed on another rank that failed too, of a lost node before all, else
    the earliest, and of several at about one time the one of the gravest class."""
    failed = {end.rank for end in ends}
    own = [end for end in ends if end.blames is None or end.blames not in failed or end.blames == end.rank] or ends
    lost = [end for end in own if end.exit.failure == "node-lost"]
    first = min(end.at for end in lost or own)
    together = [end for end in lost or own if end.at <= first + TOGETHER_S]
    return min(together, key=lambda end: (_grade(end), end.at, end.rank))


def named(root: RankEnd, ends: Sequence[RankEnd], alive: Set[int]) -> RankEnd:
    """The end that the verdict is about: of a rank that is blamed, alive and silent, as one that is frozen is, what was
    said of it."""
    if root.blames is None or root.blames not in alive - {end.rank for end in ends}:
        return root
    return RankEnd(root.blames, root.exit, root.at)


def _grade(end: RankEnd) -> int:
    return _FIRST.index(end.exit.failure) if end.exit.failure in _FIRST else len(_FIRST)
