"""The page about policies: its table is the code's, and each of its ten rules does what it says."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from msgspec.structs import replace

from ares.adapters.policy import CelRules
from ares.control.governance.policies import Policies
from ares.control.governance.policy_gate import Judging, Submission
from ares.core.policy.facts import NAMES
from ares.core.policy.setting import FIELDS
from ares.model.access import Principal
from ares.model.job import JobSpec, Resources
from ares.model.policy import Mistake, Policy
from tests.world import World

PAGE = (Path(__file__).parents[4] / "docs/concepts/policies.md").read_text()
RULES = {
    one.name: one
    for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    for one in [msgspec.convert(yaml.safe_load(text), Policy)]
}
# Sunday and Monday, 12:00 UTC.
SUNDAY, MONDAY = 1_794_744_000.0, 1_794_830_400.0
ANN = Principal(token_id="t", tenant="acme", role="submitter", user="ann", team="vision")
EVE = replace(ANN, user="eve")
PLAIN = JobSpec(command=("python", "train.py"), labels={"owner": "ann"}, time_limit_s=60.0)
CRITICAL = replace(PLAIN, priority="CRITICAL")
FULL = {"tenant.gpus": 70.0, "tenant.gpus_quota": 100.0}


def gpus(count: int, **changes: Any) -> JobSpec:
    return replace(PLAIN, resources=Resources(gpus=count, gpu_model=changes.pop("model", None)), **changes)


# For each rule a job it is true of, and one that it leaves alone.
CASES: dict[str, tuple[Submission, Submission]] = {
    "no-huge": (Submission(ANN, gpus(8), tasks=9), Submission(ANN, gpus(8), tasks=8)),
    "owner": (Submission(ANN, replace(PLAIN, labels={"owner": ""})), Submission(ANN, PLAIN)),
    "limit": (Submission(ANN, replace(PLAIN, time_limit_s=None)), Submission(ANN, PLAIN)),
    "cost-centre": (Submission(ANN, gpus(1, model="H100")), Submission(ANN, gpus(1, model="A100"))),
    "critical": (Submission(EVE, CRITICAL), Submission(ANN, CRITICAL)),
    "estimate": (Submission(ANN, gpus(8, time_limit_s=None)), Submission(ANN, gpus(8))),
    "no-sudo": (
        Submission(ANN, replace(PLAIN, command=("env", "/usr/bin/sudo"))),
        Submission(ANN, replace(PLAIN, command=("pseudo", "sudoku"))),
    ),
    "weekend": (
        Submission(ANN, gpus(9, preemption={"allowed": False}), at=SUNDAY),
        Submission(ANN, gpus(9, preemption={"allowed": False}), at=MONDAY),
    ),
    "dear": (
        Submission(ANN, PLAIN, cost=lambda: 101.0, tenant=lambda: {"tenant.budget": 1000.0}),
        Submission(ANN, PLAIN, cost=lambda: 99.0, tenant=lambda: {"tenant.budget": 1000.0}),
    ),
    "headroom": (
        Submission(ANN, gpus(8, preemption={"allowed": False}), tenant=lambda: FULL),
        Submission(ANN, gpus(8), tenant=lambda: FULL),
    ),
}  # fmt: skip


def whole(given: Submission) -> Submission:
    """With records where a case was written down with plain values."""
    spec = msgspec.json.decode(msgspec.json.encode(given.spec), type=JobSpec)
    return given._replace(spec=spec, at=given.at or MONDAY)


def test_there_are_ten_rules_and_a_case_for_each() -> None:
    assert len(RULES) == 10
    assert RULES.keys() == CASES.keys()


@pytest.mark.parametrize("name", CASES)
async def test_a_worked_rule_does_what_it_says_and_nothing_else(name: str) -> None:
    async with World() as world:
        judging = Judging(world.one.view, world.clock, CelRules())
        policies = Policies(world.store, world.one.view, world.clock, judging)
        rule = RULES[name]
        assert policies.check(rule) == ()
        saved = await policies.save(Principal(token_id="a", tenant="acme", role="tenant-admin"), rule)
        assert not isinstance(saved, Mistake)
        await world.settle()
        touched, spared = (judging.judge(whole(one)) for one in CASES[name])
        did = {
            "reject": touched.rejected, "warn": touched.warnings, "alert": touched.alerts,
            "set": touched.spec != whole(CASES[name][0]).spec,
        }  # fmt: skip
        assert did[rule.action]
        assert touched.rejected is None or not touched.rejected.unanswered
        assert (spared.rejected, spared.warnings, spared.alerts) == (None, (), ())
        assert spared.spec == whole(CASES[name][1]).spec


def test_the_page_has_every_name_with_its_type_and_every_field_that_may_be_set() -> None:
    rows = dict(re.findall(r"^\| `((?:job|user|tenant)\.\w+|now)` \| ([^|]+) \|", PAGE, re.MULTILINE))
    assert rows == {name: kind for name, (kind, _) in NAMES.items()}
    assert [name for name in FIELDS if f"`{name}`" not in PAGE] == []
