"""What goes over the wire, how answers are read, and what is repeated."""

from collections.abc import Callable
from typing import Any

import pytest

from ares.api.jobs import JobWarning
from ares.edge.client import errors
from ares.edge.client.ask import job_spec
from ares.edge.client.calls.answers import RefusedJob, Submitted
from ares.edge.client.calls.calls import BATCH_JOBS
from ares.model.state import Fence, JobState
from tests.unit.edge.client.both import drain_async, drain_sync
from tests.unit.edge.client.stub import JOB, Say, Stub, detail, problem, state

Ask = Callable[[Callable[[Any], Any]], Any]
CREATED = {"id": JOB, "replayed": False, "tasks": 1, "links": {}}


def test_submit_sends_the_spec_and_reads_the_answer(stub: Stub, ask: Ask) -> None:
    stub.on("POST", "/v1/jobs", Say(CREATED, 201))
    made = ask(lambda c: c.submit(command=["python", "train.py"], gpus=2, memory="4G", time="2h", python="none"))
    (asked,) = stub.requests("POST", "/v1/jobs")
    assert made == Submitted(id=JOB)
    assert asked.headers["authorization"] == "Bearer token"
    assert asked.body["spec"] == {
        "command": ["python", "train.py"],
        "resources": {"gpus": 2, "memoryMib": 4096},
        "timeLimitS": 7200.0,
    }


def test_a_submission_carries_its_warnings(stub: Stub, ask: Ask) -> None:
    said = {"code": "INFEASIBLE_GPU", "message": "needs 8 GPUs", "remedy": "yours"}
    warning = JobWarning(code="INFEASIBLE_GPU", message="needs 8 GPUs", remedy="yours")
    stub.on("POST", "/v1/jobs", Say({**CREATED, "warnings": [said]}, 201))
    stub.on("POST", "/v1/jobs/batch", {"results": [{**CREATED, "warnings": [said], "error": None}]})
    assert ask(lambda c: c.submit(command=["true"], gpus=8)).warnings == (warning,)
    (one,) = ask(lambda c: c.submit_many([job_spec(command=["true"], gpus=8)]))
    assert one.warnings == (warning,)


def test_usage_of_the_last_days(stub: Stub, ask: Ask) -> None:
    stub.on(
        "GET", "/v1/usage", {"by": "pool", "rows": [{"key": "p", "gpuHours": 2.5}], "total": {"key": ""}, "groups": 1}
    )
    assert ask(lambda c: c.usage("pool", since="2d")).rows[0].gpu_hours == 2.5
    assert ask(lambda c: c.usage(limit=5)).groups == 1
    assert [asked.query for asked in stub.requests("GET", "/v1/usage")] == [
        {"by": "pool", "sinceS": "172800.0", "limit": "1000"},
        {"by": "tenant", "limit": "5"},
    ]


def test_questions_about_decisions(stub: Stub, ask: Ask) -> None:
    stub.on("GET", f"/v1/jobs/{JOB}/explain", {"job": JOB, "phase": "PENDING", "at": 1.0, "ahead": 3, "change": None})
    stub.on(
        "POST", "/v1/plan", problem(503, "store-unavailable"), {"startsNow": True, "revision": 7, "profileVersion": 0}
    )
    stub.on("GET", "/v1/prio", {"jobs": [{"job": JOB, "rank": 2.5, "factors": [{"name": "age", "product": 2.5}]}]})
    stub.on("GET", f"/v1/jobs/{JOB}/preemptions", {"events": []})
    stub.on("POST", "/v1/decisions/d1/replay", {"decision": "d1", "job": JOB, "same": False, "chosenAgain": ["n2"]})
    assert ask(lambda c: c.explain(JOB)).ahead == 3
    # It changes nothing, so it is asked again where it may help.
    assert ask(lambda c: c.plan(command=["x"], gpus=1)).starts_now
    assert [asked.body for asked in stub.requests("POST", "/v1/plan")] == [
        {"spec": {"command": ["x"], "resources": {"gpus": 1, "memoryMib": 0}}}
    ] * 2
    assert ask(lambda c: c.prio(5))[0].factors[0].product == 2.5
    assert stub.requests("GET", "/v1/prio")[0].query == {"limit": "5"}
    assert ask(lambda c: c.preemptions(JOB)) == ()
    assert ask(lambda c: c.replay("d1", {"cost": 0.3})).chosen_again == ("n2",)
    assert stub.asked[-1].body == {"weights": {"cost": 0.3}}


