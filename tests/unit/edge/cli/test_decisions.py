"""`ares explain`, `plan`, `prio`, `why-preempted`, `replay`: what people read, and what programs get."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ares.api.decisions import Change
from ares.edge.cli.render.changes import as_typed
from ares.model.job import JobSpec
from tests.changed_spec import changed_spec
from tests.unit.edge.client.stub import JOB, Say, Stub, detail, problem

Ares = Callable[..., Any]
OTHER = "f" * 16
REASON = {
    "code": "INSUFFICIENT_GPU", "message": "needs 4 GPUs on one node; the nearest, n1, has 1 free of 4",
    "numbers": {"asked": 4, "free": 1, "total": 4, "nodes": 2},
}  # fmt: skip
ASK = {
    "reason": REASON,
    "funnel": [
        {"filter": "nodes", "nodes": 12}, {"filter": "selector", "nodes": 12}, {"filter": "gpus-declared", "nodes": 2},
        {"filter": "gpus", "nodes": 0}, {"filter": "cpu", "nodes": 0},
    ],
    "nearest": [{"node": "n1", "refusedBy": "gpus", "message": "has 1 free of 4", "numbers": {}}],
    "wakes": ["job ends"],
}  # fmt: skip
EXPLAINED: dict[str, Any] = {
    "job": JOB, "phase": "PENDING", "at": 4600.0, "reason": REASON, "remedy": "wait", "alternatives": [ASK],
    "holders": [
        {"node": "n1", "job": OTHER, "tenant": "default", "gpus": 2.5, "cpus": 3.0, "since": 4300.0, "endsAt": 4900.0},
        {"node": "n1", "gpus": 1.0, "since": 4000.0, "endsAt": None},
        {"node": "n2", "gpus": 1.0, "reserved": True},
    ],
    "gpus": [
        {"node": "n1", "index": 0, "model": "A100", "memoryMib": 40960, "freeMilli": 500, "jobs": [OTHER]},
        {"node": "n1", "index": 1, "model": "A100", "memoryMib": 40960, "freeMilli": 0, "jobs": []},
        {"node": "n1", "index": 2, "model": "A100", "memoryMib": 40960, "freeMilli": 1000, "numaNode": 1, "jobs": []},
    ],
    "ahead": 12, "aheadInTenant": 3, "rank": 2650.25,
    "factors": [
        {"name": "priority", "value": 2.0, "weight": 1000, "product": 2000.0, "sum": "primary"},
        {"name": "drf", "value": 0.7225, "weight": 900, "product": 650.25, "sum": "primary"},
        {"name": "fair-share", "value": 0.5, "weight": 1, "product": 0.5, "sum": "secondary"},
    ],
    "limits": [
        {"path": "default", "resource": "gpu", "asked": 4000, "used": 6500, "limit": 8000, "soft": None},
        {"path": "default/ml", "resource": "memory", "asked": 512, "used": 1024, "limit": 4096, "soft": 2048},
    ],
    "starts": {"earliest": 4660.0, "latest": 4900.0, "basis": "2 jobs end by then", "computedAt": 4599.0},
    "change": {"fields": {"resources.gpus": 1}, "message": "ask for 1 GPUs instead of 4", "cost": 0.75},
}  # fmt: skip
UNROUTED = {"message": "this server has no clusters"}
PAGE = f"""\
train  {JOB}  PENDING for 1h

  Reason      INSUFFICIENT_GPU: needs 4 GPUs on one node; the nearest, n1, has 1 free of 4
  Whose move  wait: it starts when others have ended
  Position    12 ahead, 3 of your own
  Starts      in 1m to 5m: 2 jobs end by then (worked out 1s ago)
  Start now   ask for 1 GPUs instead of 4: --gpus 1

Machines left
  AFTER          LEFT  REFUSED
  all machines   12    -
  gpus-declared  2     10
  gpus           0     2

Nearest misses
  NODE  REFUSED BY  WHY
  n1    gpus        has 1 free of 4

GPUs there
  NODE  GPU  MODEL  MEMORY  FREE  NUMA  HELD BY
  n1    0    A100   40Gi    50%   0     {OTHER}
  n1    1    A100   40Gi    0%    0     of another tenant
  n1    2    A100   40Gi    100%  1     -

