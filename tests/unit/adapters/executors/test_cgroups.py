"""Finding the agent's groups, on pretended mounts: version 2, version 1, a container, none."""

from pathlib import Path

import pytest

from ares.adapters.executors.cgroups import V1, V2, discover


def pretend(tmp_path: Path, mounts: str, membership: str) -> Path:
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "mountinfo").write_text(mounts.format(top=tmp_path))
    (proc / "cgroup").write_text(membership)
    return proc


def test_version_2_hands_the_controllers_down(tmp_path: Path) -> None:
    proc = pretend(tmp_path, "30 20 0:26 / {top}/cg rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n", "0::/svc\n")
    own = tmp_path / "cg" / "svc"
    own.mkdir(parents=True)
    (own / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    groups = discover("ares-x", proc)
    assert groups is not None
    assert groups.layout is V2
    assert (own / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"
    assert (own / "ares-x" / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"
    assert groups.folders() == (f"{own}/ares-x",)
    assert groups.slot(3)["join"] == (f"{own}/ares-x/slot-3/cgroup.procs",)


def test_version_2_without_memory_falls_back_to_version_1(tmp_path: Path) -> None:
    mounts = (
        "30 20 0:26 / {top}/unified rw - cgroup2 cgroup2 rw\n"
        "31 20 0:27 /outer {top}/memory rw - cgroup cgroup rw,memory\n"
        "32 20 0:28 / {top}/pids rw - cgroup cgroup rw,pids\n"
    )
    proc = pretend(tmp_path, mounts, "4:memory:/outer/mine\n3:pids:/on/the/host\n0::/\n")
    for folder in ("unified", "memory/mine", "pids"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "unified" / "cgroup.controllers").write_text("hugetlb\n")
    groups = discover("ares-x", proc)
    assert groups is not None
    assert groups.layout is V1
    # The mount's own root is taken off the path; a path that does not exist here means the mount's top.
    assert set(groups.folders()) == {f"{tmp_path}/memory/mine/ares-x", f"{tmp_path}/pids/ares-x"}


def test_no_groups_at_all(tmp_path: Path) -> None:
    proc = pretend(tmp_path, "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n", "0::/\n")
    assert discover("ares-x", proc) is None


@pytest.mark.parametrize("milli", [1, 500, 1000, 64_000, 4_096_000])
def test_weights_stay_within_what_the_kernel_takes(milli: int) -> None:
    assert 2 <= V1.cpu_weight(milli) <= 262_144
    assert 1 <= V2.cpu_weight(milli) <= 10_000