@pytest.mark.parametrize(
    "trouble",
    [problem(503, "store-unavailable"), problem(429, "queue-full", retry_after="0"), Say(hang_up=True)],
    ids=["503", "429", "hang-up"],
)
def test_submit_is_repeated_with_the_same_request_id(stub: Stub, ask: Ask, trouble: Say) -> None:
    stub.on("POST", "/v1/jobs", trouble, trouble, Say(CREATED, 201))
    assert ask(lambda c: c.submit(command=["true"])).id == JOB
    ids = [asked.body["requestId"] for asked in stub.requests("POST", "/v1/jobs")]
    assert len(ids) == 3
    assert len(set(ids)) == 1


def test_each_submission_has_its_own_request_id(stub: Stub, ask: Ask) -> None:
    stub.on("POST", "/v1/jobs", Say(CREATED, 201))
    ask(lambda c: c.submit(command=["true"]))
    ask(lambda c: c.submit(command=["true"]))
    first, second = (asked.body["requestId"] for asked in stub.requests("POST", "/v1/jobs"))
    assert first != second


def test_repeating_is_bounded(stub: Stub, ask: Ask) -> None:
    stub.on("POST", "/v1/jobs", problem(503, "store-unavailable", "no quorum", "wait"))
    with pytest.raises(errors.Unavailable, match="no quorum") as caught:
        ask(lambda c: c.submit(command=["true"]))
    assert (caught.value.code, caught.value.fix, caught.value.status) == ("store-unavailable", "wait", 503)
    assert len(stub.requests("POST", "/v1/jobs")) == 4


def test_a_server_that_wants_long_patience_is_reported(stub: Stub, ask: Ask) -> None:
    stub.on("GET", f"/v1/jobs/{JOB}", problem(429, "queue-full", retry_after="600"))
    with pytest.raises(errors.TooManyRequests) as caught:
        ask(lambda c: c.get(JOB))
    assert caught.value.retry_after_s == 600
    assert len(stub.requests("GET", f"/v1/jobs/{JOB}")) == 1


@pytest.mark.parametrize("trouble", [Say(hang_up=True), problem(503, "store-unavailable")], ids=["hang-up", "503"])
def test_what_may_have_happened_is_not_repeated_blindly(stub: Stub, ask: Ask, trouble: Say) -> None:
    stub.on("POST", "/v1/tokens", trouble)
    with pytest.raises((errors.Unreachable, errors.Unavailable)):
        ask(lambda c: c.create_token())
    assert len(stub.requests("POST", "/v1/tokens")) == 1


def test_what_was_refused_for_lack_of_room_is_repeated(stub: Stub, ask: Ask) -> None:
    stub.on("POST", f"/v1/jobs/{JOB}/retry", problem(429, "queue-full"), state("PENDING"))
    assert ask(lambda c: c.retry(JOB)).id == JOB


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.InvalidRequest), (401, errors.Unauthorized), (403, errors.Forbidden), (404, errors.NotFound),
        (409, errors.Conflict), (413, errors.InvalidRequest), (418, errors.ApiError), (422, errors.InvalidRequest),
        (500, errors.ServerError), (503, errors.Unavailable), (599, errors.ServerError),
    ],
)  # fmt: skip
def test_statuses_have_their_exceptions(stub: Stub, ask: Ask, status: int, kind: type[errors.ApiError]) -> None:
    stub.on("GET", f"/v1/jobs/{JOB}", problem(status, "some-code", "what happened", "what to do"))
    with pytest.raises(errors.ApiError, match=JOB if status == 404 else "what happened") as caught:
        ask(lambda c: c.get(JOB))
    assert type(caught.value) is kind
    # Of a credential and of a path the client knows more than the server.
    fix = kind.fix if status in {401, 404} else "what to do"
    assert (caught.value.code, caught.value.fix) == ("some-code", fix)
    assert str(caught.value).startswith(str(kind.__doc__))


