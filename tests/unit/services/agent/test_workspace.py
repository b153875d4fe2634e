"""Directories are handed on only when nothing of the earlier attempt is in them."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ares.model.link import AttemptRef
from ares.model.state import Fence
from ares.services.agent.workspace import Folder, Workspace


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
    assert sorted(os.listdir(second.path)) == ["log", "work"]
    assert os.stat(second.log).st_size == 0
    assert not os.path.exists(first.path)


DIRT: dict[str, Callable[[Folder], object]] = {
    "a file in the working directory": lambda f: Path(f.work, "x").touch(),
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
