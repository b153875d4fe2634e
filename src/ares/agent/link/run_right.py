"""The agent's lease: it counts from when its renewal was sent, and lasts as long as the stored record says."""

from math import inf

from ares.ports.clock import Clock

# What an agent without a lease says in its renewal. 0 would mean an older agent, which does not name its lease.
_NOTHING_S = 0.001


class RunRight:
    """The node's lease. A renewal counts from when it was sent, once the control plane says that it is durable."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Length of a lease, and the share of it after which the node ends an attempt: first by the latest welcome,
        # then of the lease that is held.
        self._dead_after_s, self._ratio = 0.0, 0.0
        self.holds_by_s, self._held_ratio = _NOTHING_S, 0.0
        self._nonce = 0
        self._sent: dict[int, float] = {}
        self._held_since = -inf
        # When the agent last saw that no control plane runs, and the longest lease that this can give.
        self._unjudged_at, self._longest_s = -inf, 0.0
        self.last_sent = -inf

    def set_terms(self, self_fence_ratio: float, dead_after_s: float) -> None:
        """Sets the share of a lease after which the node ends an attempt, and the shortest lease. They hold from the
        next renewal on."""
        self._ratio, self._dead_after_s = self_fence_ratio, dead_after_s

    def sending(self) -> int:
        """Call just before a renewal is sent. Returns its nonce."""
        self._nonce += 1
        self._sent[self._nonce] = self.last_sent = self._clock.monotonic()
        return self._nonce

    def acknowledged(self, nonce: int, dead_after_s: float = 0.0) -> bool:
        """True when the lease was moved forward. It lasts as long as this renewal says."""
        sent = self._sent.get(nonce)
        self._sent = {n: at for n, at in self._sent.items() if n > nonce}
        if sent is None or sent <= self._held_since:
            return False
        self._held_since, self._held_ratio = sent, self._ratio
        self.holds_by_s = dead_after_s or self._dead_after_s
        return True

    def extended(self, dead_after_s: float) -> bool:
        """The stored record now gives the lease more time: the control plane will not answer for a while."""
        longer = dead_after_s > self.holds_by_s
        self.holds_by_s = max(self.holds_by_s, dead_after_s)
        return longer

    def unjudged(self, at: float, longest_s: float) -> bool:
        """At that moment no control plane was running. A replica that starts later counts silence from its own start,
        so this is as good as a renewal sent then. False once the lease had ended: the node may be judged dead."""
        if at >= self.deadline(0.0):
            return False
        self._unjudged_at, self._longest_s = at, longest_s
        return True

    def dropped(self) -> None:
        """The session ended: its unanswered renewals do not count."""
        self._sent.clear()

    def lost(self) -> None:
        """Another incarnation took over: nothing may run under this one."""
        self._sent.clear()
        self._held_since = -inf

    def unanswered_since(self) -> float | None:
        return min(self._sent.values(), default=None)

    def held_since(self) -> float:
        return self._held_since

    def deadline(self, lease_s: float) -> float:
        """Until when an attempt with this lease may run, by the agent's own clock."""
        lasts_s = max(lease_s, self.holds_by_s)
        acknowledged = self._held_since + lasts_s * self._held_ratio
        unjudged = self._unjudged_at + lasts_s * self._held_ratio
        at_most = self._held_since + max(lease_s, self._longest_s) * self._held_ratio
        return max(acknowledged, min(unjudged, at_most))
