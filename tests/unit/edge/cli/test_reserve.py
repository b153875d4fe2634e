"""`ares reserve`, `reservations`, `reservation` and `pools` against scripted answers."""

import json
import time
from datetime import datetime
from typing import Any

import pytest

from ares.edge.client.calls import reservations
from ares.edge.client.errors import InvalidBooking
from tests.unit.edge.cli.conftest import Ares
from tests.unit.edge.client.stub import Say, Stub, problem

START = datetime.fromisoformat("2026-12-01T14:00").timestamp()
DEMO: dict[str, Any] = {
    "name": "demo", "tenant": "alpha", "state": "active", "start": START, "until": START + 14_400,
    "gpus": 8, "cpuMilli": 96_000, "memoryMib": 524_288, "createdBy": "ops", "note": "for the board",
    "unusedReleaseS": 600.0, "running": 1, "waiting": 2, "strangers": 1, "teams": ["vision"],
    "placements": [{"node": "gpu-07", "incarnation": 0, "cpuMilli": 96_000, "memoryMib": 524_288, "gpus": [0, 1, 2]}],
    "history": [{"at": START, "state": "planned", "by": "ops", "why": "for the board"}],
}  # fmt: skip
OTHER = {"name": "", "state": "planned", "start": START, "until": START + 60, "gpus": 4}


def test_what_is_asked_for_is_what_is_sent(stub: Stub, ares: Ares) -> None:
    stub.on("POST", "/v1/reservations", Say(DEMO, 201))
    done = ares(
        "reserve", "--gpus", "64", "--gpu-model", "H100", "--cpus", "1.5", "--memory", "2G", "--pool", "gold",
        "--from", "2026-12-01T14:00", "--for", "4h", "--tenant", "alpha", "--team", "vision", "--user", "ci",
        "--name", "demo", "--note", "for the board", "--release-unused", "0",
    )  # fmt: skip
    assert done.out == (
        "reserved demo: 8 GPUs, 96 CPUs, 512Gi on gpu-07, from 2026-12-01 14:00 until 2026-12-01 18:00\n"
    )
    (asked,) = stub.requests("POST", "/v1/reservations")
    assert asked.body == {
        "asked": {"gpus": 64, "gpuModel": "H100", "cpuMilli": 1500, "memoryMib": 2048, "pool": "gold"},
        "lengthS": 14_400.0, "start": START, "tenant": "alpha", "teams": ["vision"], "users": ["ci"],
        "name": "demo", "note": "for the board", "unusedReleaseS": 0.0,
    }  # fmt: skip


def test_from_now_on_leaves_the_start_to_the_server(stub: Stub, ares: Ares) -> None:
    stub.on("POST", "/v1/reservations", Say(DEMO, 201))
    assert ares("reserve", "--node", "a", "--node", "b", "--for", "30m", "-o", "name").out == "demo\n"
    (asked,) = stub.requests("POST", "/v1/reservations")
    assert asked.body == {"asked": {"nodeNames": ["a", "b"]}, "lengthS": 1800.0, "teams": [], "users": [], "note": ""}


def test_moments(stub: Stub) -> None:
    before = time.time()
    at = reservations.moment("+2h")
    assert at is not None
    assert before + 7200 <= at <= time.time() + 7200
    assert reservations.moment("now") is None
    assert reservations.moment("2026-12-01T14:00+00:00") == 1_796_133_600.0
    with pytest.raises(InvalidBooking, match="This cannot be booked: 'tomorrow' is no moment"):
        reservations.moment("tomorrow")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"length": "4"}, "duration 4 has no unit"),
        ({"length": "4h", "memory": "5"}, "memory 5 has no unit"),
        ({"length": "4h", "start": "soon"}, "'soon' is no moment"),
        ({}, "no length is given"),
        ({"length": "0"}, "a reservation of 0 s holds nothing"),
    ],
)
def test_what_cannot_be_read_is_no_job(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidBooking, match=f"This cannot be booked: {words}"):
        reservations.reserve(gpus=1, **wrong)


