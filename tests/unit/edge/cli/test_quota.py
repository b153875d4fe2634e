"""`ares quota`: what people read, what they write, and what is sent."""

import json
from collections.abc import Callable
from typing import Any

from tests.unit.edge.client.stub import Stub

Ares = Callable[..., Any]
PATH = "/v1/tenants/research/quota"
VIEW = {
    "tenant": "research",
    "quota": {
        "own": {"amounts": {"gpus": {"hard": 8.0, "soft": 6.0}}, "priority": "HIGH"},
        "threshold": 0.9,
        "overBudget": "stop",
    },
    "uses": [
        {"level": "tenant", "measure": "gpus", "used": 6.0, "limit": 8.0, "free": 1.0, "soft": 6.0},
        {"level": "tenant", "measure": "cpu", "used": 1234.5},
        {"level": "user", "name": "ada", "measure": "gpus", "used": 5.0, "limit": 4.0, "free": 0.0},
    ],
}
TABLE = """\
WHOSE     WHAT         USED     LIMIT  FREE  SOFT
research  gpus         6        8      1     6     [###############.....] 75%
research  cpu (cores)  1,234.5  -      -     -     -
user ada  gpus         5        4      0     -     [####################] 125%!
highest priority: HIGH
jobs are refused from 90% of a limit on; of GPUs and jobs all may be had
beyond its budget, jobs that cost something are stopped
"""


def test_limits_and_use_for_people_and_for_programs(stub: Stub, ares: Ares) -> None:
    stub.on("GET", "/v1/quota", VIEW)
    shown = ares("quota", "show").out
    assert "\n".join(line.rstrip() for line in shown.splitlines()) + "\n" == TABLE
    assert json.loads(ares("quota", "show", "-o", "json").out) == VIEW
    stub.on("GET", "/v1/quotas", {"quotas": [VIEW]})
    assert ares("quota", "list").out.splitlines()[1].split()[:5] == ["research", "1", "gpus", "125%", "HIGH"]


def test_settings_as_people_write_them(stub: Stub, ares: Ares) -> None:
    stub.on("PATCH", PATH, VIEW)
    settings = (
        "gpus=8",
        "soft.gpus=6",
        "gpus.A100 80GB=4",
        "memory=512G",
        "cpu=500m",
        "budget=1.5",
        "priority=high",
    )
    assert ares("quota", "set", "research", *settings, "threshold=1", "--note", "for the sweep").code == 0
    (sent,) = stub.requests("PATCH", PATH)
    assert sent.body == {
        "level": "tenant", "note": "for the sweep", "priority": "HIGH", "threshold": 1.0,
        "amounts": {
            "gpus": {"hard": 8.0, "soft": 6.0}, "gpus.A100 80GB": {"hard": 4.0}, "memory": {"hard": 512.0},
            "cpu": {"hard": 0.5}, "budget": {"hard": 1.5},
        },
    }  # fmt: skip


def test_limits_of_one_user_of_every_team_and_none_any_more(stub: Stub, ares: Ares) -> None:
    stub.on("PATCH", PATH, VIEW)
    stub.on("DELETE", PATH, VIEW)
    ares("quota", "set", "research", "gpus=2", "--user", "ada")
    ares("quota", "set", "research", "jobs=5", "--team", "*")
    ares("quota", "unset", "research", "gpus", "priority", "--user", "ada")
    one, every, none = [sent.body for sent in stub.requests("PATCH", PATH)]
    assert (one["level"], one["name"]) == ("user", "ada")
    assert (every["level"], "name" in every) == ("team", False)
    assert none == {"level": "user", "name": "ada", "amounts": {"gpus": None}, "priority": None}
    assert ares("quota", "unset", "research").code == 0
    assert len(stub.requests("DELETE", PATH)) == 1


def test_what_is_no_setting_is_said_before_anything_is_sent(stub: Stub, ares: Ares) -> None:
    for wrong, says in (
        (("gpus",), "write it like gpus=8"),
        (("gpus=many",), "is not a number"),
        (("memory=512",), "512G for gibibytes"),
        (("priority=URGENT",), "choose one of CRITICAL"),
        (("over-budget=never",), "choose one of warn, stop"),
        (("gpus=1", "--team", "a", "--user", "b"), "not of both"),
    ):
        done = ares("quota", "set", "research", *wrong)
        assert done.code in (1, 2), done
        assert says in done.err
    assert stub.requests("PATCH", PATH) == []
