"""Directories are handed on only when nothing of the earlier attempt is in them."""

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ares.agent.attempts import workspace as module
from ares.agent.attempts.workspace import Folder, Workspace
from ares.model.link import AttemptRef
from ares.model.state import Fence


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    workspace = Workspace(tmp_path)
    workspace.clear()
    return workspace


def made(workspace: Workspace, job: str) -> Folder:
    folder = workspace.folder(AttemptRef(job=job, tenant="t", fence=Fence(counter=1)), 0)
    workspace.create(folder)
    return folder


def test_a_clean_directory_is_handed_on_empty(workspace: Workspace) -> None:
    first = made(workspace, "a")
    fd = os.open(first.log, os.O_CREAT | os.O_WRONLY, 0o600)
    os.write(fd, b"private")
    os.close(fd)
    Path(first.result).write_text("1")
    inode = os.stat(first.work).st_ino
    assert workspace.recycle(first)
    second = made(workspace, "b")
    assert os.stat(second.work).st_ino == inode
    assert sorted(os.listdir(second.path)) == ["log", "outputs", "work"]
    assert os.stat(second.log).st_size == 0
    assert not os.path.exists(first.path)


def test_what_the_agent_fills_is_never_a_directory_that_a_job_had(workspace: Workspace) -> None:
    first = made(workspace, "a")
    inode = os.stat(first.work).st_ino
    assert workspace.recycle(first)
    second = workspace.folder(AttemptRef(job="b", tenant="t", fence=Fence(counter=1)), 0)
    workspace.create(second, fresh=True)
    assert os.stat(second.work).st_ino != inode
    # The spare is left for an attempt that may have it.
    assert os.stat(made(workspace, "c").work).st_ino == inode


def test_log_that_becomes_a_link_while_it_is_looked_at_is_not_followed(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, other = made(workspace, "a"), tmp_path / "other"
    other.write_text("of the machine")
    os.close(os.open(folder.log, os.O_CREAT, 0o600))
    Path(folder.log).write_text("output")
    lstat = os.lstat

    def swapped(path: str) -> os.stat_result:
        seen = lstat(path)
        if path == folder.log:
            os.unlink(folder.log)
            os.symlink(other, folder.log)
        return seen

    monkeypatch.setattr(os, "lstat", swapped)
    assert not workspace.recycle(folder)
    assert other.read_text() == "of the machine"


DIRT: dict[str, Callable[[Folder], object]] = {
    "a file in the working directory": lambda f: Path(f.work, "x").touch(),
    "a file in the directory for outputs": lambda f: Path(f.outputs, "x").touch(),
    "a directory for outputs that is a link": lambda f: (os.rmdir(f.outputs), os.symlink("/tmp", f.outputs)),
    "a file beside it": lambda f: Path(f.path, "x").touch(),
    "an open door": lambda f: os.chmod(f.work, 0o777),
    "a linked log": lambda f: (os.close(os.open(f.log, os.O_CREAT, 0o600)), os.link(f.log, f"{f.path}.link")),
    "a log that is a link": lambda f: os.symlink("/etc/passwd", f.log),
    "a missing working directory": lambda f: os.rmdir(f.work),
    "a working directory that is a link": lambda f: (os.rmdir(f.work), os.symlink("/tmp", f.work)),
    "a directory as result": lambda f: os.mkdir(f.result),
}


@pytest.mark.parametrize("what", DIRT)
def test_anything_unusual_is_removed_instead(workspace: Workspace, what: str) -> None:
    folder = made(workspace, "a")
    DIRT[what](folder)
    assert not workspace.recycle(folder)
    workspace.remove(folder)
    assert not os.path.exists(folder.path)
    assert os.path.exists("/etc/passwd")


@pytest.fixture
def settled(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """A directory in use that was seen empty long after its last change."""
    monkeypatch.setattr(module, "_FRESH_NS", -1)
    assert workspace.recycle(made(workspace, "a"))
    return made(workspace, "b")


@pytest.mark.parametrize("what", DIRT)
def test_a_directory_that_was_known_to_be_empty_is_looked_at_all_the_same(
    workspace: Workspace, settled: Folder, what: str
) -> None:
    DIRT[what](settled)
    # A job may set the time of the last change of the entries. That of the inode shows it.
    for folder in (settled.work, settled.outputs):
        if os.path.isdir(folder) and not os.path.islink(folder):
            os.utime(folder, ns=(1, 1))
    assert workspace.has_outputs(settled) == (what in OUTPUTS)
    assert not workspace.recycle(settled)


OUTPUTS = ("a file in the directory for outputs", "a directory for outputs that is a link")


def test_an_empty_directory_that_did_not_change_is_not_looked_into(
    workspace: Workspace, settled: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, scandir = list[str](), os.scandir

    def noted(path: str) -> Any:
        looked.append(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", noted)
    assert not workspace.has_outputs(settled)
    assert workspace.recycle(settled)
    assert looked == [settled.path]


def test_a_directory_that_changed_just_now_is_looked_into_the_next_time(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert workspace.recycle(made(workspace, "a"))
    folder = made(workspace, "b")
    stamps = {path: os.lstat(path) for path in (folder.work, folder.outputs)}
    for path in stamps:
        Path(path, "left").touch()
    lstat = os.lstat
    # As on a file system whose clock did not tick between the look and the change.
    monkeypatch.setattr(os, "lstat", lambda path: stamps.get(path) or lstat(path))
    assert workspace.has_outputs(folder)
    assert not workspace.recycle(folder)


NOBODY = 65534


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """A directory of somebody whom permissions hold up, and being that one."""
    with tempfile.TemporaryDirectory() as folder:
        if os.geteuid():
            yield Path(folder)
            return
        os.chown(folder, NOBODY, NOBODY)
        os.seteuid(NOBODY)
        try:
            yield Path(folder)
        finally:
            os.seteuid(0)


def test_directories_that_a_job_closed_are_removed_and_links_are_not_followed(unprivileged: Path) -> None:
    workspace = Workspace(unprivileged / "state")
    workspace.clear()
    folder = made(workspace, "a")
    inner = Path(folder.work) / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "file").touch()
    elsewhere = unprivileged / "elsewhere"
    elsewhere.mkdir(mode=0o500)
    os.symlink(elsewhere, inner.parent / "link")
    for path in (inner, inner.parent, Path(folder.work)):
        path.chmod(0)
    workspace.remove(folder)
    assert not os.path.lexists(folder.path)
    assert elsewhere.stat().st_mode & 0o777 == 0o500


def test_directories_nested_thousands_deep_are_removed(workspace: Workspace) -> None:
    """A job makes them in no time. An agent that cannot remove them could not begin again either."""
    folder = made(workspace, "a")
    os.makedirs(f"{folder.path}/.deep-0/taken")
    at = os.open(folder.work, os.O_RDONLY)
    for _ in range(2000):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    workspace.remove(folder)
    assert not os.path.lexists(folder.path)
