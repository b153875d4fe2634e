"""Brings a peer to this machine when it is missing: a virtual environment outside the checkout, or Debian packages."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.processes import NotMeasured

INSTALL_S = 900.0


def cache() -> Path:
    """Where environments of peers are kept between runs."""
    return Path(os.environ.get("ARES_BENCH_CACHE") or Path.home() / ".cache" / "ares-bench")


def venv_python(name: str, requirement: str) -> str:
    """The Python of the peer's own environment, made on first use."""
    home = cache() / name
    python, stamp = home / "bin" / "python", home / ".installed"
    if stamp.exists() and stamp.read_text() == requirement:
        return str(python)
    print(f"bench: installing {requirement} into {home}", file=sys.stderr)
    _run([sys.executable, "-m", "venv", "--clear", str(home)], requirement)
    _run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement], requirement)
    stamp.write_text(requirement)
    return str(python)


def apt(commands: Sequence[str], packages: Sequence[str]) -> None:
    """Installs `packages` unless all `commands` are there."""
    if all(find(command) for command in commands):
        return
    words = " ".join(packages)
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise NotMeasured(f"missing; install with: sudo apt-get install {words}")
    print(f"bench: installing {words} with apt-get", file=sys.stderr)
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    _run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages], words, quiet)


def find(command: str) -> str | None:
    """Daemons live in directories that a user's PATH may lack."""
    return shutil.which(command, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _run(command: Sequence[str], what: str, env: dict[str, str] | None = None) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=INSTALL_S, env=env)
    except subprocess.TimeoutExpired:
        raise NotMeasured(f"installing {what} took longer than {INSTALL_S:g} s") from None
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no reason given"]
        raise NotMeasured(f"could not install {what}: {said[0][:200]}")
