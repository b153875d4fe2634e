"""Environments of jobs on real processes: built once, found or said to be missing, and a cache that stays."""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
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


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        return


@contextlib.contextmanager
def package_index(folder: Path) -> Iterator[str]:
    """A package index of this test alone: the listing of a directory of wheels is the page of its package."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/simple"
        finally:
            server.shutdown()
            thread.join()


def test_a_pyproject_and_a_lock_are_built(shared: Platform, tmp_path: Path) -> None:
    root = tmp_path / "locked"
    (root / "app").mkdir(parents=True)
    (root / "app" / "pyproject.toml").write_text(
        '[project]\nname = "app"\nversion = "0"\nrequires-python = ">=3.11"\ndependencies = ["tinywheel"]\n'
    )
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert uv is not None
    wheels = tmp_path / "index" / "simple" / "tinywheel"
    wheels.parent.mkdir(parents=True)
    wheel(wheels, "1.0")
    with package_index(tmp_path / "index") as url:
        command = ("submit", "--follow", "--memory", "512M", "--env", f"UV_DEFAULT_INDEX={url}", "--python")
        done = shared.cli(*command, "app/pyproject.toml", "--", "python", "-c", SAYS, at=root)
        assert done.out.splitlines()[-1].startswith("1.0 "), done
        assert "built from app/pyproject.toml" in shared.cli("show", job(done.err)).out
        around = {**os.environ, "UV_CACHE_DIR": str(tmp_path / "cache"), "UV_DEFAULT_INDEX": url}
        subprocess.run([uv, "lock", "--python", sys.executable], cwd=root / "app", env=around, check=True)
        wheel(wheels, "2.0")
        # The lock says what runs, whatever the index has by now; the project alone takes the newest.
        locked = shared.cli(*command, "app/uv.lock", "--", "python", "-c", SAYS, at=root)
        assert locked.out.splitlines()[-1].startswith("1.0 "), locked
        assert "built from app/uv.lock" in shared.cli("show", job(locked.err)).out
        (root / "app" / "uv.lock").unlink()
        newest = (*command[:4], "--env", "UV_NO_CACHE=1", *command[4:])
        fresh = shared.cli(*newest, "app/pyproject.toml", "--", "python", "-c", SAYS, at=root)
        assert fresh.out.splitlines()[-1].startswith("2.0 "), fresh


def test_a_failure_says_what_uv_said(shared: Platform, tmp_path: Path) -> None:
    root = project(tmp_path / "p", "9.9")
    command = ("submit", "--follow", "--memory", "512M", "--python", "requirements.txt", "--", "true")
    done = shared.cli(*command, at=root)
    assert done.code != 0
    assert "cannot be built from requirements.txt: uv ended with" in done.err, done
    assert "tinywheel==9.9" in done.err.splitlines()[-1]
    # What cannot be met at all is not tried again, though the class of failure has two retries.
    assert done.out.count("there is no version of tinywheel==9.9") == 1
    detail = shared.client().get(job(done.err))
    assert (detail.state.phase, detail.state.attempt, detail.state.retries) == ("FAILED", 1, {})
    assert detail.state.reason.endswith("; another attempt would end in the same way"), detail.state.reason


def test_a_file_that_cannot_be_read_ends_the_job_at_once_and_an_index_that_is_away_does_not(
    shared: Platform, tmp_path: Path
) -> None:
    root = tmp_path / "q"
    root.mkdir()
    (root / "requirements.txt").write_text("not a @@ requirement\n")
    command = ("submit", "--follow", "--memory", "512M", "--python", "requirements.txt")
    done = shared.cli(*command, "--", "true", at=root)
    assert shared.client().get(job(done.err)).state.attempt == 1
    # A port that is held and not listened on: an index that may come back.
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        index = f"--index-url http://127.0.0.1:{held.getsockname()[1]}/simple\nnothing==1\n"
        (root / "requirements.txt").write_text(index)
        done = shared.cli(*command, "--env", "UV_HTTP_RETRIES=0", "--", "true", at=root)
        state = shared.client().get(job(done.err)).state
    assert (state.phase, state.attempt, state.retries) == ("FAILED", 3, {"staging": 2}), state.reason


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
