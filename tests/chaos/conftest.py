"""Seeds and platforms for chaos: what was random is printed, and can be given again by ARES_CHAOS_SEED."""

import os
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.platform import Platform, StoreKind, say


@pytest.fixture
def seed() -> int:
    chosen = int(os.environ.get("ARES_CHAOS_SEED") or random.SystemRandom().randrange(1_000_000))
    say(f"ARES_CHAOS_SEED={chosen}")
    return chosen


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Callable[[StoreKind], Platform]]:
    """Makes an empty platform on the store named."""
    with ExitStack() as stack:
        yield lambda store: stack.enter_context(Platform(tmp_path / "platform", store))
