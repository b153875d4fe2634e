"""Every file in scenarios/ is a story that must come out as it says."""

from pathlib import Path
from typing import Any

import pytest

from ares.core.schedule.preempt.victims import NoVictims
from tests.unit.core.schedule.preempt.story import FOLDER, Story, read

FILES = sorted(FOLDER.glob("*.toml"))
VICTIMS = [path for path in FILES if "evicted" in read(path).text["expect"] or "refused" in read(path).text["expect"]]
MOVES = [path for path in FILES if path not in VICTIMS]


def told_of_victims(story: Story) -> dict[str, Any]:
    """What came out, in the words of the file."""
    found = story.choose()
    if isinstance(found, NoVictims):
        return {"refused": found.obstacle, "kept": dict(found.excluded), "reason": found.reason}
    return {
        "evicted": sorted(found.jobs),
        "ranks": {story.names[slot]: ranks for slot, ranks in found.slots},
        "lost_gpu_hours": found.lost_gpu_s / 3600,
        "evicted_gpus": found.evicted_gpus_milli / 1000,
        "exact": found.exact,
    }


def told_of_moves(story: Story) -> dict[str, Any]:
    plan = story.consolidate()
    return {
        "moves": [f"{m.job}: {story.names[a]} to {story.names[b]}" for m in plan.moves for a, b in m.ranks],
        "homeless": list(plan.homeless),
        "lost_gpu_hours": plan.lost_gpu_s / 3600,
        "before": plan.before,
        "after": plan.after,
        "reason": plan.reason,
    }


@pytest.mark.parametrize("path", VICTIMS, ids=lambda path: path.stem)
def test_victims(path: Path) -> None:
    story = read(path)
    told = told_of_victims(story)
    assert {word: told.get(word) for word in story.text["expect"]} == story.text["expect"]


@pytest.mark.parametrize("path", MOVES, ids=lambda path: path.stem)
def test_moves(path: Path) -> None:
    story = read(path)
    told = told_of_moves(story)
    assert {word: told.get(word) for word in story.text["expect"]} == story.text["expect"]
