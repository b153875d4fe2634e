"""Style, types and layers, by the tools that know them."""

import hashlib
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


def found_right(tool: str) -> Path:
    """Where a run that found nothing leaves word of it, outside of the checkout, by all that its answer depends on."""
    digest = hashlib.sha256(repr((TOOLS[tool][:1], sys.version)).encode())
    settings = [ROOT / "pyproject.toml", ROOT / "requirements-dev.lock"]
    for path in (*settings, *sorted((ROOT / "src").rglob("*.py*"))):
        if path.suffix in (".pyi", ".py", ".toml", ".lock"):
            digest.update(f"\0{path.relative_to(ROOT)}\0".encode())
            digest.update(path.read_bytes())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "ares" / "tidy" / f"{tool}-{digest.hexdigest()[:32]}"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_types_are_right() -> None:
    """A minute and more of CPU time, in which nothing but the source decides: the same source is looked at once."""
    word = found_right("types")
    if word.exists():
        return
    check_by("types")
    word.parent.mkdir(parents=True, exist_ok=True)
    word.touch()


@pytest.mark.slow
@pytest.mark.parametrize("tool", sorted(TOOLS.keys() - {"types"}))
def test_tool_finds_nothing(tool: str) -> None:
    check_by(tool)


def test_word_of_right_types_is_of_this_source_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    for name in ("pyproject.toml", "requirements-dev.lock", "src/a.py"):
        (tmp_path / name).write_text("a = 1\n")
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    words = [found_right("types"), found_right("types")]
    for name in ("pyproject.toml", "requirements-dev.lock", "src/a.py", "src/b.py"):
        (tmp_path / name).write_text("b = 1\n")
        words.append(found_right("types"))
    assert words[0] == words[1]
    assert len(set(words)) == 5


def check_by(tool: str) -> None:
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
