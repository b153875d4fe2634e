"""`ares audit` over several replicas, one of which is dead: the others are asked, and what was not is said."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.ports import free_ports
from tests.unit.edge.client.stub import Say, Stub, problem

Ares = Callable[..., Any]


def chains(*here: str) -> list[dict[str, Any]]:
    return [{"chain": name, "here": name in here} for name in ("r1", "r2", "r3")]


def entry(chain: str, seq: int) -> dict[str, Any]:
    return {
        "seq": seq, "prev": "", "at": float(seq), "chain": chain, "hash": "", "operation": "getJob", "outcome": "DENY",
        "reason": "role", "token": "t", "user": "", "role": "viewer", "tenant": "acme", "home": "", "glass": "",
        "object": "jobs/1", "made": [], "count": 1, "remote": "",
    }  # fmt: skip


def summed(chain: str, allowed: int, denied: int, at: float) -> dict[str, Any]:
    happened = {"at": at, "who": chain, "operation": "createToken"}
    return {
        "summary": {
            "tenant": "", "month": "2026-11", "entries": allowed + denied, "denials": {"role": denied}, "since": 1.0,
            "operations": {"getJob": {"DENY": denied}, f"only-{chain}": {"ALLOW": allowed}}, "changes": [happened],
            "breakGlass": [], "policyViolations": 1, "quotaRejections": 2, "leftOut": 0, "until": at,
        },
        "chains": chains(chain),
    }  # fmt: skip


def verified(chain: str) -> dict[str, Any]:
    report = {
        "chain": chain, "begins": 1, "ends": 9, "endsAt": 1.0, "signed": 9, "heads": 1, "broken": 0, "why": "",
        "missing": 0, "unsigned": [], "keys": [], "torn": 0,
    }  # fmt: skip
    return {"whole": True, "verified": [report], "chains": chains(chain)}


@pytest.fixture
def other(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    """The second of three replicas; the first is dead, and `stub` the third."""
    second = Stub()
    (port,) = free_ports(1)
    monkeypatch.setenv("ARES_URL", f"http://127.0.0.1:{port},{second.url},{stub.url}")
    yield second
    second.close()


def test_search_merges_those_that_answer(stub: Stub, other: Stub, ares: Ares) -> None:
    for server, name, seqs in ((other, "r2", (1, 4)), (stub, "r3", (2, 3))):
        page = {"entries": [entry(name, seq) for seq in seqs], "cursor": "", "chains": chains(name)}
        server.on("GET", "/v1/audit", page)
    done = ares("audit", "search", "-o", "json")
    found = json.loads(done.out)
    assert (done.code, [(one["chain"], one["seq"]) for one in found["entries"]]) == (
        0, [("r2", 4), ("r3", 3), ("r3", 2), ("r2", 1)],
    )  # fmt: skip
    assert len(found["notAsked"]) == 1
    assert found["notAsked"][0]["url"] in done.err
    assert "not asked: r1, on other replicas" in done.err


def test_export_goes_on_past_the_dead(stub: Stub, other: Stub, ares: Ares) -> None:
    for server, name in ((other, "r2"), (stub, "r3")):
        server.on("GET", "/v1/audit/export", Say(pieces=[f"at,chain\r\n1,{name}\r\n".encode()]))
        server.on("GET", "/v1/audit/heads", {"heads": [], "chains": chains(name)})
    done = ares("audit", "export", "--format", "csv")
    assert (done.code, done.out.split()) == (0, ["at,chain", "1,r2", "1,r3"])
    assert done.err.count("not asked: ") == 2


def test_summary_is_one_report_over_those_that_answer(stub: Stub, other: Stub, ares: Ares) -> None:
    for server, name, allowed, at in ((other, "r2", 3, 9.0), (stub, "r3", 4, 5.0)):
        server.on("GET", "/v1/audit/summary", summed(name, allowed, 2, at))
        server.on("GET", "/v1/audit/verify", verified(name))
    done = ares("audit", "summary", "--since", "1970-01-01T00:00:01+00:00", "-o", "json")
    report = json.loads(done.out)
    merged = report["summary"]
    assert (merged["entries"], merged["denials"], merged["policyViolations"]) == (11, {"role": 4}, 2)
    assert merged["operations"] == {"getJob": {"DENY": 4}, "only-r2": {"ALLOW": 3}, "only-r3": {"ALLOW": 4}}
    assert [one["at"] for one in merged["changes"]] == [5.0, 9.0]
    assert {one["chain"] for one in report["verified"]} == {"r2", "r3"}
    assert len(report["notAsked"]) == 1
    (asked,) = stub.requests("GET", "/v1/audit/summary")
    assert "month" not in asked.query
    page = ares("audit", "summary", "--month", "2026-11")
    assert page.out.count("# Audit of") == 1
    assert "Chains: r2, r3. Entries: 11." in page.out
    assert ares("audit", "summary", "--month", "2026-11", "--until", "1d").code == 2


def test_what_was_not_asked_is_not_verified(stub: Stub, other: Stub, ares: Ares) -> None:
    for server, name in ((other, "r2"), (stub, "r3")):
        server.on("GET", "/v1/audit/verify", verified(name))
    done = ares("audit", "verify", "--online")
    assert (done.code, done.out.count("whole")) == (2, 2)


def test_nobody_who_answers_is_an_error_and_so_is_no_right(stub: Stub, other: Stub, ares: Ares) -> None:
    for server in (stub, other):
        server.on("GET", "/v1/audit", problem(503, "not-ready"))
    assert ares("audit", "search").code == 1
    other.on("GET", "/v1/audit", problem(403, "forbidden"))
    assert ares("audit", "search").code == 1
