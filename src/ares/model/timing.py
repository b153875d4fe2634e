"""How long things may take before silence counts as failure. One value, the same on every replica."""

from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta

from ares.model.base import Record

# Clocks of different machines may run this much faster or slower than each other.
DRIFT = 0.01

# The time for an agent to find a server that is back, and to get an answer.
_REUNION_S = 3.0

_Seconds = Annotated[float, Meta(ge=0.02, le=3600.0)]


class Timing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The defaults decide a loss within 10 s. `broken` says whether other values keep the promises."""

    # How often an agent renews its node's lease.
    renew_every_s: _Seconds = 2.0
    # An attempt is killed on its node this long after the last acknowledged renewal was sent ...
    self_fence_s: _Seconds = 7.0
    # ... which takes at most this long ...
    kill_s: _Seconds = 1.0
    # ... and taken away by the leader this long after it last saw the lease change. Jobs may ask for more.
    dead_after_s: Annotated[float, Meta(ge=0.5, le=3600.0)] = 9.0
    # The only server may be away this long when it was stopped in order: it gives its agents longer leases first.
    # 0: it does not.
    restart_s: Annotated[float, Meta(ge=0.0, le=3600.0)] = 10.0
    # How often the leader looks.
    scan_every_s: _Seconds = 0.5
    # Leadership lasts this long without renewal. etcd counts in whole seconds, two at least by its own defaults.
    leader_ttl_s: Annotated[float, Meta(ge=1.0, le=3600.0)] = 5.0
    leader_renew_every_s: _Seconds = 1.5

    @property
    def self_fence_ratio(self) -> float:
        """The part of any lease after which an agent fences itself, as a job may ask for a longer lease."""
        return self.self_fence_s / self.dead_after_s

    @property
    def longest_s(self) -> float:
        """The longest lease that any node is given: when a server stops, its agents renewed a while ago and need a
        moment to find the next one."""
        away_s = self.renew_every_s + self.restart_s + _REUNION_S
        return max(self.dead_after_s, away_s / self.self_fence_ratio if self.restart_s else 0.0)


DEFAULT = Timing()


def broken(timing: Timing) -> str:
    """Which rule the values break, in words with numbers; empty when they keep them all."""
    return next(_mistakes(timing), "")


def _mistakes(timing: Timing) -> Iterator[str]:
    stopped_s = timing.self_fence_s * (1 + DRIFT) + timing.kill_s
    if stopped_s >= timing.dead_after_s:
        yield (
            f"an attempt may run for {stopped_s:.3g} s (self_fence_s with clocks {DRIFT:.0%} off, and kill_s) and is "
            f"given to another node after dead_after_s = {timing.dead_after_s:g} s: raise dead_after_s above that"
        )
    if 1.5 * timing.renew_every_s > timing.self_fence_s:
        yield (
            f"renew_every_s = {timing.renew_every_s:g} leaves no time for a second try within "
            f"self_fence_s = {timing.self_fence_s:g}: make it two thirds of that or less"
        )
    if 4 * timing.scan_every_s > timing.dead_after_s:
        yield (
            f"scan_every_s = {timing.scan_every_s:g} is too long to find out about "
            f"dead_after_s = {timing.dead_after_s:g} in time: make it a quarter of that or less"
        )
    if 3 * timing.leader_renew_every_s > timing.leader_ttl_s:
        yield (
            f"leader_renew_every_s = {timing.leader_renew_every_s:g} leaves no time for a second try within "
            f"leader_ttl_s = {timing.leader_ttl_s:g}: make it a third of that or less"
        )


class ClockRecord(Record, frozen=True):
    """The time for expiry and for forgetting, when the leader last looked."""

    ending: float
    keeping: float
