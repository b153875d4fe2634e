"""The judge of `ares chaos`: says nothing of a run that kept every promise, and names each one that is broken."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from ares.api.jobs import JobDetail
from ares.check.invariants.history import Answered, Asked, Back, Event, Healed, Lost, digest_of
from ares.model.job import JobSpec, RetryPolicy
from ares.model.state import EventKind, ExitInfo, Fence, JobState, LedgerEvent, Phase, Placement, Result
from ares.sim.chaos.canary import CanaryMark, Marks, read_marks
from ares.sim.chaos.judge import RULES, ChaosCase, SeenJob, judge
from ares.sim.chaos.plan import FAULTS, ChaosOptions, schedule
from ares.sim.chaos.verdict import summary, times, verdict

JOB, OTHER = "0123456780000001", "0123456780000002"
OPTIONS = ChaosOptions(seed=1, lease_s=9.0, bound_s=10.0)
SPEC = JobSpec(command=("true",), retry=RetryPolicy(limit=3))


def entries(job: str, *steps: tuple[EventKind, Phase, float, str]) -> tuple[LedgerEvent, ...]:
    """Ledger entries: kind, phase, time and fence of each."""
    made: list[LedgerEvent] = []
    attempt = 0
    for seq, (kind, phase, at, fence) in enumerate(steps, start=1):
        attempt += kind == "bound"
        data: dict[str, Any] = {"node": "n1" if attempt == 1 else "n2"} if kind == "bound" else {}
        data |= {"failure": "node-lost"} if kind == "retrying" else {}
        made.append(
            LedgerEvent(
                job=job, tenant="t", seq=seq, kind=kind, phase=phase, at=at, attempt=attempt, fence=fence, data=data
            )
        )
    return tuple(made)


def recovered() -> SeenJob:
    """Its first machine fell silent at 20, which was decided at 29; the second attempt succeeded."""
    ledger = entries(
        JOB,
        ("submitted", "PENDING", 10.0, "1.0"), ("bound", "STAGING", 11.0, "1.1"), ("started", "RUNNING", 12.0, "1.1"),
        ("lease-lost", "RETRYING", 29.0, "1.1"), ("retrying", "RETRYING", 29.0, "1.1"),
        ("requeued", "PENDING", 30.0, "1.2"), ("bound", "STAGING", 31.0, "1.3"), ("started", "RUNNING", 31.5, "1.3"),
        ("succeeded", "SUCCEEDED", 40.0, "1.3"),
    )  # fmt: skip
    fence, done = Fence(counter=3), ExitInfo(code=0)
    state = JobState(
        id=JOB, tenant="t", name="canary", phase="SUCCEEDED", seq=9, fence=fence, attempt=2, request_id="r1",
        placements=(Placement(node="n2", incarnation=1, cpu_milli=1, memory_mib=1),), exit=done, ended_at=40.0,
        retries={"node-lost": 1},
    )  # fmt: skip
    result = Result(job=JOB, fence=fence, attempt=2, exit=done, committed_at=40.0, value="1.3")
    return SeenJob(JobDetail(spec=SPEC, state=state, result=result), ledger)


def cancelled() -> SeenJob:
    ledger = entries(OTHER, ("submitted", "PENDING", 10.0, "1.0"), ("cancelled", "CANCELLED", 12.0, "1.1"))
    state = JobState(
        id=OTHER,
        tenant="t",
        name="canary",
        phase="CANCELLED",
        seq=2,
        fence=Fence(counter=1),
        request_id="r2",
        ended_at=12.0,
    )
    return SeenJob(JobDetail(spec=SPEC, state=state), ledger)


def calls() -> list[Event]:
    def call(op: int, asked: dict[str, Any], answer: dict[str, Any]) -> list[Event]:
        about: dict[str, Any] = {"client": "p", "tenant": "t", **asked}
        said: dict[str, Any] = {"outcome": "ok", **answer}
        return [Asked(t=10.0 + op, op=op, **about), Answered(t=10.1 + op, op=op, **said)]

    seen = {"": digest_of("1.3")}
    return [
        *call(1, {"verb": "submit", "request": "r1", "payload": "a"}, {"outcome": "unknown"}),
        *call(2, {"verb": "submit", "request": "r1", "payload": "a"}, {"job": JOB, "replayed": True}),
        *call(
            3, {"verb": "submit", "request": "r1", "payload": "b"}, {"outcome": "refused", "code": "request-conflict"}
        ),
        *call(4, {"verb": "submit", "request": "r2", "payload": "c"}, {"job": OTHER}),
        *call(5, {"verb": "cancel", "job": OTHER}, {"job": OTHER, "phase": "CANCELLED"}),
        *call(6, {"verb": "get", "job": JOB}, {"job": JOB, "phase": "RUNNING", "seq": 3}),
        *call(40, {"verb": "get", "job": JOB}, {"job": JOB, "phase": "SUCCEEDED", "seq": 9, "seen": seen}),
    ]


def case() -> ChaosCase:
    """A run in which every promise was put to the test and kept."""
    events = [*calls(), Lost(t=20.0, node="n1"), Back(t=35.0, node="n1"), Healed(t=60.0)]
    marks = Marks((CanaryMark(JOB, "1.1", (12.0, 27.0)), CanaryMark(JOB, "1.3", (31.5, 39.9))), ())
    jobs = {JOB: recovered(), OTHER: cancelled()}
    return ChaosCase(
        options=OPTIONS, jobs=jobs, marks=marks, events=sorted(events, key=lambda event: event.t), wall_offset=0.0
    )


def change(job: str, **fields: Any) -> Callable[[ChaosCase], None]:
    def spoil(case: ChaosCase) -> None:
        seen = case.jobs[job]
        case.jobs[job] = replace(seen, detail=replace(seen.detail, state=replace(seen.detail.state, **fields)))

    return spoil


def result(**fields: Any) -> Callable[[ChaosCase], None]:
    def spoil(case: ChaosCase) -> None:
        seen = case.jobs[JOB]
        assert seen.detail.result is not None
        case.jobs[JOB] = replace(seen, detail=replace(seen.detail, result=replace(seen.detail.result, **fields)))

    return spoil


def answer(op: int, **fields: Any) -> Callable[[ChaosCase], None]:
    def spoil(case: ChaosCase) -> None:
        case.events = [
            replace(event, **fields) if isinstance(event, Answered) and event.op == op else event
            for event in case.events
        ]

    return spoil


def marks(*attempts: CanaryMark, twice: tuple[str, ...] = ()) -> Callable[[ChaosCase], None]:
    def spoil(case: ChaosCase) -> None:
        case.marks = Marks((*case.marks.attempts, *attempts), twice)

    return spoil


def entry(seq: int, job: str = JOB, **fields: Any) -> Callable[[ChaosCase], None]:
    def spoil(case: ChaosCase) -> None:
        ledger = tuple(replace(one, **fields) if one.seq == seq else one for one in case.jobs[job].ledger)
        case.jobs[job] = replace(case.jobs[job], ledger=ledger)

    return spoil


def beats(fence: str, *times_: float) -> Callable[[ChaosCase], None]:
    def spoil(case: ChaosCase) -> None:
        kept = tuple(one._replace(beats=times_) if one.fence == fence else one for one in case.marks.attempts)
        case.marks = Marks(kept, ())

    return spoil


def late(case: ChaosCase) -> None:
    for seq in (4, 5):
        entry(seq, at=34.0)(case)


def granted_again(case: ChaosCase) -> None:
    seen = case.jobs[OTHER]
    more = entries(OTHER, ("bound", "STAGING", 13.0, "1.2"))[0]
    case.jobs[OTHER] = replace(seen, ledger=(*seen.ledger, replace(more, seq=3)))


def ghost(case: ChaosCase) -> None:
    """A second job of the same request that nobody was told of."""
    seen = cancelled()
    case.jobs["0123456780000003"] = replace(
        seen,
        detail=replace(seen.detail, state=replace(seen.detail.state, id="0123456780000003", request_id="r1")),
        ledger=tuple(replace(one, job="0123456780000003") for one in seen.ledger),
    )


def unmarked(case: ChaosCase) -> None:
    case.marks = Marks(case.marks.attempts[:1], ())


def forget(case: ChaosCase) -> None:
    del case.jobs[OTHER]


BROKEN: dict[str, tuple[str, Callable[[ChaosCase], None]]] = {
    "another job for the same request": ("E1", answer(2, job=OTHER)),
    "another payload is accepted": ("E1", answer(3, outcome="ok", code="", job=JOB)),
    "the same payload is a conflict": ("E1", answer(2, outcome="refused", code="request-conflict")),
    "an acknowledged job is gone": ("E1", forget),
    "a job nobody was told of": ("E1", ghost),
    "an end that the ledger does not have": ("E2", entry(9, kind="requeued", phase="PENDING")),
    "a hole in the ledger": ("E2", change(JOB, seq=10)),
    "a fence that does not grow": ("E3", entry(7, fence="1.1")),
    "the result of an old attempt": ("E5", result(fence=Fence(counter=1))),
    "a result written by another attempt": ("E5", result(value="1.1")),
    "a result shown too early": ("E5", answer(6, seen={"": digest_of("1.3")})),
    "a result that changed": ("E5", answer(40, seen={"": digest_of("other")})),
    "a retry that was not counted": ("E7", change(JOB, retries={})),
    "more retries than allowed": ("E7", change(JOB, retries={"node-lost": 11})),
    "a zombie": ("E9", beats("1.1", 12.0, 30.9)),
    "two attempts at once": ("E10", beats("1.3", 26.0, 39.9)),
    "a job without an end": ("E11", change(JOB, phase="RETRYING")),
    "a job that never lets go": ("E11", change(OTHER, lingering=True)),
    "a loss noticed late": ("E12", late),
    "a cancelled job that succeeded": ("E13", change(OTHER, phase="SUCCEEDED")),
    "a cancelled job that is granted": ("E13", granted_again),
    "a job that goes back": ("E16", answer(40, phase="RUNNING", seq=2, seen={})),
    "started twice": ("E18", marks(twice=(f"{JOB}.1.3",))),
    "run without a grant": ("E18", marks(CanaryMark(JOB, "1.7", (50.0,)))),
    "succeeded without a run": ("E18", unmarked),
}


def test_a_good_run_has_no_violation_and_every_rule_was_tried() -> None:
    good = case()
    assert judge(good) == []
    assert {rule for rule, count in good.tested.items() if count} == set(RULES)
    assert (good.detection_s, good.recovery_s) == ([9.0], [11.0])


@pytest.mark.parametrize("what", BROKEN)
def test_each_broken_promise_is_named(what: str) -> None:
    rule, spoil = BROKEN[what]
    bad = case()
    spoil(bad)
    assert rule in {violation.rule for violation in judge(bad)}


def test_every_rule_can_fail() -> None:
    assert {rule for rule, _ in BROKEN.values()} == set(RULES)


def test_a_loss_counts_for_the_silence_it_came_of() -> None:
    """A short one that the attempt outlived, and the one in which it was lost."""
    twice = case()
    twice.events = sorted((*twice.events, Lost(t=14.0, node="n1"), Back(t=15.0, node="n1")), key=lambda event: event.t)
    assert judge(twice) == []
    assert twice.detection_s == [9.0]


def test_a_machine_that_stood_still_excuses_lateness_of_that_size() -> None:
    slow = case()
    late(slow)
    slow.stall_s = 5.0
    assert judge(slow) == []


def test_verdict_in_figures_and_words() -> None:
    good = case()
    found = verdict(good, judge(good), "run", ())
    assert (found.jobs, found.attempts) == ({"CANCELLED": 1, "SUCCEEDED": 1}, 2)
    assert "PASSED" in list(summary(found))[-1]
    bad = case()
    marks(twice=(f"{JOB}.1.3",))(bad)
    words = "\n".join(summary(verdict(bad, judge(bad), "run", ())))
    assert "FAILED: 1 violations" in words
    assert "started more than once" in words


def test_times() -> None:
    assert times([]).count == 0
    many = times([float(number) for number in range(1, 101)])
    assert (many.count, many.p50, many.p99, many.max) == (100, 50.0, 99.0, 100.0)


def test_a_mark_that_a_kill_cut_short_is_read(tmp_path: Any) -> None:
    (tmp_path / f"{JOB}.1.1").write_text("12.50\n13.0")
    (tmp_path / f"{JOB}.1.3").write_text("")
    (tmp_path / f"{OTHER}.1.1").write_text("14.25\n1")
    assert read_marks(tmp_path).attempts == (CanaryMark(JOB, "1.1", (12.5, 13.0)), CanaryMark(OTHER, "1.1", (14.25,)))


@pytest.mark.parametrize("seed", range(20))
def test_plan_is_by_seed_and_somebody_stays_well(seed: int) -> None:
    options = ChaosOptions(seed=seed, duration_s=300.0, agents=3)
    steps = schedule(options)
    assert steps == schedule(options)
    assert steps != schedule(ChaosOptions(seed=seed + 1, duration_s=300.0, agents=3))
    breaking = [step for step in steps if FAULTS[step.kind].breaks]
    for step in breaking:
        broken = {one.agent for one in breaking if one.at_s <= step.at_s < one.until_s}
        assert len(broken) < options.agents
    assert all(step.until_s <= options.duration_s + 0.01 for step in steps)