Who is there
  NODE  JOB                GPUS  CPUS  SINCE        ENDS
  n1    {OTHER}   2.5   3     5m           in 5m
  n1    of another tenant  1     -     10m          does not say
  n2    of another tenant  1     -     kept for it  -

Rank
  FACTOR                       VALUE   x WEIGHT  = PART
  priority                     2.0000  1000      2000.00
  drf                          0.7225  900       650.25
  rank                         -       -         2650.25
  fair-share (between equals)  0.5000  1         0.50

Limits
  OF          RESOURCE  ASKED  USED  LIMIT  FREE  OWN SHARE
  default     gpu       4      6.5   8      1.5   -
  default/ml  memory    512Mi  1Gi   4Gi    3Gi   2Gi
"""


@pytest.fixture
def explained(stub: Stub) -> Stub:
    stub.on("GET", f"/v1/jobs/{JOB}/explain", EXPLAINED)
    stub.on("GET", f"/v1/jobs/{JOB}", detail())
    stub.on("GET", f"/v1/jobs/{JOB}/route", UNROUTED)
    return stub


@pytest.mark.usefixtures("now", "explained")
def test_explain_word_for_word(ares: Ares) -> None:
    done = ares("explain", JOB)
    assert (done.code, done.out, done.err) == (0, PAGE, "")


@pytest.mark.usefixtures("explained")
def test_explain_for_programs_is_the_answer_itself(ares: Ares) -> None:
    assert json.loads(ares("explain", JOB, "-o", "json").out) == EXPLAINED


@pytest.mark.usefixtures("now")
def test_explain_of_what_does_not_wait(stub: Stub, ares: Ares) -> None:
    stub.on("GET", f"/v1/jobs/{JOB}/explain", {"job": JOB, "phase": "RUNNING", "at": 1.0})
    stub.on("GET", f"/v1/jobs/{JOB}", detail("RUNNING"))
    stub.on("GET", f"/v1/jobs/{JOB}/route", UNROUTED)
    assert ares("explain", JOB).out == f"train  {JOB}  RUNNING\n  it does not wait; `ares show` says where it runs\n"


def test_explain_of_an_array_names_a_task(stub: Stub, ares: Ares) -> None:
    stub.on("GET", f"/v1/jobs/{JOB}", detail(arrayCounts={"PENDING": 3}))
    done = ares("explain", JOB)
    assert done.code == 1
    assert f"{JOB} is an array, and only its tasks have a place in the queue" in done.err
    assert f"fix: name a task, such as {JOB}_0" in done.err


@pytest.mark.usefixtures("now")
def test_watching_ends_when_the_job_no_longer_waits(stub: Stub, ares: Ares, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ares.edge.cli.commands.explain.WATCH_EVERY_S", 0.0)
    over = {"job": JOB, "phase": "RUNNING", "at": 1.0}
    stub.on("GET", f"/v1/jobs/{JOB}/explain", Say(EXPLAINED), Say(EXPLAINED), Say(over))
    stub.on("GET", f"/v1/jobs/{JOB}", detail())
    stub.on("GET", f"/v1/jobs/{JOB}/route", UNROUTED)
    done = ares("explain", JOB, "--watch")
    assert done.out.count("Machines left") == 2
    assert done.out.endswith("it does not wait; `ares show` says where it runs\n")


# ---- plan

NOW = {"earliest": 4600.0, "latest": 4602.0, "basis": "it fits now", "computedAt": 4600.0}
PLACE = {"node": "n1", "incarnation": 1, "cpuMilli": 1000, "memoryMib": 256, "gpus": [0, 1], "numa": 1}
EVICTION = {
    "rule": "priority", "why": "to make room for a more important job", "lostGpuS": 1240.0, "evictedGpus": 4.0,
    "victims": [{"job": OTHER, "priority": "LOW", "gpus": 4.0, "ranS": 310.0, "lostGpuS": 1240.0}],
    "victimsOfOthers": 2,
    "for": {"job": JOB, "priority": "CRITICAL", "gpus": 4.0},
}  # fmt: skip
PLAN_PAGE = f"""\
would not start now
  Reason      INSUFFICIENT_GPU: needs 4 GPUs on one node; the nearest, n1, has 1 free of 4
  Whose move  wait: it starts when others have ended
  Queue       7 waiting already; those of higher rank go first
  Start now   ask for 1 GPUs instead of 4: --gpus 1

