"""What a started process really has: its CPUs, its memory's origin, its limits, and its place when memory is short."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ares.adapters.executors.cgroups import V1, V2, Cgroups, Layout
from ares.adapters.executors.local import LocalExecutor
from ares.adapters.executors.terms import SandboxTerms
from ares.adapters.executors.warden.limits import CgroupLimits
from ares.ports.executor import CannotStart, Pin
from tests import needs
from tests.unit.adapters.executors.launching import TIMEOUT_S, launch

MPOL_DEFAULT, MPOL_PREFERRED, MPOL_BIND = 0, 1, 2
FIRST_CPU = min(os.sched_getaffinity(0))
OOM_BEFORE = int(Path("/proc/self/oom_score_adj").read_text())
# Kernels without NUMA have no policy to read.
NUMA = Path("/sys/devices/system/node/node0").exists() and os.uname().machine == "x86_64"

LOOK = """
import ctypes, json, os
status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
mode, mask = ctypes.c_int(), ctypes.c_uint64()
got = ctypes.CDLL(None).syscall(239, ctypes.byref(mode), ctypes.byref(mask), ctypes.c_ulong(65), None, 0)
print(json.dumps({
    "cpus": sorted(os.sched_getaffinity(0)), "allowed": status["Cpus_allowed_list"].strip(),
    "policy": [mode.value, mask.value], "oom": int(open("/proc/self/oom_score_adj").read()),
    "slot_oom": int(open(f"/proc/{os.getppid()}/oom_score_adj").read()), "groups": open("/proc/self/cgroup").read(),
}))
"""


@pytest.fixture
async def executor(tmp_path: Path) -> AsyncIterator[LocalExecutor]:
    executor = LocalExecutor(tmp_path / "state")
    await executor.open()
    yield executor
    await executor.close()


async def look(executor: LocalExecutor, folder: Path, **changes: object) -> dict[str, object]:
    (folder / "log").unlink(missing_ok=True)
    outcome = await executor.start(launch(folder, sys.executable, "-I", "-S", "-c", LOOK, **changes))
    assert not isinstance(outcome, CannotStart), outcome.message
    done = asyncio.get_running_loop().create_future()
    outcome.on_finished(lambda end: None if done.done() else done.set_result(end))
    assert (await asyncio.wait_for(done, TIMEOUT_S)).code == 0
    return json.loads((folder / "log").read_text().splitlines()[-1])


@pytest.mark.parametrize(("required", "policy"), [(True, MPOL_BIND), (False, MPOL_PREFERRED)])
async def test_a_pinned_process_runs_where_it_should_and_the_next_is_free(
    executor: LocalExecutor, tmp_path: Path, required: bool, policy: int
) -> None:
    pinned = await look(executor, tmp_path, pin=Pin(0, (FIRST_CPU,), required))
    assert (pinned["cpus"], pinned["allowed"]) == ([FIRST_CPU], str(FIRST_CPU))
    free = await look(executor, tmp_path)
    assert free["cpus"] == sorted(os.sched_getaffinity(0))
    if NUMA:
        assert pinned["policy"] == [policy, 1]
        assert free["policy"] == [MPOL_DEFAULT, 0]


@pytest.mark.parametrize("pin", [(0, (4000,)), (1000, (FIRST_CPU,)), (1, ())], ids=["cpu", "memory", "unknown"])
async def test_what_the_kernel_refuses_is_a_failure_or_a_warning(
    executor: LocalExecutor, tmp_path: Path, pin: tuple[int, tuple[int, ...]]
) -> None:
    if pin[0] == 1000 and not NUMA:
        pytest.skip(needs.NUMA)
    refused = await executor.start(launch(tmp_path, "touch", "ran", pin=Pin(*pin, True)))
    assert isinstance(refused, CannotStart)
    assert f"NUMA node {pin[0]}" in refused.message
    assert not (tmp_path / "ran").exists()
    ran = await look(executor, tmp_path, pin=Pin(*pin, False))
    assert f"[ares: cannot keep its CPUs and memory on NUMA node {pin[0]}" in (tmp_path / "log").read_text()
    assert ran["policy"] == [MPOL_DEFAULT, 0]


@pytest.mark.parametrize("limits", [True, False])
async def test_each_is_as_early_to_go_as_it_was_told(tmp_path: Path, limits: bool) -> None:
    executor = LocalExecutor(tmp_path / "state", limits=limits, terms=SandboxTerms(level="process"))
    await executor.open()
    try:
        seen = [await look(executor, tmp_path, oom_score_adj=adj) for adj in (1000, 0, 300, 0)]
        assert [each["oom"] for each in seen] == [min(1000, OOM_BEFORE + adj) for adj in (1000, 0, 300, 0)]
        assert all(each["slot_oom"] in (-1000, OOM_BEFORE) for each in seen), "the slot itself stays out of it"
    finally:
        await executor.close()


async def test_cpu_time_is_limited_and_the_next_attempt_is_free_again(executor: LocalExecutor, tmp_path: Path) -> None:
    """By the kernel's own count of how often it held the process back."""
    if executor.isolation()[1] != "cgroup-v1":
        pytest.skip(needs.CGROUPS_V1)
    spin = "import time\nwhile True: pass"
    outcome = await executor.start(launch(tmp_path, sys.executable, "-I", "-S", "-c", spin, cpu_limit_milli=200))
    assert not isinstance(outcome, CannotStart)
    group = cpu_group(outcome.pid)
    async with asyncio.timeout(TIMEOUT_S):
        while "nr_throttled 0" in (group / "cpu.stat").read_text():
            await asyncio.sleep(0.02)
    assert (group / "cpu.cfs_quota_us").read_text() == "20000\n"
    # The slot that holds it is not held back with it.
    assert (group / "cgroup.procs").read_text().split() == [str(outcome.pid)]
    done = asyncio.get_running_loop().create_future()
    outcome.on_finished(lambda end: None if done.done() else done.set_result(end))
    outcome.kill()
    await asyncio.wait_for(done, TIMEOUT_S)
    assert (group / "cpu.cfs_quota_us").read_text() == "-1\n"
    again = await look(executor, tmp_path)
    assert group_of(str(again["groups"])) == group