def test_a_refusal_offers_what_would_do(stub: Stub, ares: Ares) -> None:
    said = problem(409, "reservation-no-room", "of 64 GPUs 48 can be had", "begin at 16:30 UTC or book 48 GPUs")
    stub.on("POST", "/v1/reservations", said)
    done = ares("reserve", "--gpus", "64", "--for", "4h")
    assert done.code != 0
    assert done.err.endswith("of 64 GPUs 48 can be had\nfix: begin at 16:30 UTC or book 48 GPUs\n")


def test_the_list_names_only_ones_own(stub: Stub, ares: Ares) -> None:
    stub.on("GET", "/v1/reservations", {"reservations": [DEMO, OTHER]})
    _, first, second = ares("reservations").out.splitlines()
    assert first.split()[:4] == ["demo", "active", "alpha", "8"]
    assert first.endswith("1 running, 2 waiting")
    assert second.startswith("(of another tenant)  planned")
    assert ares("reservations", "--all", "-o", "name").out == "demo\n"
    assert stub.requests("GET", "/v1/reservations")[-1].query == {"over": "true"}
    assert len(json.loads(ares("reservations", "-o", "json").out)["reservations"]) == 2


def test_one_is_shown_extended_and_cancelled(stub: Stub, ares: Ares) -> None:
    stub.on("GET", "/v1/reservations/demo", DEMO)
    stub.on("POST", "/v1/reservations/demo/extend", DEMO)
    stub.on("DELETE", "/v1/reservations/demo", {**DEMO, "state": "cancelled"})
    page = ares("reservation", "show", "demo").out
    for words in (
        "alpha: team vision",
        "1 jobs that do not belong there",
        "0,1,2",
        "for the board",
        "after 10m unused",
    ):
        assert words in page
    assert ares("reservation", "extend", "demo", "--for", "2h").out == "demo lasts until 2026-12-01 18:00\n"
    assert stub.requests("POST", "/v1/reservations/demo/extend")[0].body == {"moreS": 7200.0}
    gone = ares("reservation", "cancel", "demo", "--reason", "rain")
    assert gone.out == "demo cancelled; 1 running go on, 2 waiting wait for any room\n"
    assert stub.requests("DELETE", "/v1/reservations/demo")[0].query == {"reason": "rain"}


POOL: dict[str, Any] = {
    "name": "gold", "nodes": 3, "readyNodes": 2, "drainedNodes": 1, "gpus": 24, "gpusFree": 6, "gpusHeld": 16,
    "gpusReserved": 8, "runningJobs": 4, "pendingJobs": 7, "terms": {"gpuHour": 2.5, "spot": True},
    "gpuModels": {"H100": 24},
    "reservations": [{"name": "demo", "state": "active", "start": START, "until": START + 60, "gpus": 8}],
    "promises": [{"job": "4f2k", "start": 4e9, "until": None, "gpus": 4.0, "nodes": 1}],
    "shapes": [
        {"shape": {"words": "4 GPUs"}, "starts": {"earliest": 5.0, "latest": 5.0, "basis": "there is room now"}},
        {"shape": {"words": "1 whole node"}, "starts": None, "never": "no node has as many CPUs"},
    ],
}  # fmt: skip


def test_a_pool_is_shown_with_what_is_held_in_it(stub: Stub, ares: Ares) -> None:
    stub.on("GET", "/v1/nodepools/gold", POOL)
    page = ares("pools", "gold").out
    for words in (
        "2 of 3 ready, 1 drained", "24: 6 free, 16 held, 0 kept for jobs that others leave for, 8 reserved",
        "2.5 a GPU-hour, 0 a CPU-hour, spot", "there is room now", "no node has as many CPUs", "demo", "4f2k",
    ):  # fmt: skip
        assert words in page, words


def test_a_size_is_asked_about_in_all_pools(stub: Stub, ares: Ares) -> None:
    stub.on("GET", "/v1/nodepools", {"nodepools": [POOL]})
    header, row = ares("pools", "--gpus", "4", "--ranks", "2", "--runtime", "2h", "--memory", "1G").out.splitlines()
    assert row.split()[:7] == ["gold", "2/3", "0/0", "0Mi/0Mi", "6/24", "8", "7"]
    assert row[header.index("STARTS") :].split()[0] == "now"
    assert stub.requests("GET", "/v1/nodepools")[0].query == {
        "gpus": "4", "ranks": "2", "runtimeS": "7200.0", "memoryMib": "1024",
    }  # fmt: skip
