"""Error codes and their documentation agree."""

import re
from pathlib import Path

import ares
from ares.edge.rest.http.problems import KINDS, Problem, not_found

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