Ways to run it
  ASKED        STARTS          PER HOUR  WHERE                                       BECAUSE
  with 2 GPUs  now             6.50      n1 GPU 0,1 NUMA 1                           it fits now
  as asked     nobody can say  -         -                                           2 of 2 do not say
  gang         now             13.00     rank 0 n1 GPU 0,1 NUMA 1; rank 1 n1 NUMA 1  it fits now

It would displace (to make room for a more important job; 1,240 GPU-seconds of work repeated, 4 GPUs freed)
  JOB                 PRIORITY  GPUS  RAN    LOST GPU-S
  {OTHER}    LOW       4     5m10s  1,240
  2 of other tenants  -         -     -      -

nothing was changed (revision 42, profile 3)
"""


@pytest.mark.usefixtures("now")
def test_a_plan_that_would_wait_exits_with_3(stub: Stub, ares: Ares) -> None:
    never = {"earliest": 4600.0, "latest": None, "basis": "2 of 2 do not say", "computedAt": 4600.0}
    ranks = [PLACE, {**PLACE, "gpus": [], "rank": 1}]
    plan = {
        "startsNow": False, "revision": 42, "profileVersion": 3, "reason": REASON, "remedy": "wait",
        "offers": [
            {"asked": "with 2 GPUs", "starts": NOW, "priceHour": 6.5, "placements": [PLACE]},
            {"asked": "as asked", "starts": never, "priceHour": None, "placements": []},
            {"asked": "gang", "starts": NOW, "priceHour": 13.0, "placements": ranks},
        ],
        "eviction": EVICTION, "change": EXPLAINED["change"], "ahead": 7,
    }  # fmt: skip
    stub.on("POST", "/v1/plan", plan)
    done = ares("plan", "--gpus", "4", "--priority", "critical", "--", "python", "train.py")
    assert (done.code, done.out, done.err) == (3, PLAN_PAGE, "")
    assert stub.asked[0].body == {
        "spec": {"command": ["python", "train.py"], "resources": {"gpus": 4, "memoryMib": 0}, "priority": "CRITICAL"}
    }
    told = ares("plan", "-o", "json", "--", "x")
    assert (told.code, json.loads(told.out)) == (3, plan)


@pytest.mark.usefixtures("now")
def test_a_plan_that_would_start_exits_with_0(stub: Stub, ares: Ares, tmp_path: Path) -> None:
    offer = {"asked": "as asked", "starts": NOW, "priceHour": 0.0, "placements": [PLACE]}
    stub.on("POST", "/v1/plan", {"startsNow": True, "revision": 1, "profileVersion": 0, "offers": [offer]})
    (tmp_path / "job.yaml").write_text("command: [x]\ngpus: 2\nor: gpus=1\n")
    done = ares("plan", "-f", str(tmp_path / "job.yaml"))
    assert (done.code, done.out.splitlines()[0]) == (0, "would start now")
    assert stub.asked[0].body["spec"]["alternatives"] == [{"gpus": 1, "memoryMib": 0}]
    assert "array" not in done.out
    array = ares("plan", "--array", "0-9", "--", "x")
    assert array.out.splitlines()[-1].startswith("this is for one task of the array 0-9;")


# ---- prio, why-preempted, replay


def test_prio_shows_factors_that_sum(stub: Stub, ares: Ares) -> None:
    row = {
        "job": JOB, "tenant": "default", "name": "train", "priority": "NORMAL", "rank": 2650.25, "secondary": 0.5,
        "factors": EXPLAINED["factors"],
    }  # fmt: skip
    stub.on("GET", "/v1/prio", {"jobs": [row]})
    done = ares("prio", "--limit", "5")
    assert done.out == (
        "JOB               NAME   TENANT   PRIO    RANK     PRIORITY  DRF     (FAIR-SHARE)\n"
        f"{JOB}  train  default  NORMAL  2650.25  2000.00   650.25  0.50\n"
    )
    assert stub.asked[0].query == {"limit": "5"}
    assert ares("prio", "-o", "name").out == f"{JOB}\n"
    stub.on("GET", "/v1/prio", {"jobs": []})
    assert ares("prio").err == "no jobs that wait\n"


@pytest.mark.usefixtures("now")
def test_why_preempted(stub: Stub, ares: Ares) -> None:
    record = {**EVICTION, "for": {"job": OTHER, "priority": "CRITICAL", "gpus": 4.0}, "victimsOfOthers": 0}
    record["victims"] = [{"job": JOB, "priority": "LOW", "gpus": 4.0, "ranS": 310.0, "lostGpuS": 1240.0}]
    event = {
        "job": JOB, "tenant": "default", "seq": 4, "kind": "preempted", "phase": "PREEMPTED", "at": 4540.0,
        "attempt": 2, "reason": "to make room for a more important job", "data": record,
    }  # fmt: skip
    stub.on("GET", f"/v1/jobs/{JOB}/preemptions", {"events": [event]})
    done = ares("why-preempted", JOB)
    assert (
        done.out
        == f"""\
