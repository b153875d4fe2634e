"""Plugins in the tables: what is refused, and what becomes of one that fails while a cycle runs."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ares.api.reasons import Reason
from ares.app import plugins
from ares.core.capacity.rule import Filter, Miss
from ares.core.queue.factors import FACTORS
from ares.core.schedule.actions import ACTIONS
from ares.core.schedule.filters import FILTERS
from ares.core.schedule.scorers import SCORERS
from tests.world import ADMIN, World

TABLES: tuple[dict[str, Any], ...] = (FILTERS, SCORERS, FACTORS, ACTIONS)


@dataclass
class Entry:
    """An entry point without a file."""

    name: str
    value: Any

    @property
    def dist(self) -> Any:
        return SimpleNamespace(name="third", version="1.0")

    def load(self) -> Any:
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


def found(**groups: list[Entry]) -> Callable[..., list[Entry]]:
    return lambda group: groups.get(group.removeprefix("ares."), [])


@pytest.fixture(autouse=True)
def _tables() -> Iterator[None]:
    before = [dict(table) for table in TABLES]
    yield
    for table, old in zip(TABLES, before, strict=True):
        table.clear()
        table.update(old)


def explain(miss: Miss) -> Reason:
    return Reason(code="REFUSED_BY_PLUGIN", message="its own words")


def fails(*_: Any) -> Any:
    raise ZeroDivisionError("on purpose")


@pytest.mark.parametrize(
    ("group", "entry", "said"),
    [
        ("scorers", Entry("fit", len), "the name is taken"),
        ("order", Entry("age", len), "the name is taken"),
        ("scorers", Entry("Bad Name", len), "a name has 1 to 63"),
        ("scorers", Entry("lost", ImportError("no such thing")), "ImportError: no such thing"),
        ("scorers", Entry("text", "text"), "gives str, which cannot be called"),
        ("filters", Entry("function", len), "not ares.core.capacity.rule.Filter"),
        ("actions", Entry("nothing", None), "cannot be called"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name_and_the_rest_is_taken(group: str, entry: Entry, said: str) -> None:
    before = [dict(table) for table in TABLES]
    good = Filter(fails, explain, ()) if group == "filters" else fails
    loaded = plugins.add(found(**{group: [entry, Entry("good", good)]}))
    (refused,) = loaded.refused
    assert (refused.name, refused.origin) == (entry.name, "third 1.0")
    assert said in refused.error
    assert {name for _, name in loaded.origins} == {"good"}
    assert [{k: v for k, v in table.items() if k != "good"} for table in TABLES] == before


async def _world_with(world: World, **settings: str) -> None:
    for name in ("n1", "n2"):
        await world.agent(name)
    outcome = await world.one.profiles.change(ADMIN, {key.replace("__", "."): text for key, text in settings.items()})
    assert hasattr(outcome, "version"), outcome


async def test_a_filter_that_fails_lets_nothing_pass_and_says_so() -> None:
    plugins.add(found(filters=[Entry("shaky", Filter(fails, explain, ()))]))
    async with World() as world:
        await _world_with(world, filters="+shaky")
        job = await world.submit()
        await world.settle()
        reason = world.one.planner.reason(job)
        assert reason is not None
        assert reason.code == "REFUSED_BY_PLUGIN"
        assert "the filter 'shaky' failed: ZeroDivisionError: on purpose" in reason.message


@pytest.mark.parametrize(
    "answer",
    [
        fails,
        lambda rows: np.zeros(len(rows) + 1),
        lambda rows: np.full(len(rows), np.nan),
        lambda rows: "high",
    ],
)
async def test_a_scorer_that_fails_has_no_opinion(answer: Callable[..., Any]) -> None:
    plugins.add(found(scorers=[Entry("shaky", answer)]))
    async with World() as world:
        await _world_with(world, weight__shaky="100")
        job = await world.submit()
        await world.settle()
        assert world.state(job).phase == "STAGING"


async def test_a_factor_that_fails_counts_nothing_and_a_good_one_turns_the_order() -> None:
    def oncall(facts: Any, shares: Any, order: Any, now: float) -> float:
        return float(facts.account.split("/")[1] == "oncall")

    plugins.add(found(order=[Entry("shaky", fails), Entry("oncall-first", oncall)]))
    async with World() as world:
        settings = {"order.primary.shaky": "1", "order.primary.oncall-first": "1000000"}
        await world.one.profiles.change(ADMIN, settings)
        early = await world.submit(cpu_milli=4000)
        await world.advance(5000)
        late = await world.submit(cpu_milli=4000, team="oncall")
        await world.agent("n1")
        await world.settle()
        assert (world.state(late).phase, world.state(early).phase) == ("STAGING", "PENDING")


async def test_an_action_that_fails_proposes_nothing_of_what_it_had_begun() -> None:
    def spoils(trial: Any) -> None:
        trial.placed.append("nonsense")
        raise ZeroDivisionError("half-way")

    plugins.add(found(actions=[Entry("spoils", spoils)]))
    async with World() as world:
        await _world_with(world, actions="+spoils")
        job = await world.submit()
        await world.settle()
        assert world.state(job).phase == "STAGING"


@pytest.mark.parametrize("group", ["collectors", "provider", "runtime", "filter"])
def test_a_plugin_of_a_kind_that_there_is_not_is_refused_by_name(group: str) -> None:
    loaded = plugins.add(found(**{group: [Entry("mine", fails)]}), groups=[f"ares.{group}", "console_scripts"])
    (refused,) = loaded.refused
    assert (refused.kind, refused.name, refused.origin) == ("unknown", "mine", "third 1.0")
    assert f"'ares.{group}'" in refused.error
    assert "ares.runtimes" in refused.error
