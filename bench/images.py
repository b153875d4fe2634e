"""(r) The start of a job in an image, against `runc run` with the same files."""

import asyncio
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from statistics import median

from ares.adapters.executors.local import LocalExecutor
from ares.adapters.executors.terms import SandboxTerms
from ares.ports.executor import CannotStart, Finished, ImageFiles, Launch
from bench.processes import NotMeasured
from bench.report import Row, judged
from bench.scale import Scale

TARGET = 1.5
_TRIES, _QUICK_TRIES = 40, 8
_UID = 1_879_048_189
_PACKAGES = {"runc": "runc", "busybox": "busybox-static"}


async def rows(scale: Scale, folder: Path) -> list[Row]:
    _need_programs()
    root = await asyncio.to_thread(_root, folder / "image/rootfs")
    bundle = await asyncio.to_thread(_bundle, root.parent)
    uid = _UID if os.geteuid() == 0 else None
    executor = LocalExecutor(folder / "state", terms=SandboxTerms(uid=uid))
    await executor.open()
    tries = _TRIES if scale.jobs > 1000 else _QUICK_TRIES
    ours, theirs = list[float](), list[float]()
    try:
        # By turns, so that both meet the same machine.
        for number in range(tries + 2):
            theirs.append(await asyncio.to_thread(_runc, bundle, number))
            ours.append(await _ares(executor, root, folder / "attempts", number, uid))
    finally:
        await executor.close()
    # The first ones find nothing in memory.
    found, against = median(ours[2:]), median(theirs[2:])
    return [
        Row(
            "r", "a job in an image, from its start to its end", f"{found:,.1f} ms", found,
            f"runc run: {against:,.1f} ms", found / against, f"≤ {TARGET:g}", judged(found / against <= TARGET),
            f"medians of {tries} by turns, each a process that ends at once; slowest {max(ours[2:]):,.0f} and "
            f"{max(theirs[2:]):,.0f} ms",
        )
    ]  # fmt: skip


def _need_programs() -> None:
    missing = [package for program, package in _PACKAGES.items() if shutil.which(program) is None]
    if not missing:
        return
    done = subprocess.run(["apt-get", "install", "-y", "-qq", *missing], capture_output=True, check=False)
    if done.returncode:
        raise NotMeasured(f"{', '.join(missing)} cannot be installed here")


def _root(root: Path) -> Path:
    """The same files for both."""
    for name in ("bin", "etc", "proc", "sys", "dev", "tmp"):
        (root / name).mkdir(parents=True)
    shutil.copy(shutil.which("busybox") or "", root / "bin/busybox")
    (root / "bin/true").symlink_to("busybox")
    return root


def _bundle(folder: Path) -> Path:
    subprocess.run(["runc", "spec"], cwd=folder, check=True)
    config = json.loads((folder / "config.json").read_text())
    config["process"] |= {"args": ["/bin/true"], "terminal": False}
    # Some machines do not let it be set.
    config["process"].pop("rlimits", None)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def _runc(bundle: Path, number: int) -> float:
    began = time.perf_counter()
    command = ["runc", "run", f"ares-bench-{os.getpid()}-{number}"]
    done = subprocess.run(command, cwd=bundle, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    took = time.perf_counter() - began
    if done.returncode:
        raise NotMeasured(f"runc does not run here: {done.stderr.decode(errors='replace').strip()[:200]}")
    return took * 1000


async def _ares(executor: LocalExecutor, root: Path, above: Path, number: int, uid: int | None) -> float:
    began = time.perf_counter()
    attempt, layer = above / f"{number}", above / f"{number}.layer"
    for path in (attempt / "work", layer):
        await asyncio.to_thread(path.mkdir, parents=True)
    launch = Launch(
        argv=("true",), env={"PATH": "/bin"}, cwd=str(attempt / "work"), log_path=str(attempt / "log"), memory_mib=256,
        cpu_milli=1000, file_bytes_max=1 << 30, processes_max=100, open_files_max=1024, owner="bench",
        folders=(str(attempt),), uid=uid, image=ImageFiles(str(root), str(layer), "/root"),
    )  # fmt: skip
    running = await executor.start(launch)
    if isinstance(running, CannotStart):
        raise NotMeasured(running.message)
    ended: asyncio.Future[Finished] = asyncio.get_running_loop().create_future()
    running.on_finished(ended.set_result)
    if (await ended).code:
        raise NotMeasured("the job in the image failed")
    return (time.perf_counter() - began) * 1000
