"""A server whose store is in use asks again, with pauses."""
# pyright: reportPrivateUsage=false

from typing import Any

import pytest

from ares.app import wiring
from ares.ports.store import StoreUnavailable


class Pauses:
    """A clock that goes on only by sleeping."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


async def test_a_store_that_stays_in_use_is_given_up_and_was_not_asked_all_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    async def busy(url: str, clock: Any) -> Any:
        asked.append(url)
        raise StoreUnavailable("in use by process 1")

    monkeypatch.setattr(wiring, "open_store", busy)
    clock = Pauses()
    with pytest.raises(StoreUnavailable):
        await wiring._open_patiently("sqlite:///x", clock)
    assert clock.now >= wiring._STORE_S
    assert len(asked) == wiring._STORE_S / wiring._STORE_AGAIN_S + 1
