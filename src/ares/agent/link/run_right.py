"""The agent's right to run, dated from when each renewal was sent, and as long as the record of it says."""

from math import inf

from ares.ports.clock import Clock

# Of an agent that holds no lease yet: it can say so, where 0 is what older agents say, who cannot.
_NOTHING_S = 0.001


class Leash:
    """A renewal counts once the control plane says it is durable, and from when it was sent."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # By the control plane's latest word, and of the lease that is held: how long it lasts, and which part of that
        # an attempt is left here.
        self._dead_after_s, self._ratio = 0.0, 0.0
        self.holds_by_s, self._held_ratio = _NOTHING_S, 0.0
        self._nonce = 0
        self._sent: dict[int, float] = {}
        self._held_since = -inf
        # When nobody was there last who could judge this node, and what that may add up to.
        self._unjudged_at, self._longest_s = -inf, 0.0
        self.last_sent = -inf

    def set_terms(self, self_fence_ratio: float, dead_after_s: float) -> None:
        """After which part of a lease an attempt is ended here, and the shortest lease there is: from the next
        renewal on."""
        self._ratio, self._dead_after_s = self_fence_ratio, dead_after_s

    def sending(self) -> int:
        """Call just before a renewal is handed over for sending. Returns its nonce."""
        self._nonce += 1
        self._sent[self._nonce] = self.last_sent = self._clock.monotonic()
        return self._nonce

    def acknowledged(self, nonce: int, dead_after_s: float = 0.0) -> bool:
        """True when the right was moved forward. What is held lasts from now on as long as this renewal."""
        sent = self._sent.get(nonce)
        self._sent = {n: at for n, at in self._sent.items() if n > nonce}
        if sent is None or sent <= self._held_since:
            return False
        self._held_since, self._held_ratio = sent, self._ratio
        self.holds_by_s = dead_after_s or self._dead_after_s
        return True

    def extended(self, dead_after_s: float) -> bool:
        """The lease that is held lasts longer than was said, by its record: nobody will answer for a while."""
        longer = dead_after_s > self.holds_by_s
        self.holds_by_s = max(self.holds_by_s, dead_after_s)
        return longer

    def unjudged(self, at: float, longest_s: float) -> bool:
        """At that moment no control plane was there. Whoever comes later counts silence from its own start: that is as
        good as a renewal that was sent then. Not so once the right had ended: it may have been judged before."""
        if at >= self.deadline(0.0):
            return False
        self._unjudged_at, self._longest_s = at, longest_s
        return True

    def dropped(self) -> None:
        """The session ended: renewals under way may never be answered."""
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
