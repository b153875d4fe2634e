"""Environments that a node has: real ones are found and activated, and nothing else is shown to a job."""

import os
import sys
from pathlib import Path

import pytest

from ares.agent.staging.node_environment import EnvironmentTerms, NoEnvironment, find_environment

FREE = EnvironmentTerms()
# No directory is another user's to read because the test's user may read it.
OTHER = 61_234


@pytest.fixture
def opened(tmp_path: Path) -> Path:
    """A directory that every user can reach; those of pytest are its own user's alone."""
    for folder in (tmp_path, *tmp_path.parents[: len(tmp_path.parts) - 2]):
        if folder.stat().st_uid == os.geteuid() and folder != Path("/tmp"):
            folder.chmod(0o755)
    return tmp_path


def venv(folder: Path, mark: str = "pyvenv.cfg") -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(os.path.realpath(sys.executable))
    if mark == "pyvenv.cfg":
        (folder / mark).write_text("home = /usr/bin\n")
    else:
        (folder / mark).mkdir()
    return folder


@pytest.mark.parametrize(("mark", "variable"), [("pyvenv.cfg", "VIRTUAL_ENV"), ("conda-meta", "CONDA_PREFIX")])
def test_its_programs_come_first(opened: Path, mark: str, variable: str) -> None:
    prefix = venv(opened / "env", mark)
    found = find_environment(str(prefix), OTHER, FREE)
    outer = {"PATH": "/usr/bin", "VIRTUAL_ENV": "/old", "CONDA_PREFIX": "/old", "PYTHONHOME": "/old", "X": "1"}
    env = found.activate(outer)
    assert env["PATH"] == f"{prefix}/bin:/usr/bin"
    assert {key for key, value in env.items() if value == str(prefix)} == {variable}
    assert (env["X"], "PYTHONHOME" in env) == ("1", False)
    assert (found.folder.device, found.folder.inode) == (prefix.stat().st_dev, prefix.stat().st_ino)
    assert find_environment(str(prefix), None, FREE).activate({})["PATH"].startswith(f"{prefix}/bin:/usr/")


def test_a_link_to_it_is_followed_once(opened: Path) -> None:
    prefix = venv(opened / "env")
    (opened / "link").symlink_to(prefix)
    assert find_environment(str(opened / "link"), OTHER, FREE).folder.path == str(prefix)


def test_what_is_closed_looks_like_what_is_not_there(opened: Path) -> None:
    """The agent may be root: its answer must not tell what other users have."""
    closed = venv(opened / "closed" / "env")
    closed.parent.chmod(0o700)
    said = set[str]()
    for path in (closed, opened / "closed" / "nothing", opened / "absent"):
        with pytest.raises(NoEnvironment) as no:
            find_environment(str(path), OTHER, FREE)
        said.add(str(no.value).replace(str(path), "PATH"))
    assert len(said) == 1, said
    unreadable = venv(opened / "env")
    unreadable.chmod(0o711)
    with pytest.raises(NoEnvironment):
        find_environment(str(unreadable), OTHER, FREE)
    # The agent's own user may; and so may others, where the operator says so.
    assert find_environment(str(closed), None, FREE).folder.path == str(closed)
    allowed = EnvironmentTerms(allowed=(str(closed.parent),))
    assert find_environment(str(closed), OTHER, allowed).folder.path == str(closed)


@pytest.mark.parametrize("place", ["home/x", "home", "."])
def test_it_neither_lies_in_nor_holds_what_is_ares_own(opened: Path, place: str) -> None:
    (opened / "home").mkdir()
    prefix = opened / place
    venv(prefix)
    with pytest.raises(NoEnvironment):
        find_environment(str(prefix), None, EnvironmentTerms(private=(str(opened / "home"),)))


def test_a_directory_that_is_no_environment_is_not_shown(opened: Path) -> None:
    for path in (opened, Path("/etc"), Path("/")):
        with pytest.raises(NoEnvironment):
            find_environment(str(path), None, FREE)
    fake = opened / "fake"
    fake.mkdir()
    # A mark that leads elsewhere is none.
    (fake / "pyvenv.cfg").symlink_to("/etc/hostname")
    with pytest.raises(NoEnvironment):
        find_environment(str(fake), None, FREE)


def test_an_interpreter_that_jobs_cannot_see_is_said(opened: Path) -> None:
    prefix, python = opened / "env", opened / "closed" / "python3"
    venv(prefix)
    python.parent.mkdir(mode=0o700)
    python.write_text("")
    (prefix / "bin" / "python").unlink()
    (prefix / "bin" / "python").symlink_to(python)
    with pytest.raises(NoEnvironment, match=r"interpreter of .* closed to the job's user"):
        find_environment(str(prefix), OTHER, FREE)