@pytest.mark.parametrize(
    "answer",
    [Say(pieces=[b"<html>a proxy</html>"]), Say({"spec": 3}), Say([1, 2])],
    ids=["html", "wrong-type", "wrong-shape"],
)
def test_an_answer_that_is_not_ours_is_named(stub: Stub, ask: Ask, answer: Say) -> None:
    stub.on("GET", f"/v1/jobs/{JOB}", answer)
    with pytest.raises(errors.BadAnswer, match=f"GET /v1/jobs/{JOB} answered 200"):
        ask(lambda c: c.get(JOB))


def test_a_proxys_error_page_is_still_an_api_error(stub: Stub, ask: Ask) -> None:
    stub.on("GET", f"/v1/jobs/{JOB}", Say(status=502, pieces=[b"Bad Gateway"]))
    with pytest.raises(errors.ServerError, match="Bad Gateway"):
        ask(lambda c: c.get(JOB))


@pytest.mark.parametrize("drain", [drain_sync, drain_async])
def test_nobody_listens(drain: Any) -> None:
    gone = Stub()
    gone.close()
    with pytest.raises(errors.Unreachable, match=r"http://127.0.0.1:\d+ \(from argument\): "):
        drain(lambda c: c.submit(command=["true"]), gone.url)


def test_redirects_do_not_carry_the_token_away(stub: Stub, ask: Ask) -> None:
    stub.on("GET", f"/v1/jobs/{JOB}", Say(status=307, headers={"location": f"{stub.url}/elsewhere"}))
    with pytest.raises(errors.BadAnswer):
        ask(lambda c: c.get(JOB))
    assert stub.requests("GET", "/elsewhere") == []


def test_pages_are_fetched_as_needed(stub: Stub, ask: Ask) -> None:
    first = {"jobs": [state("RUNNING", id="a"), state("RUNNING", id="b")], "cursor": "next"}
    stub.on("GET", "/v1/jobs", first, {"jobs": [state("FAILED", id="c")], "cursor": ""})
    found = ask(lambda c: c.list(phase=["RUNNING", "FAILED"], label={"team": "x=y"}, node=None))
    assert [(job.id, job.phase) for job in found] == [("a", "RUNNING"), ("b", "RUNNING"), ("c", "FAILED")]
    one, two = (asked.query for asked in stub.requests("GET", "/v1/jobs"))
    assert one["label"] == "team=x=y"
    assert "cursor" not in one
    assert "node" not in one
    assert two == {**one, "cursor": "next"}


def test_ids_cannot_reach_another_path(stub: Stub, ask: Ask) -> None:
    with pytest.raises(errors.NotFound):
        ask(lambda c: c.get("../tokens?x=1"))
    assert [asked.path for asked in stub.asked] == ["/v1/jobs/..%2Ftokens%3Fx%3D1"]


def test_many_jobs_go_in_few_requests_and_keep_their_order(stub: Stub, ask: Ask) -> None:
    def results(start: int, count: int) -> dict[str, Any]:
        made: list[Any] = [{"id": f"job{n}", "replayed": n == 1, "tasks": 1} for n in range(start, start + count)]
        return {"results": made, "created": count}

    last = results(BATCH_JOBS, 2)
    last["results"][1] = {"id": "", "tasks": 0, "error": {"code": "invalid", "title": "t", "detail": "no", "fix": "f"}}
    stub.on("POST", "/v1/jobs/batch", results(0, BATCH_JOBS), last)
    spec = job_spec(command=["true"])
    made = ask(lambda c: c.submit_many([spec] * (BATCH_JOBS + 2)))
    assert len(made) == BATCH_JOBS + 2
    assert made[1] == Submitted(id="job1", replayed=True)
    assert made[BATCH_JOBS] == Submitted(id=f"job{BATCH_JOBS}")
    assert made[-1] == RefusedJob(code="invalid", title="t", detail="no", fix="f")
    sent = [job["requestId"] for asked in stub.requests("POST", "/v1/jobs/batch") for job in asked.body["jobs"]]
    assert len(set(sent)) == BATCH_JOBS + 2


