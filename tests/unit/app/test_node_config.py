"""What an agent says about its machine: from file, environment and command line."""

from pathlib import Path
from typing import Any

import pytest

from ares.app import agent
from ares.app.config import ConfigError, load
from ares.model.node import NodeInfo, Taint

FILE = """\
[node]
mock_gpu = "h100-mig"
address = "10.0.0.7"
rack = "r1"
zone = "z1"
region = "eu"
network_gbps = 400
taints = ["reserved=team-a:no-schedule", "slow:prefer-not", "broken"]
datasets = ["imagenet", "laion/2b"]
[node.labels]
"site.example/row" = "7"
[node.devices]
tpu-v4 = ["tpu0", "tpu1"]
"mig-1g.10gb" = ["declared"]
"""


def described(home: Path, text: str = "", env: dict[str, str] | None = None, **flags: Any) -> NodeInfo:
    (home / "ares.toml").write_text(text)
    dotted = {f"node.{key}": value for key, value in flags.items()}
    return agent._describe(load(None, dotted, {"ARES_HOME": str(home), **(env or {})}), "n")


def test_a_file_describes_the_node(tmp_path: Path) -> None:
    info = described(tmp_path, FILE)
    assert (info.address, info.rack, info.zone, info.region, info.network_gbps) == ("10.0.0.7", "r1", "z1", "eu", 400.0)
    assert info.taints == (
        Taint(key="reserved", value="team-a"),
        Taint(key="slow", effect="prefer-not"),
        Taint(key="broken"),
    )
    assert info.datasets == ("imagenet", "laion/2b")
    assert info.labels == {"site.example/row": "7"}
    # Declared devices come on top of found ones; the operator has the last word on a kind.
    assert info.devices["tpu-v4"] == ("tpu0", "tpu1")
    assert info.devices["mig-1g.10gb"] == ("declared",)
    assert len(info.devices["mig-3g.40gb"]) == 1
    assert info.gpu_links == (("X", "NV18"), ("NV18", "X"))


def test_environment_and_flags_go_over_the_file(tmp_path: Path) -> None:
    env = {
        "ARES_NODE__RACK": "r2",
        "ARES_NODE__TAINTS": "a=b:prefer-not, c",
        "ARES_NODE__DEVICES": "fpga=f0 f1, tpu-v4=t9",
        "ARES_NODE__LABELS": "row=8,empty=",
        "ARES_NODE__NETWORK_GBPS": "12.5",
    }
    info = described(tmp_path, FILE, env, rack="r3", datasets="one,two")
    assert (info.rack, info.network_gbps, info.datasets) == ("r3", 12.5, ("one", "two"))
    assert info.taints == (Taint(key="a", value="b", effect="prefer-not"), Taint(key="c"))
    assert (info.devices["fpga"], info.devices["tpu-v4"]) == (("f0", "f1"), ("t9",))
    assert info.labels == {"row": "8", "empty": ""}


def test_defaults(tmp_path: Path) -> None:
    info = described(tmp_path)
    assert (info.address, info.rack, info.taints, info.devices) == ("127.0.0.1", "", (), {})


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"taints": "a=b:never"}, "node.taints.*'a=b:never' is not a taint"),
        ({"taints": ["=b"]}, "node.taints"),
        ({"taints": [7]}, "7 is not a taint"),
        ({"taints": ["bad key:no-schedule"]}, "taints"),
        ({"devices": "tpu"}, "node.devices.*'tpu' is not key=value"),
        ({"devices": "TPU=t0"}, "devices"),
        ({"devices": {"tpu": ["t0", "t0"]}}, "tpu names a device twice"),
        ({"labels": "a=1,a=2"}, "each key once"),
        ({"network_gbps": "-1"}, "networkGbps|network_gbps"),
        ({"network_gbps": "fast"}, "network_gbps"),
        ({"rack": "a\nb"}, "rack"),
        ({"address": "10.0.0.1 --evil"}, "address"),
        ({"datasets": ["a b"]}, "datasets"),
        ({"mock_gpu": "dgx-z"}, "node.mock_gpu.*dgx-a100"),
        ({"nccl_topology": "/nowhere/topo.xml"}, "node.nccl_topology: cannot read /nowhere/topo.xml"),
        ({"raack": "r1"}, "raack"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, flags: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        described(tmp_path, **flags)


@pytest.mark.parametrize("planners", ["0", "17", "many"])
def test_planners_are_bounded(tmp_path: Path, planners: str) -> None:
    with pytest.raises(ConfigError, match=r"scheduler\.planners"):
        load(None, {"home": str(tmp_path), "scheduler.planners": planners}, {})
    assert load(None, {"home": str(tmp_path)}, {"ARES_SCHEDULER__PLANNERS": "4"}).scheduler.planners == 4
