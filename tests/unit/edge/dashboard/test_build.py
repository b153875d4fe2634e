"""The built dashboard that is committed is the one that `ui/` gives, and stays small."""

import filecmp
import gzip
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ares.edge.rest.routes.routes import OPERATIONS
from scripts import build_ui

STATIC, SOURCE = build_ui.STATIC, build_ui.SOURCE
FILES_MAX, BYTES_MAX, FIRST_LOAD_MAX = 12, 400_000, 80_000
# `make ui` brings them; nothing else needs them.
needs_node = pytest.mark.skipif(
    shutil.which("node") is None or not (SOURCE / "node_modules" / "vite").exists(),
    reason="no Node, or its packages are not installed: `make ui` installs them",
)


def npx(*command: str) -> subprocess.CompletedProcess[str]:
    full = ["npx", "--no-install", *command]
    return subprocess.run(full, cwd=SOURCE, capture_output=True, text=True, check=False)


def served() -> list[Path]:
    return [path for path in STATIC.rglob("*") if path.is_file() and path != build_ui.STAMP]


def test_it_was_built_from_this_source() -> None:
    assert build_ui.STAMP.read_text().strip() == build_ui.source_sha256(), "ui/ was changed: run `make ui`"


def test_it_is_small() -> None:
    files = served()
    assert 3 <= len(files) <= FILES_MAX
    assert sum(path.stat().st_size for path in files) <= BYTES_MAX
    page = (STATIC / "index.html").read_text()
    loaded = [STATIC / found for found in re.findall(r'(?:src|href)="/ui/([^"]+)"', page)]
    assert len(loaded) >= 3
    assert sum(len(gzip.compress(path.read_bytes())) for path in [STATIC / "index.html", *loaded]) <= FIRST_LOAD_MAX


def test_the_page_holds_no_script_and_no_style_of_its_own() -> None:
    page = (STATIC / "index.html").read_text()
    assert not re.search(r"<script(?![^>]* src=)", page)
    assert "<style" not in page
    assert not re.search(r"\son\w+=", page)


def test_files_that_are_kept_forever_carry_a_hash() -> None:
    assets = list((STATIC / "assets").iterdir())
    assert assets
    assert all(re.search(r"-[\w-]{8}\.\w+$", path.name) for path in assets)


def test_the_lock_names_no_place_that_packages_come_from() -> None:
    lock = json.loads((SOURCE / "package-lock.json").read_text())
    places = [package["resolved"] for package in lock["packages"].values() if "resolved" in package]
    assert places == []


def test_it_asks_for_nothing_that_the_server_does_not_have() -> None:
    wanted = set(json.loads((SOURCE / "src" / "api" / "operations.json").read_text()))
    assert wanted <= {operation.id for operation in OPERATIONS}


@needs_node
def test_a_new_build_is_the_same(tmp_path: Path) -> None:
    build_ui.build(tmp_path / "built")
    names = [str(path.relative_to(STATIC)) for path in served()]
    same, *other = filecmp.cmpfiles(STATIC, tmp_path / "built", names, shallow=False)
    assert (sorted(same), other) == (sorted(names), [[], []])


@needs_node
def test_the_types_of_the_api_are_still_those_it_was_written_for(tmp_path: Path) -> None:
    """Fields that were added do no harm; one that is gone or another fails."""
    copied = tmp_path / "checked"
    shutil.copytree(SOURCE / "src", copied / "src")
    shutil.copy(SOURCE / "tsconfig.json", copied)
    (copied / "node_modules").symlink_to(SOURCE / "node_modules")
    build_ui.write_types(copied / "src" / "api" / "schema.d.ts")
    checked = subprocess.run(
        ["npx", "--no-install", "tsc", "--noEmit", "-p", str(copied)],
        cwd=SOURCE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, f"run `python scripts/build_ui.py --types`, then:\n{checked.stdout}"


@needs_node
def test_its_own_tests_and_style_pass() -> None:
    for command in (["biome", "check", "src", "scripts", "test"], ["vitest", "run"]):
        done = subprocess.run(
            ["npx", "--no-install", *command], cwd=SOURCE, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