1m ago, attempt 2: preempted: to make room for a more important job
  For         {OTHER}, CRITICAL, 4 GPUs
  Rule        priority: to make room for a more important job
  Lost        1,240 GPU-seconds since it started 5m10s before

Who left (to make room for a more important job; 1,240 GPU-seconds of work repeated, 4 GPUs freed)
  JOB               PRIORITY  GPUS  RAN    LOST GPU-S
  {JOB}  LOW       4     5m10s  1,240

"""
    )
    drained = {**event, "data": {**record, "rule": "drain", "for": {"operator": "ops"}}}
    stub.on("GET", f"/v1/jobs/{JOB}/preemptions", {"events": [drained]})
    assert ares("why-preempted", JOB).out.splitlines()[1] == "  For         operator ops"
    for name, words in (("demo", "reservation demo"), ("", "a reservation of another tenant")):
        booked = {**event, "data": {**record, "rule": "reserved", "for": {"reservation": name}}}
        stub.on("GET", f"/v1/jobs/{JOB}/preemptions", {"events": [booked]})
        assert ares("why-preempted", JOB).out.splitlines()[1] == f"  For         {words}"
    stub.on("GET", f"/v1/jobs/{JOB}/preemptions", {"events": []})
    assert ares("why-preempted", JOB).err == f"{JOB} was never preempted, and nobody was for it\n"


REPLAYED: dict[str, Any] = {
    "decision": "d0123456789a", "job": JOB, "at": 4000.0, "profileVersion": 3,
    "weights": [{"name": "fit", "weight": 30.0}, {"name": "cost", "weight": 0.3}, {"name": "energy", "weight": 0.0}],
    "chosen": ["n1"], "chosenAgain": ["n2"], "same": False, "passing": 5, "kept": 2,
    "nodes": [
        {"node": "n2", "score": 20.25, "parts": {"fit": 20.0, "cost": 0.25}, "ranks": 1},
        {"node": "n1", "score": 15.0, "parts": {"fit": 15.0, "cost": 0.0}, "ranks": 0},
    ],
}  # fmt: skip


@pytest.mark.usefixtures("now")
def test_replay(stub: Stub, ares: Ares) -> None:
    stub.on("POST", "/v1/decisions/d0123456789a/replay", REPLAYED)
    done = ares("replay", "d0123456789a", "--set", "weight.cost=0.3")
    assert (
        done.out
        == f"""\
decision d0123456789a about {JOB}, 10m ago, profile 3
  Weights     fit 30, cost 0.3*, energy 0
  Then        n1
  Now         n2: other machines

Machines that could have taken it, the best first
  NODE  FIT    COST  SCORE  THEN  NOW
  n2    20.00  0.25  20.25  -     x
  n1    15.00  0.00  15.00  x     -
  ... and 3 more
