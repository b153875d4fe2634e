"""A platform by `ares up`, used by scripts as a person types them: as root, or as an ordinary user."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tests.ports import free_ports
from tests.warm import Launcher

# A user that every system has and that owns nothing.
_ORDINARY = 65534
_UP_S = 180.0
NOT_ORDINARY = (
    "NOT TESTED: an ordinary user can run no Python {version} here. Install one outside of /root, as /usr/bin/python3."
)


class Person:
    """Somebody with a home directory, a platform and a shell. `ordinary`: without any right of root."""

    def __init__(self, folder: Path, *, ordinary: bool) -> None:
        self._ordinary = ordinary and os.geteuid() == 0
        # pytest closes its own temporary directory to others again and again.
        self._folder = Path(tempfile.mkdtemp(prefix="ares-person-")) if self._ordinary else folder
        self.home = self._folder / "home"
        self._runs = 0

    def __enter__(self) -> Self:
        self.home.mkdir(parents=True)
        if self._ordinary:
            self._folder.chmod(0o755)
            python = _python_for_all()
            if python is None:
                pytest.skip(NOT_ORDINARY.format(version=sysconfig.get_python_version()))
            self._own(self.home)
        else:
            python = sys.executable
        self._bin = _environment(self._folder / "venv", python) if self._ordinary else Path(sys.executable).parent
        self._drop = (
            ["setpriv", f"--reuid={_ORDINARY}", f"--regid={_ORDINARY}", "--clear-groups"] if self._ordinary else []
        )
        self._launcher = Launcher(self._folder, self._bin / "ares", self._drop)
        ports = free_ports(2)
        flags = f"--no-sample --mock-gpu 4 --port {ports[0]} --set agents.port={ports[1]}"
        # Of images that documents name, none is fetched: tests reach no network.
        flags += " --set node.images.registries=none.invalid"
        up = self.run(f"ares up {flags}")
        assert up.returncode == 0, up
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.run("ares down --yes")
        self._launcher.close()
        if self._ordinary:
            shutil.rmtree(self._folder, ignore_errors=True)

    def run(
        self, script: str, *, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """By `sh -e`, in an empty directory of its own."""
        if cwd is None:
            self._runs += 1
            cwd = self.home / f"run-{self._runs}"
            cwd.mkdir()
            self._own(cwd)
        plain = {name: value for name, value in os.environ.items() if not name.startswith("ARES_")}
        path = f"{self._launcher.folder}:{self._bin}:{plain.get('PATH', '')}"
        found = {**plain, "HOME": str(self.home), "PATH": path, "ARES_HOME": str(self.home / ".ares"), **(env or {})}
        return subprocess.run(
            [*self._drop, "sh", "-ec", script],
            env=found, cwd=cwd, input="", capture_output=True, text=True, timeout=_UP_S, check=False,
        )  # fmt: skip

    def _own(self, folder: Path) -> None:
        if self._ordinary:
            os.chown(folder, _ORDINARY, _ORDINARY)


def _python_for_all() -> str | None:
    """One of the same version that every user may run; compiled modules are of that version."""
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        drop = ["setpriv", f"--reuid={_ORDINARY}", f"--regid={_ORDINARY}", "--clear-groups"]
        # By a shell, which has lost all rights of root by then.
        asked = [*drop, "sh", "-c", f"{python} -c 'import sys, venv; print(\"%d.%d\" % sys.version_info[:2])'"]
        if not shutil.which(python):
            continue
        done = subprocess.run(asked, capture_output=True, text=True, check=False, cwd="/")
        if done.returncode == 0 and done.stdout.strip() == sysconfig.get_python_version():
            return python
    return None


def _environment(folder: Path, python: str) -> Path:
    """A virtual environment with what this one has, and `ares` in it."""
    subprocess.run([python, "-m", "venv", "--without-pip", str(folder)], check=True)
    site = next(folder.glob("lib/python*/site-packages"))
    source = Path(__file__).resolve().parents[1] / "src"
    (site / "ares.pth").write_text(f"{source}\n{sysconfig.get_paths()['purelib']}\n")
    script = folder / "bin" / "ares"
    script.write_text(f"#!{folder}/bin/python\nfrom ares.app.main import main\nmain()\n")
    script.chmod(0o755)
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | (0o055 if path.is_dir() or path.parent.name == "bin" else 0o044))
    return folder / "bin"
