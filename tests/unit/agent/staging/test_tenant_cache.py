"""The directory that a tenant's jobs keep between them: bounded, the longest unused go, and no link leads out of it."""

import os
from pathlib import Path

import pytest

from ares.agent.staging.tenant_cache import CacheBounds, TenantCaches, cache_variables, tidy

WIDE = CacheBounds(1 << 40, 1 << 20)


def put(root: Path, name: str, size: int, used: int) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(os.urandom(size))
    os.utime(path, (used, used))
    return path


def names(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")}


def test_each_tenant_has_its_own_and_keeps_it(tmp_path: Path) -> None:
    caches = TenantCaches(tmp_path, WIDE)
    mine, other = caches.of("a", None), caches.of("b", None)
    assert mine.path != other.path
    assert os.stat(mine.path).st_mode & 0o777 == 0o700
    assert TenantCaches(tmp_path, WIDE).of("a", None) == mine


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory to another user")
def test_it_belongs_to_the_tenants_user(tmp_path: Path) -> None:
    assert os.stat(TenantCaches(tmp_path, WIDE).of("a", 100_000).path).st_uid == 100_000


def test_programs_find_it_unless_the_job_says_where() -> None:
    named = cache_variables("/c", {})
    assert (named["ARES_CACHE_DIR"], named["XDG_CACHE_HOME"], named["HF_HOME"]) == ("/c", "/c", "/c/huggingface")
    assert named["PIP_CACHE_DIR"] == "/c/pip"
    assert cache_variables("/c", {"XDG_CACHE_HOME": "/mine"}) == {"ARES_CACHE_DIR": "/c"}


def test_the_longest_unused_go_first(tmp_path: Path) -> None:
    for number in range(10):
        put(tmp_path, f"d{number}/file", 100_000, 1000 + number)
    before = names(tmp_path)
    tidy(str(tmp_path), WIDE)
    assert names(tmp_path) == before
    tidy(str(tmp_path), CacheBounds(600_000, 1000))
    left = names(tmp_path)
    assert {"d9/file", "d8/file", "d7/file"} <= left
    # Directories that became empty go with their files.
    assert not {"d0", "d0/file", "d1/file", "d3/file"} & left
    tidy(str(tmp_path), CacheBounds(1 << 40, 4))
    assert 0 < len(names(tmp_path)) <= 4


def test_no_link_leads_the_agent_out(tmp_path: Path) -> None:
    outside = put(tmp_path / "outside", "precious", 100_000, 1)
    root = tmp_path / "cache"
    put(root, "file", 1000, 5)
    (root / "link").symlink_to(outside.parent)
    (root / "linked").symlink_to(outside)
    os.utime(root / "linked", (1, 1), follow_symlinks=False)
    tidy(str(root), CacheBounds(1, 1))
    assert outside.exists()
    assert names(root) == set()


def test_too_many_and_too_deep_is_removed_unseen(tmp_path: Path) -> None:
    # Deeper than any path can be.
    here = os.getcwd()
    os.chdir(tmp_path)
    for _ in range(3000):
        os.mkdir("d")
        os.chdir("d")
    Path("file").write_text("x")
    os.chdir(here)
    put(tmp_path, "kept", 10, 1)
    tidy(str(tmp_path), WIDE)
    assert max(name.count("/") for name in names(tmp_path)) < 65
    assert not any(".removed" in name for name in names(tmp_path))
    assert (tmp_path / "kept").exists()
    for number in range(50):
        (tmp_path / f"n{number}").mkdir()
    tidy(str(tmp_path), CacheBounds(1 << 40, 10))
    assert names(tmp_path) == set()
