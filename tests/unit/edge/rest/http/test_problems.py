"""Error codes and their documentation agree."""

import re
from pathlib import Path
from typing import get_args

import ares
from ares.api.quotas import LevelUse
from ares.core.quota.judge import OverQuota
from ares.core.refusal import Refusal, RefusalCode
from ares.edge.rest.http.problems import KINDS, Problem, not_found, problem_of

ROOT = Path(ares.__file__).parents[2]
ENTRY = re.compile(r"^### `([a-z0-9-]+)` \((\d{3})\)$", re.M)


def test_every_code_is_documented_with_its_status() -> None:
    documented = {code: int(status) for code, status in ENTRY.findall((ROOT / "docs/errors.md").read_text())}
    assert documented == {code: kind.status for code, kind in KINDS.items()}


def test_every_entry_says_something() -> None:
    sections = re.split(r"^### .*$", (ROOT / "docs/errors.md").read_text(), flags=re.M)[1:]
    assert all(len(section.split()) > 10 for section in sections)


def test_codes_used_in_the_code_exist() -> None:
    used: set[str] = set()
    for path in Path(ares.__file__).parent.rglob("edge/rest/**/*.py"):
        used |= set(re.findall(r'Problem\(\s*"([a-z-]+)"', path.read_text()))
    assert used - KINDS.keys() == set()
    assert len(used) > 15


def test_every_refusal_has_a_status_and_a_title() -> None:
    """Goal: no service refuses by a code that the API does not know. Method: the codes of the type, mapped each."""
    codes: list[RefusalCode] = [code for kind in get_args(RefusalCode) for code in get_args(kind) or (kind,)]
    assert len(codes) > 60
    for code in codes:
        problem = problem_of(Refusal(code=code, message="m", fix="f", reason="r", path="$.p"))
        assert problem.document()["detail"] == "m", code
        assert (problem.fix, problem.reason, problem.path, problem.headers) == ("f", "r", "$.p", {})


def test_a_refusal_says_when_to_try_again_and_what_is_used() -> None:
    use = LevelUse(level="tenant", name="a", measure="gpus", asked=1, used=4, limit=4, soft=None, free=0)
    problem = problem_of(OverQuota(code="quota-exceeded", levels=(use,), retry_after_s=12.4))
    assert problem.headers == {"retry-after": "12"}
    assert problem.document()["quota"] == (use,)


def test_a_problem_is_a_whole_document() -> None:
    problem = Problem("invalid", detail="too big", path="$.spec.graceS")
    assert problem.document("/v1/jobs") == {
        "type": "urn:ares:error:invalid",
        "title": KINDS["invalid"].title,
        "status": 422,
        "code": "invalid",
        "fix": KINDS["invalid"].fix,
        "detail": "too big",
        "instance": "/v1/jobs",
        "path": "$.spec.graceS",
    }


def test_missing_objects_are_all_the_same() -> None:
    assert not_found().body("/v1/jobs/a") == not_found().body("/v1/jobs/b")
