"""scripts/house.py counts what it says, on a house of four modules."""

import json
import subprocess
import sys
from pathlib import Path

from tests.tidy.source import ROOT

MODULES = {
    "core/queue/line.py": "from ares.core.plan.trial import Trial\n\n\nclass Line: ...\n",
    "core/plan/trial.py": "import ares.core.queue.line\n\n\nclass Trial: ...\n",
    "core/plan/cycle.py": "from ares.core.queue import line\n\n\nclass Line(list[int]): ...\n",
    "app/main.py": "from ares.core.plan import cycle, trial\n",
}


def test_figures_of_a_small_house(tmp_path: Path) -> None:
    for name, text in MODULES.items():
        path = tmp_path / "src" / "ares" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    command = [sys.executable, ROOT / "scripts" / "house.py", "--tree", tmp_path, "--output", "json"]
    done = subprocess.run(command, env={"PATH": ""}, capture_output=True, text=True, check=True)
    found = {name: (one["figure"], one["names"]) for name, one in json.loads(done.stdout).items()}
    assert found["lines"][0] == 13
    assert found["files"][0] == 4
    assert found["largest folder"][0] == "2 (core/plan)"
    assert found["class names with several meanings"] == (1, ["Line: core/plan/cycle, core/queue/line"])
    assert found["packages that import each other"] == (1, ["core/plan <-> core/queue"])
    assert found["modules with one importer"] == (1, ["core/plan/cycle"])
    # Its importer lies in another folder.
    assert found["of them in its folder and together short"] == (0, [])
    # The command that counts pairs is not on this path.
    assert found["pairs that `duplicates --repo src` finds"][0] == "-"
