"""This machine's own devices, and pretended ones, on a small pretended /sys and /proc."""

import os
from pathlib import Path

import pytest

from ares.adapters.devices.presets import PRESETS, UnknownMock, mock_machine
from ares.adapters.devices.system import SystemDevices, parse_cpu_list
from ares.core.topology.links import is_link_word
from ares.ports.devices import Accelerators


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


NVIDIA = """\
case "$*" in
*--query-gpu*) cat <<END
index, uuid, name, memory.total [MiB], pci.bus_id, mig.mode.current
0, GPU-a, NVIDIA A100-SXM4-40GB, 40960, 00000000:B7:00.0, Disabled
1, GPU-b, NVIDIA A100-SXM4-40GB, 40960, 00000000:01:00.0, Enabled
2, GPU-c, NVIDIA A100-SXM4-40GB, 40960, ?, Disabled
END
;;
-L) cat <<END
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-a)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-b)
  MIG 1g.5gb      Device  0: (UUID: MIG-1)
  MIG 1g.5gb      Device  1: (UUID: MIG-2)
END
;;
"topo -m") cat <<END
\tGPU0\tGPU1\tGPU2\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNV4\tSYS\t0-3\t0
GPU1\tNV4\t X \tSYS\t0-3\t5
GPU2\tSYS\tSYS\t X \t4-7\tN/A
END
;;
esac
""".replace("\\t", "\t")


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for vendors' tools, beside the system's own."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def test_gpus_links_and_slices_come_from_the_vendors_tool(roots: tuple[Path, Path], tools: Path) -> None:
    """The kernel's NUMA node counts, then the tool's, then 0."""
    tool(tools, "nvidia-smi", NVIDIA)
    found = SystemDevices("auto", sys=roots[0], proc=roots[1]).accelerators()
    assert [(gpu.uuid, gpu.numa_node, gpu.vendor, gpu.mig) for gpu in found.gpus] == [
        ("GPU-a", 1, "nvidia", False),
        ("GPU-b", 5, "nvidia", True),
        ("GPU-c", 0, "nvidia", False),
    ]
    assert found.gpu_links == (("X", "NV4", "SYS"), ("NV4", "X", "SYS"), ("SYS", "SYS", "X"))
    assert found.devices == {"mig-1g.5gb": ("MIG-1", "MIG-2")}


def test_a_topology_file_tells_what_a_virtual_machine_hides(roots: tuple[Path, Path], tools: Path) -> None:
    """NUMA nodes and the PCI tree; NVLinks that only the tool sees stay."""
    tool(tools, "nvidia-smi", NVIDIA)
    file = """<system><cpu numaid="3">
      <pci busid="0000:b7:00.0" class="0x030200"/><pci busid="0000:01:00.0" class="0x030200"/>
      <pci busid="0000:99:00.0" class="0x030200"/></cpu></system>"""
    found = SystemDevices("", file, sys=roots[0], proc=roots[1]).accelerators()
    assert [gpu.numa_node for gpu in found.gpus] == [3, 3, 0]
    assert found.gpu_links == (("X", "NV4", "SYS"), ("NV4", "X", "SYS"), ("SYS", "SYS", "X"))
    tool(tools, "nvidia-smi", NVIDIA.replace("NV4", "SYS"))
    found = SystemDevices("", file, sys=roots[0], proc=roots[1]).accelerators()
    assert found.gpu_links == (("X", "PHB", "SYS"), ("PHB", "X", "SYS"), ("SYS", "SYS", "X"))


def test_an_old_driver_is_asked_for_xml(roots: tuple[Path, Path], tools: Path) -> None:
    script = """\
case "$*" in
"-q -x") echo '<nvidia_smi_log><gpu id="00000000:B7:00.0"><product_name>Tesla K80</product_name>'
  echo '<uuid>GPU-k</uuid><fb_memory_usage><total>11441 MiB</total></fb_memory_usage></gpu></nvidia_smi_log>' ;;
*--query-gpu*) echo 'Field "mig.mode.current" is not a valid field to query.'; exit 2 ;;
esac
"""
    tool(tools, "nvidia-smi", script)
    found = SystemDevices(sys=roots[0], proc=roots[1]).accelerators()
    assert [(gpu.index, gpu.model, gpu.memory_mib, gpu.numa_node) for gpu in found.gpus] == [(0, "Tesla K80", 11441, 1)]


