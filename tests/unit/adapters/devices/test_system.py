"""This machine's own devices, and pretended ones, on a small pretended /sys and /proc."""

import os
from pathlib import Path

import pytest

from ares.adapters.devices.presets import PRESETS, UnknownMock, mock_gpus
from ares.adapters.devices.system import SystemDevices, parse_cpu_list


@pytest.fixture
def roots(tmp_path: Path) -> tuple[Path, Path]:
    files = {
        "proc/meminfo": "MemTotal:       16384000 kB\nMemFree: 1 kB\n",
        "proc/self/cgroup": "4:memory:/jobs/mine\n3:cpu:/\n0::/user\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        "sys/fs/cgroup/memory/jobs/memory.limit_in_bytes": "1073741824\n",
        "sys/fs/cgroup/memory/jobs/mine/memory.limit_in_bytes": "2147483648\n",
        "sys/fs/cgroup/user/memory.max": "max\n",
        "sys/devices/system/node/node0/cpulist": "0-1,64\n",
        "sys/devices/system/node/node0/meminfo": "Node 0 MemTotal:       8192000 kB\n",
        "sys/devices/system/node/node10/cpulist": "9999\n",
        "sys/devices/system/node/node10/meminfo": "Node 10 MemTotal:       4096000 kB\n",
        "sys/bus/pci/devices/0000:b7:00.0/numa_node": "1\n",
        "sys/bus/pci/devices/0000:01:00.0/numa_node": "-1\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "sys", tmp_path / "proc"


def test_the_tightest_limit_of_all_groups_above_counts(roots: tuple[Path, Path]) -> None:
    devices = SystemDevices(sys=roots[0], proc=roots[1])
    assert devices.memory_mib() == 1024
    (roots[1] / "self/cgroup").write_text("0::/user\n")
    assert devices.memory_mib() == 16000


def test_numa_nodes_in_order_with_the_cpus_we_may_use(roots: tuple[Path, Path]) -> None:
    nodes = SystemDevices(sys=roots[0], proc=roots[1]).numa()
    assert [(node.index, node.memory_mib) for node in nodes] == [(0, 8000), (10, 4000)]
    assert set(nodes[0].cpus) == {0, 1, 64} & os.sched_getaffinity(0)
    assert nodes[1].cpus == ()


def tool(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_gpus_come_from_the_vendors_tool_with_their_numa_node(
    roots: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    devices = SystemDevices("auto", sys=roots[0], proc=roots[1])
    assert [gpu.vendor for gpu in devices.gpus()] == ["mock"] * 4, "no tool at all"
    tool(tmp_path, "nvidia-smi", "echo 'NVIDIA-SMI has failed because it could not reach the driver'; exit 9")
    assert SystemDevices(sys=roots[0], proc=roots[1]).gpus() == ()
    tool(
        tmp_path,
        "nvidia-smi",
        "echo '0, GPU-a, X, 10, 00000000:B7:00.0'; echo '1, GPU-b, X, 10, 00000000:01:00.0'; echo '2, GPU-c, X, 10, ?'",
    )
    assert [(gpu.uuid, gpu.numa_node, gpu.vendor) for gpu in devices.gpus()] == [
        ("GPU-a", 1, "nvidia"),
        ("GPU-b", 0, "nvidia"),
        ("GPU-c", 0, "nvidia"),
    ]


def test_this_machine_has_something() -> None:
    devices = SystemDevices()
    assert 1 <= devices.cpus() <= (os.cpu_count() or 1)
    assert devices.memory_mib() >= 64
    for node in devices.numa():
        assert set(node.cpus) <= os.sched_getaffinity(0)


def test_mock_settings() -> None:
    assert mock_gpus("") is None
    assert mock_gpus("false") is None
    assert [gpu.model for gpu in mock_gpus("TRUE") or ()] == ["NVIDIA A100-SXM4-40GB"] * 4
    assert len(mock_gpus("16") or ()) == 16
    assert len({gpu.uuid for gpu in mock_gpus("16") or ()}) == 16
    for name in PRESETS:
        gpus = mock_gpus(name)
        assert gpus is not None
        assert len(gpus) == 8
        assert len({gpu.numa_node for gpu in gpus}) >= 2
        assert [gpu.index for gpu in gpus] == list(range(8))


@pytest.mark.parametrize("setting", ["dgx", "-1", "99999", "1.5", "true\n--x"])
def test_an_unknown_mock_machine_is_refused_with_the_choices(setting: str) -> None:
    with pytest.raises(UnknownMock, match="dgx-a100"):
        SystemDevices(setting)


def test_cpu_lists() -> None:
    assert parse_cpu_list("0-3,8,10-11\n") == (0, 1, 2, 3, 8, 10, 11)
    assert parse_cpu_list("\n") == ()