def cpu_group(pid: int) -> Path:
    return group_of(Path(f"/proc/{pid}/cgroup").read_text())


def group_of(lines: str) -> Path:
    path = next(line.split(":", 2)[2] for line in lines.splitlines() if "cpu" in line.split(":")[1].split(","))
    return Path("/sys/fs/cgroup/cpu") / path.lstrip("/")


@pytest.mark.parametrize(
    ("layout", "name", "some", "none"),
    [(V1, "cpu.cfs_quota_us", "150000", "-1"), (V2, "cpu.max", "150000 100000", "max")],
)
def test_a_limit_on_cpu_time_is_written_as_each_version_wants_it(
    tmp_path: Path, layout: Layout, name: str, some: str, none: str
) -> None:
    slot, holders = tmp_path / "slot-0", tmp_path / "slot-holders"
    for folder in (slot, holders):
        folder.mkdir()
        (folder / layout.join).touch()
    (slot / name).touch()

    def written(path: Path) -> str:
        """What came since the last time. Files of groups have no end that stays."""
        text = path.read_text()
        os.truncate(path, 0)
        return text

    paths = Cgroups(layout, {"cpu": tmp_path}).slot(0)
    limits = CgroupLimits(paths)
    assert written(slot / name) == none
    assert written(slot / layout.join) == "0"
    limits.step_aside(1500)
    assert written(slot / name) == some
    assert written(holders / layout.join) == "0"
    limits.back()
    assert written(slot / name) == none
    limits.step_aside(1)
    assert written(slot / name) == {V1: "1000", V2: "1000 100000"}[layout]
