"""When an endpoint is left alone: too many of a tenant's requests there failed, so the next ones wait, and then a
single one finds out whether it answers again."""

from collections import deque
from typing import Final

from ares.model.quota import BreakerPhase

WINDOW_S: Final = 10.0
REQUESTS_MIN: Final = 20
ERROR_SHARE: Final = 0.5
PROBE_S, PROBE_MAX_S = 5.0, 60.0
RAMP_S, RAMP_FROM = 10.0, 0.1
# The endpoint works: it says no to this request.
ANSWERS: Final = frozenset({403, 404, 412})
# While a ramp lets a part of the requests through, the others come again so soon.
_RAMP_AGAIN_S: Final = 0.25
_SERVER_ERROR: Final = 500
_TOO_MANY: Final = frozenset({408, 429})


def failed(status: int) -> bool:
    """Whether an HTTP status says that the endpoint cannot serve now."""
    return status not in ANSWERS and (status >= _SERVER_ERROR or status in _TOO_MANY)


class EndpointBreaker:
    """Of one endpoint and one tenant: a tenant whose requests fail stops no other. Time comes in by the caller."""

    __slots__ = ("_counts", "_credit", "_opened", "_probing", "_ramped_at", "_tries")

    def __init__(self) -> None:
        # Of each second of the window: when it began, requests that ended, and how many of them failed.
        self._counts: deque[list[float]] = deque()
        # When it opened, and how many probes failed since it was last closed.
        self._opened: float | None = None
        self._tries = 0
        # When the probe began that is under way.
        self._probing: float | None = None
        self._ramped_at: float | None = None
        self._credit = 0.0

    def phase(self, now: float) -> BreakerPhase:
        if self._opened is not None:
            return "open" if self._probing is None else "probing"
        return "ramping" if self._ramping(now) else "closed"

    def idle(self, now: float) -> bool:
        """It holds nothing worth keeping."""
        self._sweep(now)
        return not self._counts and self.phase(now) == "closed"

    def wait_s(self, now: float) -> float:
        """Takes a request's turn: 0 when it may go now, else in how many seconds it may ask again."""
        if self._opened is not None:
            left = self._opened + self._pause_s - now
            # A probe that never ends, because its process went, must not keep others away for ever.
            if left > 0 or (self._probing is not None and now - self._probing < PROBE_MAX_S):
                return max(left, _RAMP_AGAIN_S)
            self._probing = now
            return 0.0
        if not self._ramping(now):
            return 0.0
        self._credit += self._share(now)
        if self._credit < 1.0:
            return _RAMP_AGAIN_S
        self._credit -= 1.0
        return 0.0

    def ended(self, now: float, *, ok: bool) -> None:
        """A request that had its turn has ended."""
        if self._opened is not None:
            if self._probing is not None:
                self._probed(now, ok=ok)
            # Others were under way when it opened; they say nothing new.
            return
        self._count(now, ok=ok)
        requests = sum(second[1] for second in self._counts)
        errors = sum(second[2] for second in self._counts)
        if requests >= REQUESTS_MIN and errors >= ERROR_SHARE * requests:
            # Opened again within its ramp, it waits longer than before.
            self._tries = self._tries + 1 if self._ramping(now) else 0
            self._opened, self._ramped_at = now, None
            self._counts.clear()

    def given_up(self) -> None:
        """A request that had its turn was never made, or said nothing about the endpoint."""
        self._probing = None

    @property
    def _pause_s(self) -> float:
        return min(PROBE_MAX_S, PROBE_S * 2 ** min(self._tries, 10))

    def _probed(self, now: float, *, ok: bool) -> None:
        self._probing = None
        if ok:
            self._opened, self._ramped_at, self._credit = None, now, 0.0
        else:
            self._opened = now
            self._tries += 1

    def _ramping(self, now: float) -> bool:
        return self._ramped_at is not None and now - self._ramped_at < RAMP_S

    def _share(self, now: float) -> float:
        assert self._ramped_at is not None, "only a ramp has a share"
        return RAMP_FROM + (1.0 - RAMP_FROM) * (now - self._ramped_at) / RAMP_S

    def _count(self, now: float, *, ok: bool) -> None:
        self._sweep(now)
        if not self._counts or now - self._counts[-1][0] >= 1.0:
            self._counts.append([now, 0, 0])
        self._counts[-1][1] += 1
        self._counts[-1][2] += not ok

    def _sweep(self, now: float) -> None:
        while self._counts and now - self._counts[0][0] >= WINDOW_S:
            self._counts.popleft()
