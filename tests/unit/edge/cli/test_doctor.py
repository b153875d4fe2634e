"""What `ares doctor` finds, and how it says what to do."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ares.app.up import LOG_FILE
from ares.model.isolation import BOX
from tests.unit.edge.client.stub import Say, Stub

Ares = Callable[..., Any]
WELL = [*BOX, "cgroup-v2", "images"]
CHECKS = {"store": "following", "leader": "r1", "disk_free_mib": "5000", "clock": "4600.0"}
ME = {"tenant": "default", "role": "admin", "name": "", "tokenId": "t", "user": "ada", "team": None, "proof": "token",
      "home": "", "expiresAt": None, "permissions": {}}  # fmt: skip
GPU = {"index": 0, "uuid": "u", "model": "A100", "memoryMib": 1, "vendor": "mock"}


def node(name: str, *, sandbox: list[str] = WELL, ready: bool = True, gpus: tuple[Any, ...] = ()) -> dict[str, Any]:
    info = {"name": name, "cpuMilli": 1000, "memoryMib": 1024, "sandbox": sandbox, "gpus": list(gpus)}
    return {"name": name, "info": info, "ready": ready}


def planners(*, lost: int = 0, parts: int = 0, conflicts: int = 0) -> dict[str, str]:
    """What a leader with several planners says."""
    counts = {"planners": 4, "planners_lost": lost, "plan_parts": parts, "plan_conflicts": conflicts}
    return {"leading": "yes", **{name: str(count) for name, count in counts.items()}}


def answers(stub: Stub, *nodes: dict[str, Any], checks: dict[str, str] = CHECKS) -> None:
    stub.on("GET", "/readyz", {"status": "ready", "checks": checks})
    stub.on("GET", "/v1/whoami", ME)
    stub.on("GET", "/v1/nodes", {"nodes": list(nodes)})
    stub.on("GET", "/v1/transfers", {"transfers": []})


def found(done: Any) -> dict[str, tuple[str, str]]:
    return {one["check"]: (one["status"], one["fix"]) for one in json.loads(done.out)["findings"]}


@pytest.mark.usefixtures("now")
def test_all_is_well(stub: Stub, ares: Ares) -> None:
    answers(stub, node("a"), node("b"))
    done = ares("doctor")
    assert done.code == 0, done
    assert {line.split()[0] for line in done.out.splitlines()} == {"ok"}
    assert ares("doctor", "-o", "name").out == ""


@pytest.mark.usefixtures("now")
@pytest.mark.parametrize(
    ("nodes", "checks", "check", "status", "fix"),
    [
        ([node("a", gpus=(GPU,))], {}, "mock-gpus", "note", "nvidia-smi"),
        ([node("a", sandbox=list(BOX))], {}, "limits", "warning", "Delegate=yes"),
        ([node("a", sandbox=[])], {}, "sandbox", "warning", "user namespaces"),
        ([node("a", sandbox=[*BOX, "cgroup-v2"])], {}, "images", "note", "Linux 5.12"),
        ([node("a"), node("b", ready=False)], {}, "nodes", "warning", "agent's terminal"),
        ([node("a", ready=False)], {}, "nodes", "failed", "agent's terminal"),
        ([], {}, "nodes", "failed", "ares agent"),
        ([node("a")], {"clock": "4500.0"}, "clock", "warning", "NTP"),
        ([node("a")], {"clock": "4700.0"}, "clock", "warning", "NTP"),
        ([node("a")], {"disk_reserve": "home: 12 MiB are left"}, "disk", "warning", "free some"),
        ([node("a")], {"leader": "none"}, "leader", "failed", "wait"),
        ([node("a")], {"plugins": "refused: x"}, "plugins", "warning", "ares plugins"),
        ([node("a")], {"records_set_aside": "2"}, "records", "warning", "ares verify"),
        ([node("a")], planners(lost=1), "planners", "warning", "replaced within seconds"),
        ([node("a")], planners(parts=1000, conflicts=201), "planners", "warning", "fewer planners"),
    ],
)
def test_each_trouble_has_a_name_and_a_mend(
    stub: Stub, ares: Ares, nodes: list[Any], checks: dict[str, str], check: str, status: str, fix: str
) -> None:
    answers(stub, *nodes, checks={**CHECKS, **checks})
    done = ares("doctor", "-o", "json")
    told = found(done)[check]
    assert (told[0], fix in told[1]) == (status, True), done.out
    assert done.code == (1 if status == "failed" else 0)
    assert check in ares("doctor", "-o", "name").out.split()


@pytest.mark.usefixtures("now")
@pytest.mark.parametrize(("parts", "conflicts"), [(1000, 199), (90, 80), (0, 0)])
def test_planners_that_seldom_collide_are_well(stub: Stub, ares: Ares, parts: int, conflicts: int) -> None:
    answers(stub, node("a"), checks={**CHECKS, **planners(parts=parts, conflicts=conflicts)})
    assert found(ares("doctor", "-o", "json"))["planners"] == ("ok", "")


def test_a_server_that_is_not_ready_says_what_it_lacks(stub: Stub, ares: Ares) -> None:
    stub.on("GET", "/readyz", Say({"status": "not ready", "checks": {"store": "unreachable"}}, 503))
    done = ares("doctor")
    assert (done.code, "store: unreachable" in done.out) == (1, True), done


def test_why_the_own_platform_is_not_there(ares: Ares, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ARES_HOME", str(tmp_path))
    monkeypatch.delenv("ARES_URL", raising=False)
    monkeypatch.delenv("ARES_TOKEN", raising=False)
    (tmp_path / LOG_FILE).write_text("{}\nerror: etcd at e:1 is version 3.4.1, older than 3.4.22\nfix: install 3.5.6\n")
    done = ares("doctor")
    assert done.code == 1
    assert "etcd at e:1 is version 3.4.1" in done.out
    assert "fix: install 3.5.6" in done.out
