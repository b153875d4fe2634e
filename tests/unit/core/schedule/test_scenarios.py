"""Every file in scenarios/scheduling is a story that must come out as it says."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.core.schedule.scenario import FOLDER, Scenario

FILES = sorted(FOLDER.glob("*.toml"))


def _differences(expected: dict[str, Any], came: dict[str, Any]) -> list[str]:
    """What did not come out as it should. Of those who wait only the ones named count, and a message may be cut."""
    found: list[str] = []
    for word, wanted in expected.items():
        for key, value in (
            wanted.items() if word in ("waiting", "says", "change", "numa", "gpus", "alternative") else ()
        ):
            got = came[word].get(key)
            same = value in (got or "") if word in ("says", "change") else value == got
            found += [] if same else [f"{word} of {key}: expected {value!r}, came {got!r}"]
        if word not in ("waiting", "says", "change", "numa", "gpus", "alternative") and came[word] != wanted:
            found.append(f"{word}: expected {wanted!r}, came {came[word]!r}")
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    scenario = Scenario(path)
    for number, step in enumerate(scenario.text["cycle"], start=1):
        wrong = _differences(step["expect"], scenario.play(step))
        assert not wrong, "\n".join([f"\n{scenario.title}{scenario.text['story']}", f"\nIn cycle {number}:", *wrong])


def test_there_are_stories() -> None:
    assert len(FILES) >= 17
