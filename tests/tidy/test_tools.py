"""Style, types and layers, by the tools that know them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.source import ROOT

BIN = Path(sys.executable).parent
TOOLS = {
    "style": ["ruff", "check", "--no-cache", "--output-format=concise", "."],
    "format": ["ruff", "format", "--no-cache", "--check", "."],
    "types": ["basedpyright", "--pythonpath", sys.executable],
    "layers": ["lint-imports", "--no-logo", "--no-cache"],
}
# Types are a heap of small values in one process of Node: with more room for the young it collects a fifth less.
ROOMY = {**os.environ, "NODE_OPTIONS": "--max-semi-space-size=128"}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("tool", TOOLS)
def test_tool_finds_nothing(tool: str) -> None:
    command = [str(BIN / TOOLS[tool][0]), *TOOLS[tool][1:]]
    done = subprocess.run(command, cwd=ROOT, env=ROOMY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(TOOLS[tool])}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("line", ["import time", "from os import environ", "import random", "import asyncio"])
def test_purity_ban_bites_in_core_and_only_there(line: str) -> None:
    def complaints(path: str) -> str:
        command = [str(BIN / "ruff"), "check", "--no-cache", "--select=TID251", "--stdin-filename", path, "-"]
        done = subprocess.run(command, cwd=ROOT, input=f"{line}\n", capture_output=True, text=True, check=False)
        return done.stdout

    assert "TID251" in complaints("src/ares/core/schedule/probe.py")
    assert "TID251" in complaints("src/ares/model/probe.py")
    assert "TID251" not in complaints("src/ares/control/probe.py")
