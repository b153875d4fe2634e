"""`ares profile`, `plugins`, `node drain` and `consolidate` against scripted answers."""

import json
from pathlib import Path
from typing import Any

import pytest

from ares.core.schedule.profiles import BadSetting, changed
from ares.edge.cli.commands.profile import flat
from ares.model.profile import Profile, Share
from tests.unit.edge.cli.conftest import Ares
from tests.unit.edge.client.stub import Stub, problem

RECORD: dict[str, Any] = {
    "version": 4, "by": "ops", "at": 1000.0, "note": "calm",
    "profile": {"preemption": {"gap": 3}, "shares": {"alpha": {"weight": 2.0, "hard": {"gpu": 8000}}}},
}  # fmt: skip
PLAN: dict[str, Any] = {
    "revision": "5d0c7be2", "gpus": 8, "nodes": 1, "lostGpuS": 1240.0, "before": 0, "after": 1, "message": "",
    "moves": [
        {"job": "4f2k", "name": "eval", "tenant": "alpha", "gpus": 2, "origin": ["a"], "to": ["b"], "lostGpuS": 1240},
    ],
}  # fmt: skip


def test_a_profile_is_shown_as_settings_that_can_be_set(stub: Stub, ares: Ares) -> None:
    stub.on("GET", "/v1/profile", RECORD)
    lines = ares("profile", "show").out.splitlines()
    assert lines[0] == "# version 4, by ops: calm"
    assert {"preemption.gap=3", "shares.alpha.weight=2", "shares.alpha.hard.gpu=8000", "weight.fit=0.3"} <= set(lines)
    settings = dict(line.split("=", 1) for line in lines[1:])
    profile = Profile(shares={"alpha": Share(weight=2.0, hard={"gpu": 8000})})
    assert flat(changed(Profile(), settings)) == settings
    assert changed(Profile(), settings).shares == profile.shares


def test_settings_are_sent_as_they_are_written(stub: Stub, ares: Ares) -> None:
    stub.on("PATCH", "/v1/profile", {**RECORD, "version": 5})
    done = ares("profile", "set", "weight.cost=0.3", "shares.alpha=", "--note", "why", "--expect", "4")
    assert done.out == "version 5 is in force; `ares profile revert 4` takes it back\n"
    (asked,) = stub.requests("PATCH", "/v1/profile")
    assert asked.body == {
        "settings": {"weight.cost": "0.3", "shares.alpha": ""}, "note": "why", "expectedVersion": 4,
    }  # fmt: skip


def test_a_refused_change_says_why_and_fails(stub: Stub, ares: Ares) -> None:
    stub.on("PATCH", "/v1/profile", problem(409, "profile-conflict", "version 5 by ops is in force", "look at it"))
    done = ares("profile", "set", "weight.cost=1")
    assert done.code != 0
    assert "version 5 by ops is in force\nfix: look at it\n" in done.err


def test_a_file_with_a_version_replaces_that_version_only(stub: Stub, ares: Ares, tmp_path: Path) -> None:
    stub.on("PUT", "/v1/profile", {**RECORD, "version": 5})
    file = tmp_path / "profile.yaml"
    file.write_text("version: 4\nprofile:\n  preemption: {gap: 1}\n")
    assert ares("profile", "edit", "-f", str(file)).code == 0
    file.write_text("preemption: {gap: 2}\n")
    assert ares("profile", "edit", "-f", str(file)).code == 0
    first, second = stub.requests("PUT", "/v1/profile")
    assert first.body == {"profile": {"preemption": {"gap": 1}}, "note": "", "expectedVersion": 4}
    assert second.body == {"profile": {"preemption": {"gap": 2}}, "note": ""}
    file.write_text("just text")
    assert "holds no profile" in ares("profile", "edit", "-f", str(file)).err


@pytest.mark.usefixtures("now")
def test_versions_are_listed_and_compared(stub: Stub, ares: Ares) -> None:
    stub.on("GET", "/v1/profiles", {"profiles": [RECORD]})
    assert ares("profile", "history").out.splitlines()[1].split() == ["4", "1h", "ops", "calm"]
    assert ares("profile", "diff", "0", "4").out.splitlines() == [
        "- preemption.gap=2", "+ preemption.gap=3", "+ shares.alpha.weight=2", "+ shares.alpha.hard.gpu=8000",
    ]  # fmt: skip
    changed = json.loads(ares("profile", "diff", "0", "4", "-o", "json").out)
    assert (changed["preemption.gap"], changed["shares.alpha.weight"]) == (
        {"old": "2", "new": "3"},
        {"old": None, "new": "2"},
    )
    assert "version 9 is not kept" in ares("profile", "diff", "9", "4").err


def test_plugins_with_what_was_refused(stub: Stub, ares: Ares) -> None:
    stub.on(
        "GET", "/v1/plugins",
        {
            "plugins": [{"kind": "scorer", "name": "even-racks", "origin": "third 1.0", "used": True}],
            "refused": [{"kind": "filter", "name": "bad", "origin": "third 1.0", "error": "ImportError: x"}],
            "missing": ["moon"],
        },
    )  # fmt: skip
    done = ares("plugins")
    assert done.out.splitlines()[1].split() == ["scorer", "even-racks", "yes", "third", "1.0"]
    assert "refused: filter bad of third 1.0: ImportError: x" in done.err
    assert "'moon', which is not installed" in done.err


