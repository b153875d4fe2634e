"""Real launchers for tests: brought to this machine once, outside the checkout, when they are missing.

A test that needs one fails with a clear word where it cannot be had."""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_INSTALL_S = 900.0
# For tests that may have to install first, or to wait for one that does.
WITHIN_S = 3 * _INSTALL_S
RAY = "ray==2.60.0"
# On the CPU: some 200 MB to fetch, 730 on disk.
ORBAX = "orbax-checkpoint==0.12.8 jax==0.10.2 jaxlib==0.10.2"
# Jobs have a /tmp of their own: they would not find what lies below a home that is there.
_HOME = Path("/var/cache") if Path("/tmp") in Path.home().parents else Path.home() / ".cache"
_CACHE = Path(os.environ.get("ARES_TEST_CACHE") or _HOME / "ares-runtimes")
# Debian's torch 1.13 with Python 3.11: its torchrun finds no word for "no redirection" unless one is given for a rank
# that there is not.
_PYTHON = """#!/bin/sh
export PET_REDIRECTS=9:1 PET_TEE=9:1 PYTHONPATH="${0%/*}/site:$PYTHONPATH"
exec /usr/bin/python3 "$@"
"""
# And its distributed checkpoints cannot be imported: Python 3.11 takes some of their defaults for mutable ones.
_SITE = """
import dataclasses
_field = dataclasses._get_field
def _lenient(cls, name, *rest):
    given = cls.__dict__.get(name)
    kind = type(getattr(given, "default", given))
    if kind.__module__.startswith("torch.") and kind.__hash__ is None:
        kind.__hash__ = object.__hash__
    return _field(cls, name, *rest)
dataclasses._get_field = _lenient
"""


def open_mpi() -> None:
    """mpirun and orted, of Debian."""
    _apt(("mpirun", "orted"), ("openmpi-bin",))


def mpich() -> None:
    """mpiexec.hydra and the library, of Debian. Open MPI keeps the names mpirun and mpiexec where both are there."""
    _apt(("mpiexec.hydra", "hydra_pmi_proxy"), ("openmpi-bin", "mpich"))


def torch_python() -> Path:
    """The directory of a `python` that has torch on the CPU: Debian's, as PyPI's would bring gigabytes of CUDA."""
    _apt(("/usr/lib/python3/dist-packages/torch/__init__.py",), ("python3-torch",))
    folder = _CACHE / "torch" / "bin"
    with _alone():
        (folder / "site").mkdir(parents=True, exist_ok=True)
        (folder / "site" / "sitecustomize.py").write_text(_SITE)
        draft = folder / f".python.{os.getpid()}"
        draft.write_text(_PYTHON)
        draft.chmod(0o755)
        draft.rename(folder / "python")
    return folder


def ray_python() -> Path:
    """The directory of a `python` that has Ray."""
    return _pip("ray", RAY)


def orbax_python() -> Path:
    """The directory of a `python` that has Orbax, with JAX on the CPU."""
    return _pip("orbax", ORBAX)


def _pip(name: str, packages: str) -> Path:
    """The directory of a `python` of its own that has these packages of PyPI."""
    home = _CACHE / name
    stamp = home / ".installed"
    with _alone():
        if not stamp.exists() or stamp.read_text() != packages:
            _run([sys.executable, "-m", "venv", "--clear", str(home)], packages)
            _run([str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", *packages.split()], packages)
            stamp.write_text(packages)
    return home / "bin"


def _apt(needed: Sequence[str], packages: Sequence[str]) -> None:
    def there() -> bool:
        return all(Path(name).exists() if name.startswith("/") else shutil.which(name) for name in needed)

    if there():
        return
    words = " ".join(packages)
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise AssertionError(f"this test needs {words}: sudo apt-get install {words}")
    with _alone():
        if not there():
            quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            # A new machine's list of packages may be empty or old.
            _run(["apt-get", "update", "-qq"], "the list of packages", quiet)
            _run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages], words, quiet)


class _alone:  # noqa: N801 - it reads as a word
    """One process at a time installs; the others wait for it and find everything there."""

    def __enter__(self) -> None:
        _CACHE.mkdir(parents=True, exist_ok=True)
        self._lock = open(_CACHE / ".lock", "w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        self._lock.close()


def _run(command: Sequence[str], what: str, env: dict[str, str] | None = None) -> None:
    sys.stderr.write(f"\ntests: installing {what}, once\n")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_INSTALL_S, env=env)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no reason given"]
        raise AssertionError(f"could not install {what}: {said[0][:300]}")
