"""What `ares audit` says in words."""

from typing import Any

from ares.api.audit import AuditMonth, AuditSummary, ChainSeen, Happened
from ares.app.commands.audit import markdown, verdict


def state(**changes: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {
        "chain": "r1", "begins": 1, "ends": 9, "endsAt": 1.0, "signed": 9, "heads": 1, "broken": 0, "why": "",
        "missing": 0, "unsigned": [], "keys": [], "torn": 0,
    }  # fmt: skip
    return {**whole, **changes}


def test_each_verdict_says_what_holds_and_what_does_not() -> None:
    assert verdict(state()) == "r1: whole, 9 entries, signed up to 9"
    assert "no signed head" in verdict(state(signed=0))
    assert "from entry 5 on" in verdict(state(begins=5))
    assert "never finished (7 bytes)" in verdict(state(torn=7))
    assert verdict(state(unsigned=[3, 4])).endswith("heads without a valid signature: 3, 4")
    broken = verdict(state(broken=4, why="it is another", missing=2))
    assert broken == "r1: BROKEN at entry 4: it is another; 2 entries are missing; entries 1 to 3 hold"
    assert "no entry holds" in verdict(state(broken=1))


def test_a_month_is_a_page_in_which_nothing_that_people_wrote_breaks_out() -> None:
    glass = Happened(at=0.0, who="eve", operation="getJobLogs", object="jobs/1", reason="a | b\x1b[2J")
    summary = AuditSummary(
        tenant="acme", month="2026-11", entries=3, operations={"submitJob": {"ALLOW": 2, "DENY": 1}},
        denials={"quota": 1}, break_glass=(glass,), changes=(glass,) * 60, policy_violations=0,
        quota_rejections=1,
    )  # fmt: skip
    page = markdown(AuditMonth(summary=summary, chains=(ChainSeen(chain="r1", here=True),)))
    assert page[0] == "# Audit of acme, 2026-11"
    assert "| submitJob | 2 | 1 | 0 |" in page
    assert "- quota: 1" in page
    assert "- 1970-01-01 00:00:00Z eve getJobLogs jobs/1 a \\| b\\x1b[2J" in page
    assert "- and 10 more" in page
