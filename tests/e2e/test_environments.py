"""Environments of jobs on real processes: built once, found or said to be missing, and a cache that stays."""

import os
import re
import sys
import zipfile
from pathlib import Path

from tests.platform import Platform

SAYS = "import tinywheel, sys; print(tinywheel.VERSION, sys.prefix)"


def wheel(folder: Path, version: str) -> None:
    """A package made by hand: nothing is fetched."""
    folder.mkdir(exist_ok=True)
    info = f"tinywheel-{version}.dist-info"
    with zipfile.ZipFile(folder / f"tinywheel-{version}-py3-none-any.whl", "w") as file:
        file.writestr("tinywheel/__init__.py", f"VERSION = {version!r}\n")
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: tinywheel\nVersion: {version}\n")
        file.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(f"{info}/RECORD", "")


def project(root: Path, version: str = "1.0") -> Path:
    root.mkdir()
    wheel(root / "wheels", "1.0")
    (root / "requirements.txt").write_text(f"--no-index\n--find-links wheels\ntinywheel=={version}\n")
    return root


def job(text: str) -> str:
    return re.findall(r"submitted (\w+)", text)[0]


def test_an_environment_is_built_once_for_the_same_files(shared: Platform, tmp_path: Path) -> None:
    root = project(tmp_path / "p")
    built, seen = 0, set[str]()
    for number in range(2):
        # What is no part of it makes no difference.
        (root / "train.py").write_text(f"# {number}\n{SAYS}\n")
        done = shared.cli(
            "submit",
            "--follow",
            "--memory",
            "512M",
            "--python",
            "requirements.txt",
            "--",
            "python",
            "train.py",
            at=root,
        )
        assert done.code == 0, done
        *said, last = done.out.splitlines()
        built += sum("builds the Python environment of requirements.txt" in line for line in said)
        assert last.startswith("1.0 "), done
        seen.add(last)
    assert (built, len(seen)) == (1, 1)
    shown = shared.cli("show", job(done.err))
    assert "built from requirements.txt" in shown.out
    # A list in Python, with an environment of its own variables: the same files, built anew.
    (root / "wheels" / "tinywheel-1.0-py3-none-any.whl").unlink()
    wheel(root / "wheels", "1.0.1")
    (root / "requirements.txt").write_text("--no-index\n--find-links wheels\ntinywheel\n")
    other = shared.cli("submit", "--follow", "--memory", "512M", "--python", "requirements.txt", "--", "python", "-c",
                       SAYS, at=root)  # fmt: skip
    assert other.out.splitlines()[-1].startswith("1.0.1 "), other


def test_a_failure_says_what_uv_said(shared: Platform, tmp_path: Path) -> None:
    root = project(tmp_path / "p", "9.9")
    command = ("submit", "--follow", "--retries", "0", "--memory", "512M", "--python", "requirements.txt", "--", "true")
    done = shared.cli(*command, at=root)
    assert done.code != 0
    assert "cannot be built from requirements.txt: uv ended with" in done.err, done
    assert "tinywheel==9.9" in done.err.splitlines()[-1]
    # The attempts after the first had a directory of their own to build in.
    assert done.out.count("there is no version of tinywheel==9.9") == done.out.count("builds the Python environment")
    events = shared.cli("show", job(done.err)).out
    assert "staging" in events, events


def test_a_named_or_active_environment_is_used_where_it_is(shared: Platform, tmp_path: Path) -> None:
    prefix = tmp_path / "venv"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin" / "python").symlink_to(os.path.realpath(sys.executable))
    (prefix / "pyvenv.cfg").write_text(f"home = {Path(os.path.realpath(sys.executable)).parent}\n")
    for folder in (prefix, tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and len(folder.parts) > 2:
            folder.chmod(0o755)
    says = "import sys; print(sys.prefix); open(sys.prefix + '/x', 'w')"
    named = shared.cli("submit", "--follow", "--retries", "0", "--python", str(prefix), "--", "python", "-c", says)
    assert named.out.splitlines()[0] == str(prefix), named
    assert not (prefix / "x").exists()
    which = ("submit", "--follow", "--", "sh", "-c", "command -v python; echo ${VIRTUAL_ENV-none}")
    active = shared.cli(*which, env={"VIRTUAL_ENV": str(prefix)})
    assert active.out.splitlines() == [f"{prefix}/bin/python", str(prefix)], active
    assert f"uses the active environment {prefix} where its machine has it" in active.err
    off = shared.cli("submit", "--python", "none", *which[1:], env={"VIRTUAL_ENV": str(prefix)})
    assert off.out.splitlines()[-1] == "none", off
    # It was recognised here, and is gone from the machine when the job starts there.
    with_none = shared.client().submit(
        command=["true"], workdir="none", python={"path": str(tmp_path / "gone"), "required": False}
    )
    shared.client().wait(with_none.id)
    for text in (shared.cli("logs", with_none.id).out, shared.cli("show", with_none.id).out):
        assert "runs with the node's own programs" in text


def test_the_cache_stays_from_job_to_job(shared: Platform) -> None:
    command = 'echo x >> "$ARES_CACHE_DIR/seen"; wc -l < "$XDG_CACHE_HOME/seen"; echo $HF_HOME'
    counts = list[str]()
    for _ in range(2):
        done = shared.cli("submit", "--follow", "--env", "HF_HOME=/mine", "--", "sh", "-c", command)
        count, home = done.out.split()
        counts.append(count)
        assert home == "/mine"
    assert counts == ["1", "2"]
