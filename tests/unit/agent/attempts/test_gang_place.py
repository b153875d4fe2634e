"""What a rank is told about its gang, and about the devices it holds."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ares.agent.attempts.environment import job_environment
from ares.agent.attempts.gang_place import file_of, variables
from ares.agent.attempts.launch import launch_of
from ares.agent.attempts.workspace import Folder
from ares.agent.files.job_files import write_whole
from ares.agent.settings import AgentSettings
from ares.model.job import Gang, JobSpec
from ares.model.link import AttemptRef, GangPeer, Start, WorldInfo
from ares.model.node import Gpu, Nic, NodeInfo, NumaNode
from ares.model.state import Fence, Placement
from ares.ports.executor import Pin

# Rank 1 was lost: those after it moved up, and kept their numbers. Rank 5 joined on the first node.
WORLD = WorldInfo(
    generation=3,
    master_port=29500,
    peers=(
        GangPeer(rank=0, node="a", address="10.0.0.1"),
        GangPeer(rank=2, node="b", address="10.0.0.2"),
        GangPeer(rank=3, node="b", address="10.0.0.2"),
        GangPeer(rank=5, node="a", address="10.0.0.1"),
    ),
)
NAMES = ("RANK", "WORLD_SIZE", "NODE_RANK", "ARES_LOCAL_RANK", "ARES_LOCAL_SIZE", "ARES_RANK_ID")
GPUS = tuple(Gpu(index=n, uuid=f"GPU-{n}", model="H100", memory_mib=80_000) for n in range(2))
INFO = NodeInfo(
    name="b", cpu_milli=8000, memory_mib=1000, gpus=GPUS, numa=(NumaNode(index=1, cpus=(4, 5), memory_mib=500),)
)


def start(spec: dict[str, Any] | None = None, **placement: Any) -> Start:
    return Start(
        ref=AttemptRef(job="j", tenant="t", fence=Fence(counter=1)),
        attempt=1,
        spec=JobSpec(command=("true",), **(spec or {})),
        placement=Placement(node="b", incarnation=1, **{"cpu_milli": 500, "memory_mib": 600, **placement}),
        world=WORLD,
    )


@pytest.mark.parametrize(
    ("rank", "seen"),
    [
        (0, (0, 4, 0, 0, 2, 0)),
        (2, (1, 4, 1, 0, 2, 2)),
        (3, (2, 4, 2, 1, 2, 3)),
        (5, (3, 4, 3, 1, 2, 5)),
    ],
)
def test_ranks_count_those_who_take_part(rank: int, seen: tuple[int, ...]) -> None:
    told = variables(WORLD, rank)
    assert tuple(int(told[name]) for name in NAMES) == seen
    # To programs each rank is a node of its own: the first of the GPUs it sees is its own.
    assert (told["LOCAL_RANK"], told["LOCAL_WORLD_SIZE"], told["GROUP_RANK"]) == ("0", "1", told["RANK"])
    assert (told["MASTER_ADDR"], told["MASTER_PORT"]) == ("10.0.0.1", "29500")
    assert json.loads(file_of(WORLD, rank)) == {
        "generation": 3, "rank": seen[0], "worldSize": 4, "masterAddr": "10.0.0.1", "masterPort": 29500,
        "peers": [{"rank": p.rank, "node": p.node, "address": p.address} for p in WORLD.peers],
    }  # fmt: skip


def test_a_job_without_a_gang_is_a_world_of_its_own() -> None:
    told = variables(WorldInfo(), 0)
    assert tuple(int(told[name]) for name in NAMES) == (0, 1, 0, 0, 1, 0)
    assert not {"MASTER_ADDR", "MASTER_PORT"} & told.keys()


@pytest.mark.parametrize("gang", [None, Gang(ranks=4), Gang(ranks=4, resize_signal="SIGUSR2")])
def test_a_gang_has_a_file_and_perhaps_a_signal(gang: Gang | None) -> None:
    told = job_environment({}, start({"gang": gang}, rank=2), Folder("/a"), INFO)
    assert told.get("ARES_WORLD_FILE") == (None if gang is None else "/a/world.json")
    assert told.get("ARES_RESIZE_SIGNAL") == (gang.resize_signal if gang else None)


@pytest.mark.parametrize(
    ("placement", "told"),
    [
        ({}, {"CUDA_VISIBLE_DEVICES": ""}),
        ({"gpus": (1,)}, {"CUDA_VISIBLE_DEVICES": "1"}),
        (
            {"gpus": (1,), "gpu_milli": 255},
            {"CUDA_VISIBLE_DEVICES": "1", "ARES_GPU_MILLI": "255", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25"},
        ),
        (
            {"gpus": (0,), "gpu_milli": 3},
            {"CUDA_VISIBLE_DEVICES": "0", "ARES_GPU_MILLI": "3", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "1"},
        ),
        (
            {"devices": {"mig-1g.10gb": ("MIG-x", "MIG-y")}},
            {"CUDA_VISIBLE_DEVICES": "MIG-x,MIG-y", "ARES_DEVICES_MIG_1G_10GB": "MIG-x,MIG-y"},
        ),
        (
            {"gpus": (1,), "devices": {"mig-1g.10gb": ("MIG-x",)}},
            {"CUDA_VISIBLE_DEVICES": "GPU-1,MIG-x", "ARES_DEVICES_MIG_1G_10GB": "MIG-x"},
        ),
        ({"devices": {"tpu-v4": ("tpu0", "tpu3")}}, {"CUDA_VISIBLE_DEVICES": "", "ARES_DEVICES_TPU_V4": "tpu0,tpu3"}),
    ],
)
def test_a_rank_sees_its_own_devices_only(placement: dict[str, object], told: dict[str, str]) -> None:
    seen = job_environment({}, start(None, **placement), Folder("/a"), INFO)
    gpus = placement.get("gpus", ())
    assert isinstance(gpus, tuple)
    if gpus:
        # Numbers are by PCI address, whatever a job asks for; the UUIDs say the same without numbers.
        told = told | {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "ARES_GPU_UUIDS": ",".join(f"GPU-{at}" for at in gpus)}
    assert {name: value for name, value in seen.items() if name.startswith(("CUDA", "ARES_GPU", "ARES_DEV"))} == told


def test_numbers_of_gpus_are_by_pci_address_whatever_a_job_asks_for() -> None:
    spec = {"env": {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}}
    assert job_environment({}, start(spec, gpus=(1,)), Folder("/a"), INFO)["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert job_environment({}, start(spec), Folder("/a"), INFO)["CUDA_DEVICE_ORDER"] == "FASTEST_FIRST"


@pytest.mark.parametrize(("gpus", "nics"), [((0,), "mlx5_0"), ((1,), "mlx5_1"), ((0, 1), "mlx5_0,mlx5_1"), ((), None)])
def test_a_rank_is_told_the_network_cards_next_to_its_gpus(gpus: tuple[int, ...], nics: str | None) -> None:
    cards = (Nic(name="mlx5_0", links=("PIX", "SYS")), Nic(name="mlx5_1", links=("NODE", "PHB")), Nic(name="eth9"))
    info = replace(INFO, nics=cards)
    assert job_environment({}, start(None, gpus=gpus), Folder("/a"), info).get("ARES_NICS") == nics


@pytest.mark.parametrize(
    ("qos", "asked_mib", "limits"),
    [
        # Memory, CPU weight, CPU limit, place among those to end first.
        ("guaranteed", 600, (600, 500, 500, 0)),
        ("burstable", 300, (600, 500, 0, 300)),
        ("burstable", 600, (1000, 500, 0, 300)),
        ("best-effort", 600, (1000, 1, 0, 1000)),
        # A bound that quotas count: not all that the node has.
        ("best-effort", 100, (400, 1, 0, 1000)),
    ],
)
def test_each_class_holds_what_it_asked_for_differently(qos: str, asked_mib: int, limits: tuple[int, ...]) -> None:
    launch = launch_of(start({"qos": qos}, memory_mib=asked_mib), Folder("/a"), INFO, AgentSettings(), 1.0)
    assert (launch.memory_mib, launch.cpu_milli, launch.cpu_limit_milli, launch.oom_score_adj) == limits


@pytest.mark.parametrize(
    ("numa", "policy", "pin"),
    [
        (None, "required", None),
        (1, "required", Pin(1, (4, 5), True)),
        (1, "preferred", Pin(1, (4, 5), False)),
        (7, "required", Pin(7, (), True)),
    ],
)
def test_a_placement_on_a_numa_node_is_pinned_to_it(numa: int | None, policy: str, pin: Pin | None) -> None:
    assert launch_of(start({"numa": policy}, numa=numa), Folder("/a"), INFO, AgentSettings(), 1.0).pin == pin


def test_a_file_replaces_whatever_is_in_its_way(tmp_path: Path) -> None:
    path, victim = tmp_path / "world.json", tmp_path / "victim"
    victim.write_text("untouched")
    for name in ("world.json", "world.json.new"):
        (tmp_path / name).symlink_to(victim)
    write_whole(str(path), b"told")
    assert (path.read_text(), victim.read_text()) == ("told", "untouched")
    assert not path.is_symlink()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["victim", "world.json"]