def test_amd_links_from_the_table_where_json_has_none(roots: tuple[Path, Path], tools: Path) -> None:
    script = """\
case "$*" in
*--json*) echo '{"card0": {"Unique ID": "0x1"}, "card1": {"Unique ID": "0x2"}}' ;;
--showtopo) cat <<END
======== Link Type between two GPUs ========
       GPU0   GPU1
GPU0   0      XGMI
GPU1   XGMI   0
END
;;
esac
"""
    tool(tools, "rocm-smi", script)
    found = SystemDevices(sys=roots[0], proc=roots[1]).accelerators()
    assert [(gpu.uuid, gpu.vendor) for gpu in found.gpus] == [("0x1", "amd"), ("0x2", "amd")]
    assert found.gpu_links == (("X", "XGMI"), ("XGMI", "X"))


def test_no_tool_or_a_broken_one_means_no_gpus(roots: tuple[Path, Path], tools: Path) -> None:
    auto, plain = (SystemDevices(setting, sys=roots[0], proc=roots[1]) for setting in ("auto", ""))
    assert [gpu.vendor for gpu in auto.accelerators().gpus] == ["mock"] * 4
    tool(tools, "nvidia-smi", "echo 'NVIDIA-SMI has failed because it could not reach the driver'; exit 9")
    assert plain.accelerators().gpus == ()
    assert [gpu.vendor for gpu in auto.accelerators().gpus] == ["mock"] * 4


def test_this_machine_has_something() -> None:
    devices = SystemDevices()
    assert 1 <= devices.cpus() <= (os.cpu_count() or 1)
    assert devices.memory_mib() >= 64
    for node in devices.numa():
        assert set(node.cpus) <= os.sched_getaffinity(0)


def test_mock_settings() -> None:
    assert mock_machine("") is None
    assert mock_machine("false") is None
    assert [gpu.model for gpu in (mock_machine("TRUE") or Accelerators()).gpus] == ["NVIDIA A100-SXM4-40GB"] * 4
    many = mock_machine("16") or Accelerators()
    assert len({gpu.uuid for gpu in many.gpus}) == 16
    assert many.gpu_links[3][2:5] == ("NV12", "X", "NV12")


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_whole(name: str) -> None:
    machine = mock_machine(name) or Accelerators()
    assert machine.gpus or machine.devices
    assert [gpu.index for gpu in machine.gpus] == list(range(len(machine.gpus)))
    rows = machine.gpu_links
    assert len(rows) == len(machine.gpus)
    assert all(rows[a][b] == rows[b][a] for a in range(len(rows)) for b in range(len(rows)))
    assert all(
        is_link_word(word) and (word == "X") == (a == b) for a, row in enumerate(rows) for b, word in enumerate(row)
    )


def test_presets_with_slices_and_other_devices() -> None:
    sliced = mock_machine("h100-mig") or Accelerators()
    assert [gpu.mig for gpu in sliced.gpus] == [False, True]
    assert {kind: len(ids) for kind, ids in sliced.devices.items()} == {
        "mig-3g.40gb": 1, "mig-2g.20gb": 1, "mig-1g.10gb": 2,
    }  # fmt: skip
    tpus = mock_machine("tpu-v4") or Accelerators()
    assert tpus.gpus == ()
    assert len(tpus.devices["tpu-v4"]) == 4


@pytest.mark.parametrize("setting", ["dgx", "-1", "99999", "1.5", "true\n--x"])
def test_an_unknown_mock_machine_is_refused_with_the_choices(setting: str) -> None:
    with pytest.raises(UnknownMock, match="dgx-a100"):
        SystemDevices(setting)


def test_cpu_lists() -> None:
    assert parse_cpu_list("0-3,8,10-11\n") == (0, 1, 2, 3, 8, 10, 11)
    assert parse_cpu_list("\n") == ()