"""
    )
    assert stub.asked[0].body == {"weights": {"cost": 0.3}}


def test_replay_by_the_beginning_of_a_job(stub: Stub, ares: Ares) -> None:
    stub.on("GET", "/v1/jobs/resolve", {"ids": [JOB]})
    stub.on("GET", "/v1/jobs", {"jobs": []})
    stub.on("POST", f"/v1/decisions/{JOB}/replay", REPLAYED)
    assert json.loads(ares("replay", "0123", "-o", "json").out) == REPLAYED


def test_replay_of_what_is_not_kept(stub: Stub, ares: Ares) -> None:
    stub.on("POST", f"/v1/decisions/{JOB}/replay", problem(404, "not-found"))
    done = ares("replay", JOB)
    assert (done.code, done.out) == (1, "")
    assert f"no decision about {JOB} is kept" in done.err
    bad = ares("replay", JOB, "--set", "weight.cost=much")
    assert (bad.code, "is not of the form weight.NAME=NUMBER" in bad.err) == (2, True)


# ---- the smallest change, as one types it

SPEC: dict[str, Any] = {
    "command": ["x"],
    "resources": {"gpus": 8, "cpuMilli": 4000, "memoryMib": 4096, "gpuMemoryMib": 8192, "devices": {"tpu-v4": 4}},
    "gang": {"ranks": 4}, "numa": "required", "topology": {"level": "rack", "required": True},
    "licences": {"matlab": 3}, "tolerations": [{"key": "old"}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "typed"),
    [
        ({"resources.gpus": 3}, "--gpus 3"),
        ({"resources.cpuMilli": 1500, "resources.memoryMib": 700}, "--cpus 1500m --memory 700M"),
        ({"resources.gpuMilli": 125}, "--gpu-share 0.125"),
        ({"resources.gpuMemoryMib": 1000}, "--gpu-memory 1000M"),
        ({"resources.devices.tpu-v4": 2}, "--device tpu-v4=2"),
        ({"gang.minRanks": 2}, "--min-ranks 2"),
        ({"numa": "preferred"}, "--numa preferred"),
        ({"topology.level": "zone"}, "--topology zone:required"),
        ({"licences.matlab": 1}, "--licence matlab=1"),
        ({"tolerations": [{"key": "old"}, {"key": "gpu", "value": "a b"}]}, "--tolerate old --tolerate 'gpu=a b'"),
    ],
)
def test_typing_the_change_makes_it(stub: Stub, ares: Ares, tmp_path: Path, fields: dict[str, Any], typed: str) -> None:
    assert as_typed(fields) == typed
    stub.on("POST", "/v1/jobs", Say({"id": JOB, "replayed": False, "tasks": 1, "links": {}}, 201))
    (tmp_path / "job.json").write_text(json.dumps(SPEC))
    assert ares("submit", "-f", str(tmp_path / "job.json"), *shlex.split(typed)).code == 0
    sent = msgspec.convert(stub.asked[0].body["spec"], JobSpec)
    assert sent == changed_spec(msgspec.convert(SPEC, JobSpec), Change(fields=fields, message="", cost=0.0))


@pytest.mark.parametrize(
    ("fields", "typed"),
    [
        ({"selector.zone": None}, "leave out --selector zone, or in the job file, selector.zone: remove it"),
        (
            {"resources.gpuModel": None},
            "leave out --gpu-model, or in the job file, resources.gpuModel: remove it",
        ),
        ({"gang.perNode": None}, "leave out --per-node, or in the job file, gang.perNode: remove it"),
        ({"affinity.0.required": False}, "in the job file, affinity.0.required: false"),
        ({"topology.required": False}, "in the job file, topology.required: false"),
        ({"licences.matlab": 0}, "leave out --licence matlab, or in the job file, licences.matlab: remove it"),
        ({"resources.gpus": 1, "residency": []}, "--gpus 1; leave out --region, or in the job file, residency: []"),
    ],
)
def test_what_no_flag_can_say_is_an_edit(fields: dict[str, Any], typed: str) -> None:
    assert as_typed(fields) == typed


def test_a_submission_that_can_never_start_says_so_with_its_fix(stub: Stub, ares: Ares) -> None:
    warning = {"code": "INFEASIBLE_GPU", "message": "needs 8 GPUs; the largest has 4", "remedy": "yours"}
    stub.on("POST", "/v1/jobs", Say({"id": JOB, "replayed": False, "tasks": 1, "warnings": [warning]}, 201))
    change = {"fields": {"resources.gpus": 4}, "message": "ask for 4 GPUs instead of 8", "cost": 0.5}
    stub.on("POST", "/v1/plan", {"startsNow": False, "revision": 1, "profileVersion": 0, "change": change})
    done = ares("submit", "--gpus", "8", "x")
    assert (done.code, done.out) == (0, f"submitted {JOB} (job)\n")
    assert done.err == (
        "warning: accepted, but it can never start as it is: needs 8 GPUs; the largest has 4\n"
        "smallest fix: ask for 4 GPUs instead of 8 (--gpus 4)\n"
    )


@pytest.mark.usefixtures("now")
def test_show_tells_ranks_places_and_who_gave_way(stub: Stub, ares: Ares) -> None:
    spec = {
        "command": ["x"], "resources": {"gpus": 2, "gpuModel": "H100"},
        "alternatives": [{"gpus": 1, "gpuMilli": 500, "gpuMemoryMib": 40960, "devices": {"tpu-v4": 2}}],
        "gang": {"ranks": 2, "minRanks": 1, "perNode": 1}, "numa": "preferred", "qos": "burstable",
        "topology": {"level": "rack", "required": True}, "licences": {"matlab": 1}, "deadlineAt": 8200.0,
        "affinity": [{"key": "zone", "values": ["a", "b"]}, {"key": "spot", "op": "absent", "required": False}],
        "jobAffinity": [{"labels": {"app": "db"}, "level": "rack", "away": True}],
        "tolerations": [{"key": "old"}, {"key": "tier", "value": "x"}], "residency": ["eu", "us"],
        "inputs": [{"name": "imagenet", "sizeMib": 122_880}],
        "preemption": {"checkpointSignal": "SIGUSR1", "waitS": 60.0},
    }  # fmt: skip
    ranks = [
        {**PLACE, "gpus": [3], "gpuMilli": 500, "devices": {"tpu-v4": ["t0", "t1"]}},
        {**PLACE, "node": "n2", "rank": 1, "gpus": [0], "gpuMilli": 500, "numa": None},
    ]
    bound = {
        "job": JOB, "tenant": "default", "seq": 1, "kind": "bound", "phase": "STAGING", "at": 4000.0,
        "data": {"decision": "d0123456789a"},
    }  # fmt: skip
    stub.on("GET", f"/v1/jobs/{JOB}/events", {"events": [bound]})
    stub.on(
        "GET", f"/v1/jobs/{JOB}",
        detail("RUNNING", spec=spec, placements=ranks, alternative=1, preemptions=2, preemptedAt=4540.0, team="vision",
               hold=[PLACE], evicting=[OTHER], startedAt=4600.0),
    )  # fmt: skip
    shown = dict(line.strip().split(maxsplit=1) for line in ares("show", JOB).out.splitlines() if line.startswith("  "))
    assert shown["Asks"] == (
        "for    1 to 2 ranks, at most 1 on one node, each 1 CPU, 256Mi, 2 GPUs (H100) "
        "or 1 CPU, 256Mi, 50% of 1 GPU (at least 40Gi), 2 tpu-v4"
    )
    assert shown["Place"] == (
        "one rack required; one NUMA node preferred; requires zone in a,b; prefers spot absent; "
        "away from app=db by rack; tolerates old; tolerates tier=x; in eu or us; reads imagenet (120Gi)"
    )
    assert shown["Policy"].endswith("effects staged, burstable")
    assert (shown["Licences"], shown["Team"], shown["Deadline"]) == ("matlab=1", "vision", "in 1h")
    assert shown["Alternative"].startswith("1: 1 CPU, 256Mi, 50% of 1 GPU")
    assert shown["Node"] == "rank 0 n1 GPU 3 (50% each) tpu-v4 t0,t1 NUMA 1; rank 1 n2 GPU 0 (50% each)"
    assert shown["Kept"] == f"room is kept on n1 GPU 0,1 NUMA 1, until {OTHER} left"
    assert shown["Preemption"] == f"SIGUSR1 first, 1m to save; 2 so far, last 1m ago: ares why-preempted {JOB}"
    assert shown["Decision"] == "d0123456789a"
