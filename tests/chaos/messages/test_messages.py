"""Messages of the agent link that come twice, ten times, late, or before the one they followed: no promise breaks."""

import itertools
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from unittest import mock

import pytest

from ares.agent.attempts.attempts import Attempts
from ares.check.invariants.history import Violation
from ares.check.invariants.judge import check
from ares.model.link import Start
from ares.sim.world.world import play
from tests.chaos.messages.tap import ACTS, QUIET, TYPES, Act, Message, Tap, tapped
from tests.platform import say

pytestmark = pytest.mark.chaos

# Long enough for what is a minute late to come while there is still work.
LATE = replace(QUIET, safety_s=70.0, deeds=8)
ROUNDS = 16

Case = tuple[type[Message], Act, int]


def disturb(kind: type[Message], act: Act, seed: int) -> tuple[Tap, tuple[Violation, ...]]:
    tap = Tap(kind, act, random.Random(seed))
    with tapped(tap):
        played = play(seed, LATE if act == "late" else QUIET)
    assert not played.failures, f"{kind.__name__} {act}, seed {seed}: {played.failures[:3]}"
    return tap, check(played.events).violations


def go_through(cases: Iterable[Case]) -> set[tuple[str, str]]:
    """Which ordered pairs of types met."""
    met: set[tuple[str, str, str]] = set()
    passed: Counter[str] = Counter()
    worlds = 0
    for kind, act, seed in cases:
        tap, violations = disturb(kind, act, seed)
        assert not violations, f"{kind.__name__} {act}, seed {seed}: {violations[:3]}"
        worlds += 1
        met |= tap.met
        passed += tap.passed
    pairs = {(one, other) for one, other, _ in met}
    say(f"{worlds} worlds, {len(pairs)} ordered pairs of {len(TYPES)} types in {len(met)} ways; sent: {dict(passed)}")
    never = {kind.__name__ for kind in TYPES} - passed.keys()
    assert not never, f"never sent at all: {never}"
    return pairs


def test_messages_of_every_type_in_another_order(seed: int) -> None:
    rng = random.Random(seed)
    cases = ((kind, rng.choice(ACTS), seed + n) for n, kind in enumerate(2 * TYPES))
    assert len(go_through(cases)) > 2 * len(TYPES)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_every_ordered_pair_of_messages_in_every_way(seed: int) -> None:
    cases = ((kind, act, seed + n) for n, kind, act in itertools.product(range(ROUNDS), TYPES, ACTS))
    # Some never meet: nothing passes before the welcome, and hardly anything after a farewell.
    assert len(go_through(cases)) > 0.6 * len(TYPES) ** 2


def test_an_agent_that_starts_whatever_it_is_told_is_caught() -> None:
    """Or else the tap, or the checker, proves nothing."""

    def is_new(attempts: Attempts, start: Start) -> bool:
        return start.placement.incarnation == attempts.incarnation

    with mock.patch.object(Attempts, "_is_new", is_new):
        for seed in range(10):
            _, violations = disturb(Start, "twice", seed)
            if violations:
                assert "E18" in {one.rule for one in violations}, violations
                return
    raise AssertionError("a second start of the same attempt went unnoticed in 10 worlds")
