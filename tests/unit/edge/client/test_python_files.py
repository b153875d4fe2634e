"""What an environment is built from: the file, all that it names, and nothing else; and which one is active."""

import os
import sys
from pathlib import Path

import pytest

from ares.edge.client.errors import InvalidSpec
from ares.edge.client.project.environment import PythonFiles, active_environment, python_of
from ares.model.job import PythonEnvironment


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def put(root: Path, **texts: str) -> None:
    for name, text in texts.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_lists_of_requirements_bring_what_they_name(here: Path) -> None:
    put(
        here,
        requirements_dot_txt="# comment\nnumpy==2.0  # pinned\n-r more/base.txt\n--constraint=versions.txt\n"
        "--find-links wheels\nmine @ ./dist/mine-1-py3-none-any.whl ; python_version > '3'\n"
        "https://example.org/x-1.tar.gz\n--index-url https://index.example.org/simple\n/opt/there.whl\n",
        more__base_dot_txt="-c ../versions.txt\nhttpx\n",
        versions_dot_txt="httpx==1\n",
    )
    put(here, **{"wheels__a.whl": "", "wheels__notes.txt": "", "dist__mine-1-py3-none-any.whl": "", "train.py": ""})
    put(here, **{"_dot_python-version": "3.11\n"})
    found = python_of("requirements.txt")
    assert isinstance(found, PythonFiles)
    assert (found.root, found.file) == (here, "requirements.txt")
    assert set(found.paths) == {
        "requirements.txt", "more/base.txt", "versions.txt", "wheels/a.whl", "dist/mine-1-py3-none-any.whl",
        ".python-version",
    }  # fmt: skip


def test_a_lock_needs_its_project(here: Path) -> None:
    put(here, **{"uv.lock": "", "sub__pyproject.toml": "", "sub__uv.lock": ""})
    with pytest.raises(InvalidSpec, match=r"no pyproject\.toml beside it"):
        python_of("uv.lock")
    found = python_of("sub/uv.lock")
    assert isinstance(found, PythonFiles)
    assert (found.file, found.paths) == ("sub/uv.lock", ("sub/pyproject.toml", "sub/uv.lock"))
    alone = python_of("sub/pyproject.toml")
    assert isinstance(alone, PythonFiles)
    assert alone.paths == ("sub/pyproject.toml",)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("-e .", "installs the directory"),
        (".", "installs the directory"),
        ("./missing.whl", "which is not there"),
        ("-r ../../outside.txt", "lies outside of"),
    ],
)
def test_what_cannot_go_with_it_is_said(here: Path, monkeypatch: pytest.MonkeyPatch, line: str, said: str) -> None:
    inner = here / "a" / "b"
    put(here, **{"outside.txt": "", "a__b__requirements.txt": f"{line}\n"})
    monkeypatch.chdir(inner)
    with pytest.raises(InvalidSpec, match=said):
        python_of("requirements.txt")


def test_directories_of_environments(here: Path) -> None:
    put(here, **{"venv__pyvenv.cfg": "", "plain__x": ""})
    assert python_of("venv") == PythonEnvironment(path=str(here / "venv"))
    assert python_of("/opt/envs/not-here") == PythonEnvironment(path="/opt/envs/not-here")
    assert python_of("none", "/active") is None
    for wrong in ("plain", "missing"):
        with pytest.raises(InvalidSpec, match="python:"):
            python_of(wrong)
    assert python_of(None, "/active") == PythonEnvironment(path="/active", required=False)
    assert python_of(None) is None


def test_the_active_environment(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(here, **{"venv__pyvenv.cfg": "", "conda__conda-meta__history": ""})
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.setenv("CONDA_PREFIX", str(here / "conda"))
    assert active_environment(of_this_python=False) == str(here / "conda")
    monkeypatch.setenv("VIRTUAL_ENV", str(here / "venv"))
    assert active_environment(of_this_python=False) == str(here / "venv")
    # A notebook's own comes before what its server was started in.
    assert active_environment(of_this_python=True) == os.path.realpath(sys.prefix)
    monkeypatch.setenv("VIRTUAL_ENV", str(here / "gone"))
    monkeypatch.delenv("CONDA_PREFIX")
    assert active_environment(of_this_python=False) is None
