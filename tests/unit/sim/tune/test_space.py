"""What tuning may change: every point is a profile that can be used, in words that `ares profile set` takes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ares.core.schedule.profiles import changed, wrong
from ares.model.profile import OrderPolicy, Profile, Weight
from ares.sim.traces.policies import POLICIES
from ares.sim.tune.space import Parameter, space

BASES = [
    Profile(),
    *(POLICIES[name].profile for name in ("fcfs", "easy", "sjf-backfill", "fair-share")),
    Profile(order=OrderPolicy(primary=(Weight(name="fifo", weight=3.0),), secondary=(Weight(name="age", weight=1.0),))),
]


@given(st.sampled_from(BASES), st.integers(0, 2**32 - 1))
def test_every_point_is_a_profile_that_can_be_used(base: Profile, seed: int) -> None:
    made = space(base, nodes=4)
    settings = made.settings(np.random.default_rng(seed).random(len(made.parameters)))
    profile = changed(base, settings)
    assert wrong(profile) == ""
    # Nothing is said that does not matter.
    for key in settings:
        less = {name: value for name, value in settings.items() if name != key}
        assert changed(base, less) != profile


@pytest.mark.parametrize("base", BASES)
def test_the_start_is_the_base_profile_as_nearly_as_places_can_say(base: Profile) -> None:
    made = space(base, nodes=4)
    profile = changed(base, made.settings(made.start))
    assert profile.actions == base.actions
    assert [one.name for one in profile.order.primary] == [one.name for one in base.order.primary]
    assert [one.weight for one in profile.scorers] == pytest.approx([one.weight for one in base.scorers], rel=0.01)


def test_one_node_leaves_nothing_to_score() -> None:
    assert not [one for one in space(Profile(), nodes=1).parameters if one.key.startswith("weight.")]


@given(st.floats(0.0, 1.0))
def test_places_and_values_agree(part: float) -> None:
    for one in (Parameter("w", "weight", 1.0, 300.0), Parameter("s", "log", 60.0, 86_400.0)):
        value = one.value(part)
        assert value == "0" or one.low * 0.99 <= float(value) <= one.high * 1.01
        assert float(one.value(one.part(value))) == pytest.approx(float(value), rel=0.02)
