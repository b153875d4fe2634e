"""Answers of servers of other versions are read all the same, and what is no answer is refused."""

from typing import Any

import msgspec
import pytest

from ares.api.deadlines import DeadlineSeen, SlaView
from ares.api.decisions import Eta, Explanation, FactorShown, PlanAnswer
from ares.api.reasons import Reason
from ares.edge.client.reader import read
from ares.model.state import Phase


def test_words_and_fields_of_a_newer_server() -> None:
    raw = {
        "job": "j", "phase": "HIBERNATING", "at": 1, "new": True,
        "reason": {"code": "NO_MOON", "message": "m", "numbers": {"asked": 2}},
        "remedy": "pray",
        "factors": [{"name": "age", "value": 1, "weight": 2.0, "product": 2.0, "sum": "tertiary"}],
    }  # fmt: skip
    found = read(raw, Explanation)
    assert found.phase == "HIBERNATING"
    assert found.reason == Reason(code="NO_MOON", message="m", numbers={"asked": 2})  # pyright: ignore[reportArgumentType]
    assert (found.remedy, found.at, found.change) == ("pray", 1.0, None)
    assert found.factors == (
        FactorShown(name="age", value=1.0, weight=2.0, product=2.0, sum="tertiary"),  # pyright: ignore[reportArgumentType]
    )
    assert read({"HIBERNATING": 2}, dict[Phase, int]) == {"HIBERNATING": 2}


def test_fields_an_older_server_does_not_know_are_empty() -> None:
    assert read({"earliest": 5.0}, Eta) == Eta(earliest=5.0, latest=None, basis="", computed_at=0.0)
    plan = read({"startsNow": True, "deadline": {"message": "m"}}, PlanAnswer)
    assert (plan.starts_now, plan.revision, plan.offers) == (True, 0, ())
    assert plan.deadline == DeadlineSeen(verdict="", message="m")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        ({}, Explanation),
        ({"error": "proxy"}, PlanAnswer),
        ([], SlaView),
        ("text", tuple[SlaView, ...]),
        ({"name": 5}, SlaView),
        ({"name": "gold", "jobs": "many"}, SlaView),
        ({"name": "gold", "atRiskJobs": None}, SlaView),
        ({"job": "j", "phase": 7, "at": 1.0}, Explanation),
        ({"message": "m", "ways": [{}]}, DeadlineSeen),
    ],
)
def test_what_is_no_answer_is_refused(raw: Any, kind: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        read(raw, kind)