def test_large_jobs_make_smaller_batches(stub: Stub, ask: Ask) -> None:
    stub.on("POST", "/v1/jobs/batch", {"results": []})
    spec = job_spec(command=["echo", "x" * 120_000])
    ask(lambda c: c.submit_many([spec] * 100))
    sizes = [len(asked.body["jobs"]) for asked in stub.requests("POST", "/v1/jobs/batch")]
    assert sum(sizes) == 100
    assert max(sizes) < 75


def test_a_spec_and_keywords_together_are_refused(stub: Stub, ask: Ask) -> None:
    with pytest.raises(errors.InvalidSpec, match="also gpus"):
        ask(lambda c: c.submit(job_spec(command=["true"]), gpus=1))
    assert stub.asked == []


def test_everything_else(stub: Stub, ask: Ask) -> None:
    record = {"id": "tok", "tenant": "default", "role": "viewer", "name": "", "createdAt": 1.0, "expiresAt": None,
              "revoked": False, "node": None, "singleUse": False}  # fmt: skip
    fence = {"epoch": 2, "counter": 7}
    stub.on(
        "GET", f"/v1/jobs/{JOB}", detail("RUNNING", fence=fence, progress={"job": JOB, "fence": fence, "fraction": 0.5})
    )
    stub.on("DELETE", f"/v1/jobs/{JOB}", state("CANCELLED"))
    stub.on("GET", "/v1/nodes", {"nodes": [{"name": "n", "info": {"name": "n", "cpuMilli": 4000, "memoryMib": 1}}]})
    stub.on("GET", "/v1/nodepools", {"nodepools": [{"name": "default", "gpuModels": {"A100": 8}}]})
    stub.on("GET", "/v1/leases", {"leases": [{"job": JOB, "fence": "2.7", "phase": "RUNNING", "heldS": 1.0}]})
    stub.on("POST", "/v1/tokens", Say({"token": "ares_tok_secret", "record": record}, 201))
    stub.on("GET", "/v1/tokens", {"tokens": [record]})
    stub.on("DELETE", "/v1/tokens/tok", Say(status=204))
    node = {"name": "n", "info": {"name": "n", "cpuMilli": 1, "memoryMib": 1}}
    stub.on("POST", "/v1/nodes/n/uncordon", node)
    stub.on("DELETE", "/v1/nodes/n", node)

    found = ask(lambda c: c.get(JobState(id=JOB, tenant="default", name="train")))
    assert found.state.fence == Fence(epoch=2, counter=7)
    assert found.progress.fraction == 0.5
    assert ask(lambda c: c.cancel(found, "enough")).phase == "CANCELLED"
    assert stub.requests("DELETE", f"/v1/jobs/{JOB}")[0].query == {"reason": "enough"}
    assert ask(lambda c: c.nodes())[0].info.cpu_milli == 4000
    assert ask(lambda c: c.pools())[0].gpu_models == {"A100": 8}
    assert ask(lambda c: c.leases(JOB))[0].fence == "2.7"
    assert stub.requests("GET", "/v1/leases")[0].query == {"job": JOB}
    made = ask(lambda c: c.create_token(role="viewer", ttl_s=60))
    assert made.token == "ares_tok_secret"
    assert "secret" not in repr(made)
    assert stub.requests("POST", "/v1/tokens")[0].body == {"role": "viewer", "name": "", "ttlS": 60}
    assert ask(lambda c: c.tokens())[0].id == "tok"
    assert ask(lambda c: c.revoke_token("tok")) is None
    assert ask(lambda c: c.cordon("n", on=False)).cordoned is False
    assert ask(lambda c: c.remove_node("n")).name == "n"
