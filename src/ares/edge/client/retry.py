"""When a request is worth repeating, and after how long."""

from typing import Literal

from msgspec import Struct

RETRY_STATUSES = frozenset({429, 503})


class Retry(Struct, frozen=True):
    """Full jitter: each delay is drawn from 0 to a bound that doubles."""

    attempts: int = 6
    base_s: float = 0.25
    cap_s: float = 8.0
    # A server that asks for more patience than this gets none: the caller is told instead.
    retry_after_max_s: float = 30.0
    # How long a stream is reopened without one byte from the server.
    stream_patience_s: float = 300.0

    def delay_s(self, failures: int, uniform: float, retry_after_s: float | None = None) -> float:
        """The pause after the given number of failures, at least what the server asked for."""
        drawn = uniform * min(self.cap_s, self.base_s * 2.0 ** min(failures - 1, 32))
        return drawn if retry_after_s is None else retry_after_s + drawn


DEFAULT_RETRY = Retry()


def repeatable_failure(kind: Literal["connect", "sent", "silent"], repeatable: bool) -> bool:
    """A request that never left may go again; one that may have arrived only if repeating is harmless."""
    return kind == "connect" or repeatable


def repeatable_status(status: int, repeatable: bool) -> bool:
    """429 says nothing was done. 503 may hide a write whose outcome is unknown."""
    return status == 429 or (status in RETRY_STATUSES and repeatable)