def test_a_drain_that_is_waited_for_says_what_changed(stub: Stub, ares: Ares, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ares.edge.cli.commands.drain._POLL_S", 0.0)
    status = {"node": "n", "by": "ops", "jobs": 2}
    two = {**status, "left": [{"job": "a"}, {"job": "b"}], "message": "2 of 2 jobs still there"}
    stub.on("POST", "/v1/nodes/n/drain", two)
    done = {**status, "done": True, "message": "done: nothing is left of 2 jobs"}
    stub.on("GET", "/v1/nodes/n/drain", two, {**two, "message": "1 of 2 jobs still there"}, done)
    said = ares("node", "drain", "n", "--reason", "disk", "--wait")
    assert said.out.splitlines() == [
        "n: 2 of 2 jobs still there", "n: 1 of 2 jobs still there", "n: done: nothing is left of 2 jobs",
    ]  # fmt: skip
    assert stub.requests("POST", "/v1/nodes/n/drain")[0].body == {"reason": "disk"}


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("a=b:prefer-not", {"key": "a", "value": "b", "effect": "prefer-not"}),
        ("a", {"key": "a", "value": "", "effect": "no-schedule"}),
        ("a=b=c", {"key": "a", "value": "b=c", "effect": "no-schedule"}),
    ],
)
def test_a_taint_as_it_is_written(stub: Stub, ares: Ares, text: str, sent: dict[str, str]) -> None:
    stub.on("POST", "/v1/nodes/n/taints", {"name": "n", "info": {"name": "n", "cpuMilli": 1, "memoryMib": 1}})
    assert ares("node", "taint", "n", text).code == 0
    assert stub.requests("POST", "/v1/nodes/n/taints")[0].body == sent


def test_an_effect_nobody_knows_is_refused_with_those_there_are(stub: Stub, ares: Ares) -> None:
    done = ares("node", "taint", "n", "a=b:foo")
    assert (done.code, "no effect 'foo'; it is no-schedule or prefer-not" in done.err) == (2, True)
    assert stub.asked == []


@pytest.mark.parametrize(
    ("before", "asked", "code"),
    [(0, (), 3), (1, (), 0), (0, ("--apply", "5d0c"), 1)],
)
def test_without_moves_the_exit_code_tells_no_plan_from_room_that_is_there(
    stub: Stub, ares: Ares, before: int, asked: tuple[str, ...], code: int
) -> None:
    stub.on("POST", "/v1/consolidations", {**PLAN, "moves": [], "before": before, "after": before, "message": "why"})
    done = ares("consolidate", "--gpus", "8", *asked)
    assert (done.code, done.out) == (code, "why\n")


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("weight.cost", "abc", "weight.cost=abc does not fit: weight.cost is a number"),
        ("weight.cost", "-1", "weight.cost=-1 does not fit: weight.cost is a number of at least 0"),
        ("licences.x", "-1", "licences.x=-1 does not fit: licences.x is a whole number of at least 0"),
        ("preemption.gap", "9", "preemption.gap=9 does not fit: preemption.gap is a whole number of at most 5"),
        (
            "prediction.correction",
            "x",
            "prediction.correction=x does not fit: prediction.correction is one of limit, steps",
        ),
        ("slas.gold", "3", "slas.gold: say what of it: end_within_s or start_within_s"),
        ("pools.p.spot", "maybe", "pools.p.spot=maybe does not fit: pools.p.spot is true or false"),
    ],
)
def test_a_setting_that_does_not_fit_is_named_as_typed(key: str, value: str, said: str) -> None:
    with pytest.raises(BadSetting) as refused:
        changed(Profile(), {"order.ageing_s": "60", key: value, "licences.y": "2"})
    assert str(refused.value) == said


def test_a_plan_is_shown_with_its_cost_and_how_to_carry_it_out(stub: Stub, ares: Ares) -> None:
    stub.on("POST", "/v1/consolidations", PLAN)
    lines = ares("consolidate", "--gpus", "8").out.splitlines()
    assert lines[1].split() == ["4f2k", "eval", "alpha", "2", "a", "b", "1,240"]
    assert "0 now, 1 after 1 move; 1,240 GPU-seconds" in lines[2]
    assert lines[-1].endswith("ares consolidate --gpus 8 --nodes 1 --apply 5d0c7be2")


def test_a_plan_that_was_not_carried_out_is_a_failure(stub: Stub, ares: Ares) -> None:
    stub.on("POST", "/v1/consolidations", {**PLAN, "message": "nothing was moved"}, {**PLAN, "applied": True})
    first = ares("consolidate", "--gpus", "8", "--apply", "5d0c")
    assert (first.code, "nothing was moved" in first.out) == (1, True)
    second = ares("consolidate", "--gpus", "8", "--apply", "5d0c")
    assert (second.code, "--apply" in second.out) == (0, False)
    assert stub.requests("POST", "/v1/consolidations")[0].body["apply"] is True
