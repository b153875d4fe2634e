"""Every link under every behaviour of a bad network, under load: nothing hangs, and every promise is kept."""

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from ares.sim.chaos.proxy import BEHAVIOURS, DIRECTIONS
from tests.chaos.links.net import Net, durations, net
from tests.platform import say

pytestmark = [pytest.mark.chaos, pytest.mark.etcd]

# One replica reaches one etcd, and two nodes reach both replicas.
LINKS = ("client 0", "client 1", "store 0.0", "store 1.0", "node-a 0", "node-a 1", "node-b 0", "node-b 1")
PEERS = ("peer 0", "peer 1", "peer 2")
SWIZZLES = 6


def strike(one: Net, link: str, behaviour: str, seconds: float) -> None:
    one.strike(f"{behaviour} on {link}", seconds, [partial(BEHAVIOURS[behaviour], one.links[link])])


@pytest.mark.timeout(240)
def test_a_few_faults_on_each_kind_of_link(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    with net(tmp_path, seed) as one:
        for link, behaviours in {
            "client 0": ("reset", "blackhole-rx"),
            "node-a 0": ("half-open", "blackhole-tx"),
            "store 0.0": ("blackhole-rx", "half-open"),
        }.items():
            strike(one, link, rng.choice(behaviours), rng.uniform(0.5, 2.0))
        assert one.judge()["asked in a hurry"]


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("link", LINKS)
def test_every_behaviour_on_every_link(tmp_path: Path, seed: int, link: str) -> None:
    """Each behaviour for a moment, and for longer than a right to run lasts."""
    rng = random.Random(seed)
    with net(tmp_path, seed, replicas=2) as one:
        _all_behaviours(one, link, rng)
        one.judge()


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("link", PEERS)
def test_every_behaviour_between_the_members_of_the_store(tmp_path: Path, seed: int, link: str) -> None:
    rng = random.Random(seed)
    with net(tmp_path, seed, members=3) as one:
        _all_behaviours(one, link, rng)
        one.judge()


def _all_behaviours(one: Net, link: str, rng: random.Random) -> None:
    for behaviour in rng.sample(sorted(BEHAVIOURS), len(BEHAVIOURS)):
        for seconds in durations(rng):
            strike(one, link, behaviour, seconds)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("members", [1, 3])
def test_links_stop_one_by_one_and_come_back_in_another_order(tmp_path: Path, seed: int, members: int) -> None:
    """Swizzle-clogging: finds what a clean cut never does."""
    rng = random.Random(seed)
    with net(tmp_path, seed, replicas=2, members=members) as one:
        for number in range(SWIZZLES):
            chosen = rng.sample(sorted(one.links), rng.randint(2, len(one.links) - 1))
            say(f"swizzle {number}: {chosen}")
            steps: list[Callable[[], None]] = []
            for link in chosen:
                silence = rng.choice((("tx",), ("rx",), DIRECTIONS))
                steps += [partial(one.rest, rng.uniform(0.1, 1.5)), partial(one.links[link].hold, *silence)]
            for link in rng.sample(chosen, len(chosen)):
                steps += [partial(one.rest, rng.uniform(0.1, 1.5)), one.links[link].heal]
            one.strike(f"swizzle {number} of {chosen}", 0.0, steps)
        one.judge()
