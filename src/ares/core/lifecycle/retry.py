"""Whether a failed attempt is repeated, and after how long. One table of defaults per failure class."""

from math import ceil
from typing import NamedTuple

from ares.model.base import Record
from ares.model.job import FailureClass, JobSpec
from ares.model.state import ExitInfo, JobState

# Nodes that failed a job and are remembered.
_AVOIDED_MAX = 3
# So many times its first memory an attempt may ask for at most.
_GROWTH_MAX = 1 << 20
# Restarts have no budget: beyond this many the power would no longer fit a float.
_EXPONENT_MAX = 300


# An attempt that fails at once is not repeated at once, whatever the job asks for: it would only cost.
FLOOR_S = 0.5


class ClassRule(NamedTuple):
    """Defaults of one failure class; None means "as the job's own retry policy says"."""

    limit: int | None = None
    base_s: float | None = None
    cap_s: float | None = None
    floor_s: float = FLOOR_S


RULES: dict[FailureClass, ClassRule] = {
    "exit": ClassRule(),
    "signal": ClassRule(),
    "oom": ClassRule(),
    # The same work would hit the same limit again.
    "time-limit": ClassRule(limit=0),
    # Not the job's fault: many tries, soon, on other nodes.
    "node-lost": ClassRule(limit=10, base_s=0.5, cap_s=10.0, floor_s=0.0),
    # Most often a mistyped command; sometimes one node that lacks it.
    "staging": ClassRule(limit=2, base_s=0.5, cap_s=30.0),
}


class Again(Record, frozen=True):
    """Repeat after `delay_s`; this is retry number `used` of `limit` for this class."""

    delay_s: float
    failure: FailureClass
    used: int
    limit: int
    message: str


class Final(Record, frozen=True):
    """Do not repeat; `message` says why."""

    message: str


_ENDINGS: dict[FailureClass | None, str] = {
    None: "succeeded",
    "exit": "exit code {code}",
    "signal": "killed by {signal}",
    "oom": "out of memory",
    "time-limit": "time limit reached",
    "node-lost": "node lost",
    "staging": "could not be started",
}


def describe(exit_info: ExitInfo) -> str:
    """How an attempt ended, in a few words."""
    words = _ENDINGS[exit_info.failure].format(code=exit_info.code, signal=exit_info.signal or "a signal")
    return f"{words}: {exit_info.message}" if exit_info.message else words


def limit_of(spec: JobSpec, failure: FailureClass) -> int:
    """The budget of one failure class: the job's override, else the class's default, else the job's limit."""
    default = RULES[failure].limit
    return spec.retry.class_limits.get(failure, spec.retry.limit if default is None else default)


def ceiling_s(spec: JobSpec, failure: FailureClass, used: int) -> float:
    """The longest delay that full jitter may draw after `used` earlier retries of this class."""
    rule, policy = RULES[failure], spec.retry
    base = policy.base_s if rule.base_s is None else rule.base_s
    cap = policy.max_s if rule.cap_s is None else min(policy.max_s, rule.cap_s)
    return min(cap, base * policy.multiplier**used)


def restart_ceiling_s(spec: JobSpec, quick: int) -> float:
    """The longest delay before a restart that follows `quick` restarts in quick succession."""
    policy = spec.retry
    return min(policy.max_s, policy.base_s * policy.multiplier ** min(quick, _EXPONENT_MAX))


def drawn_s(ceiling: float, jitter: float, floor: float = FLOOR_S) -> float:
    """Anywhere between the floor and the ceiling, or twice the floor if that is higher: so that what failed together
    does not come back together."""
    return floor + jitter * max(ceiling - floor, floor)


def decide(spec: JobSpec, state: JobState, exit_info: ExitInfo, jitter: float) -> Again | Final:
    """The verdict on a failed attempt of `state`, which is still STAGING or RUNNING."""
    failure = exit_info.failure
    if failure is None:
        raise ValueError(f"job {state.id}: retry was asked about an attempt that succeeded")
    ending = describe(exit_info)
    veto = _veto(spec, state, exit_info)
    if veto:
        return Final(message=f"{ending}; {veto}")
    used, limit = state.retries.get(failure, 0), limit_of(spec, failure)
    if used >= limit:
        budget = f"no retries left ({used} of {limit} used)" if limit else f"no retries for class {failure}"
        return Final(message=f"{ending}; {budget}")
    delay_s = drawn_s(ceiling_s(spec, failure, used), jitter, RULES[failure].floor_s)
    message = f"{ending}; retry {used + 1} of {limit} in {delay_s:.1f} s"
    return Again(delay_s=delay_s, failure=failure, used=used + 1, limit=limit, message=message)


def _veto(spec: JobSpec, state: JobState, exit_info: ExitInfo) -> str:
    """Why the budget does not even matter, or nothing."""
    # Only a staging failure seen while staging proves that no process of the job ever ran; of a gang's other ranks
    # it says nothing.
    may_have_started = state.phase != "STAGING" or exit_info.failure != "staging" or spec.gang is not None
    if may_have_started and spec.effects == "unsafe":
        return "its effects are unsafe, so it is never started twice"
    if may_have_started and spec.restart == "never":
        return "its restart policy is never"
    if exit_info.lasting:
        return "another attempt would end in the same way"
    if exit_info.failure == "exit" and exit_info.code in spec.retry.final_exit_codes:
        return f"code {exit_info.code} is one of its final exit codes"
    return ""


def grown_mib(spec: JobSpec, state: JobState, largest_mib: int) -> int | None:
    """The memory that the next attempt asks for after one that ended for want of it; None: as much as before.

    `spec` is as it was submitted, so that the same failure never makes it grow twice; no node has more than
    `largest_mib`."""
    policy, ends = spec.retry, state.retries.get("oom", 0)
    if policy.oom_memory_factor <= 1.0 or not ends or state.exit is None or state.exit.failure != "oom":
        return None
    first = spec.resources.memory_mib
    most = min(policy.oom_memory_max_mib or largest_mib, largest_mib)
    return max(first, min(most, ceil(first * min(policy.oom_memory_factor**ends, float(_GROWTH_MAX)))))


# ---- How many failed attempts of one tenant are repeated in a minute, and the pause after too many.


# The first pause; each that follows within the calm time is twice as long.
PAUSE_FIRST_S = 10.0
PAUSE_LAST_S = 300.0
CALM_S = 600.0
_MINUTE_S = 60.0


class Breaker(Record, frozen=True):
    """The breaker of one tenant, as of `at`."""

    at: float
    # How many retries may begin at once.
    left: float
    # None may begin before that.
    open_until: float = 0.0
    # How often it tripped without a calm time in between.
    trips: int = 0

    def is_open(self, now: float) -> bool:
        return now < self.open_until


def closed(now: float, per_minute: int) -> Breaker:
    return Breaker(at=now, left=float(per_minute))


def ask(before: Breaker, now: float, per_minute: int) -> tuple[Breaker, bool]:
    """Whether one more retry may begin now, and the breaker after that. It trips when a minute's worth is used up."""
    if before.is_open(now):
        return before, False
    left = min(float(per_minute), before.left + (now - before.at) * per_minute / _MINUTE_S)
    trips = 0 if now - before.open_until >= CALM_S else before.trips
    if left >= 1.0:
        return Breaker(at=now, left=left - 1.0, open_until=before.open_until, trips=trips), True
    pause_s = min(PAUSE_LAST_S, PAUSE_FIRST_S * 2.0**trips)
    return Breaker(at=now, left=left, open_until=now + pause_s, trips=min(trips + 1, 10)), False


def avoided(state: JobState, gone: tuple[int, ...]) -> tuple[str, ...]:
    """The nodes of the ranks that failed, after the nodes of earlier failures."""
    failed = dict.fromkeys(place.node for place in (*state.placements, *state.leaving) if place.rank in gone)
    return (*(node for node in state.avoid if node not in failed), *failed)[-_AVOIDED_MAX:]
