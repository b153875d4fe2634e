"""Checkpoints: which are accepted, from which attempt, and what an attempt that is taken away loses."""

from typing import Any

import pytest
from msgspec.structs import replace

from ares.check.store.ledger import replay
from ares.core.lifecycle.checkpoints import is_told
from ares.core.lifecycle.graph import begin, step
from ares.core.lifecycle.inputs import (
    Bind,
    Cancel,
    CheckpointDamaged,
    CheckpointSealed,
    Context,
    Exit,
    Input,
    LeaseLost,
    Preempt,
    RankStarted,
    Release,
    Stepped,
)
from ares.core.refusal import Refusal
from ares.model.base import Fence
from ares.model.checkpoint import (
    CheckpointId,
    CheckpointPart,
    CheckpointPointer,
    CheckpointPolicy,
    CheckpointRecord,
)
from ares.model.job import JobSpec, Resources
from ares.model.state import ExitInfo, Job, JobState, LedgerEvent, Placement, Rate

FIRST = Fence(epoch=1, counter=1)
PLACE = Placement(node="n1", incarnation=1, cpu_milli=1000, memory_mib=64)


def sealed(seq: int, fence: Fence = FIRST, taken_at: float = 20.0) -> CheckpointSealed:
    pointer = CheckpointPointer(fence=fence, seq=seq, manifest=f"{seq:064x}", size=10, step=10 * seq, taken_at=taken_at)
    parts = (CheckpointPart(rank=0, manifest=f"{seq:064x}", size=10),)
    return CheckpointSealed(fence=fence, rank=0, record=CheckpointRecord(job="j1", pointer=pointer, parts=parts))


def played(*inputs: tuple[float, Input], **changes: Any) -> tuple[JobSpec, JobState]:
    """A job after these, at their times; all of them apply."""
    spec = JobSpec(command=("train",), resources=Resources(cpu_milli=1000), checkpoint=CheckpointPolicy(), **changes)
    state = begin(
        id="j1", tenant="t", spec=spec, name="train", submitted_by="anna", context=Context(now=0.0, jitter=0.0)
    ).state
    for at, what in inputs:
        stepped = said(spec, state, what, at)
        assert isinstance(stepped, Stepped), stepped
        state = stepped.state
    return spec, state


def said(spec: JobSpec, state: JobState, what: Input, at: float = 100.0) -> Stepped | Refusal:
    return step(Job(spec=spec, state=state), what, Context(now=at, jitter=0.0))


BOUND = (10.0, Bind(placements=(PLACE,), rates=(Rate(per_hour=3600.0),)))
RUNS = (10.0, RankStarted(fence=FIRST, at=10.0))
TAKEN_AWAY = (40.0, Preempt(fence=FIRST, by="scheduler", reason="for another"))


def test_a_newer_checkpoint_becomes_the_pointer_with_its_record_and_its_entry() -> None:
    spec, state = played(BOUND, RUNS)
    first = said(spec, state, sealed(3))
    assert isinstance(first, Stepped)
    assert first.checkpoint is not None
    assert first.state.checkpoint == first.checkpoint.pointer
    assert [(event.kind, event.data["checkpoint"], event.data["step"]) for event in first.events] == [
        ("checkpointed", 3, 30)
    ]
    for seq in (3, 2):
        no = said(spec, first.state, sealed(seq))
        assert isinstance(no, Refusal)
        assert "is not newer than 1.1/3" in no.message


def test_an_earlier_attempt_never_comes_back_however_high_its_number() -> None:
    spec, state = played(BOUND, RUNS, (11.0, sealed(1)), (12.0, LeaseLost(fence=FIRST, reason="silent")))
    assert state.phase == "RETRYING"
    late = said(spec, state, sealed(99))
    assert isinstance(late, Refusal)


@pytest.mark.parametrize(
    ("then", "accepted"),
    [
        ((), True),
        ((Release(fence=FIRST, ranks=(0,)),), False),
        ((Cancel(by="anna"),), False),
    ],
)
def test_a_preempted_attempt_saves_while_it_holds_its_place_and_no_longer(
    then: tuple[Input, ...], accepted: bool
) -> None:
    spec, state = played(BOUND, RUNS, TAKEN_AWAY, *((50.0, what) for what in then))
    assert isinstance(said(spec, state, sealed(1)), Stepped) is accepted
    other = said(spec, state, sealed(1, fence=Fence(epoch=1, counter=2)))
    assert isinstance(other, Refusal)


def test_the_time_it_was_taken_lies_between_the_grant_and_now() -> None:
    spec, state = played(BOUND, RUNS)
    for told, kept in ((1e9, 100.0), (1.0, 10.0), (20.0, 20.0)):
        stepped = said(spec, state, sealed(1, taken_at=told))
        assert isinstance(stepped, Stepped)
        assert stepped.state.checkpoint is not None
        assert stepped.state.checkpoint.taken_at == kept


def costs(state: JobState) -> dict[str, float]:
    return {spent.fate: round(spent.cost, 6) for spent in state.spent if round(spent.cost, 6)}


def test_only_work_since_the_checkpoint_is_lost_when_an_attempt_fails() -> None:
    failed = Exit(fence=FIRST, exit=ExitInfo(code=1, failure="exit"))
    _, without = played(BOUND, RUNS, (50.0, failed))
    assert costs(without) == {"lost": 40.0}
    _, with_one = played(BOUND, RUNS, (21.0, sealed(1, taken_at=20.0)), (50.0, failed))
    assert costs(with_one) == {"kept": 10.0, "lost": 30.0}


def test_a_checkpoint_on_the_way_out_saves_what_was_counted_as_lost() -> None:
    _, gone = played(BOUND, RUNS, (21.0, sealed(1, taken_at=20.0)), TAKEN_AWAY)
    assert costs(gone) == {"kept": 10.0, "lost": 20.0}
    _, half = played(BOUND, RUNS, (21.0, sealed(1, taken_at=20.0)), TAKEN_AWAY, (41.0, sealed(2, taken_at=30.0)))
    assert costs(half) == {"kept": 20.0, "lost": 10.0}
    _, all_of_it = played(BOUND, RUNS, TAKEN_AWAY, (45.0, sealed(2, taken_at=44.0)))
    assert costs(all_of_it) == {"kept": 30.0}


def test_a_damaged_checkpoint_is_told_once_and_left_out() -> None:
    spec, state = played(BOUND)
    bad = CheckpointId(fence=Fence(epoch=1, counter=0), seq=7)
    told = said(spec, state, CheckpointDamaged(fence=FIRST, rank=0, checkpoint=bad, reason="cut"))
    assert isinstance(told, Stepped)
    assert (told.state.damaged, told.events[0].kind, told.events[0].reason) == ((bad,), "checkpoint-damaged", "cut")
    assert isinstance(
        said(spec, told.state, CheckpointDamaged(fence=FIRST, rank=0, checkpoint=bad, reason="cut")), Refusal
    )


def test_metrics_are_in_the_record_and_not_in_the_ledger() -> None:
    spec, state = played(BOUND, RUNS)
    what = sealed(3)
    stepped = said(spec, state, replace(what, record=replace(what.record, metrics={"loss": 0.5})))
    assert isinstance(stepped, Stepped)
    assert stepped.checkpoint is not None
    assert stepped.checkpoint.metrics == {"loss": 0.5}
    assert [sorted(event.data) for event in stepped.events] == [["bytes", "checkpoint", "nth", "step"]]


def test_an_attempt_finds_no_damage_in_what_came_after_it() -> None:
    spec, state = played(BOUND)
    own = CheckpointDamaged(fence=FIRST, rank=0, checkpoint=CheckpointId(fence=FIRST, seq=7), reason="cut")
    assert isinstance(said(spec, state, own), Refusal)


def test_a_job_without_checkpoints_keeps_no_account_of_what_is_unsaved() -> None:
    spec, state = played(BOUND, RUNS)
    plain = said(replace(spec, checkpoint=None), state, TAKEN_AWAY[1], 40.0)
    assert isinstance(plain, Stepped)
    assert plain.state.unsaved is None


def test_a_job_that_saves_without_end_has_a_ledger_that_ends() -> None:
    assert [nth for nth in range(1, 2000) if is_told(nth)] == [
        *range(1, 11),
        *range(20, 101, 10),
        *range(200, 1001, 100),
    ]
    spec, state = played(BOUND, RUNS)
    before, entries = state.seq, list[LedgerEvent]()
    for seq in range(1, 301):
        stepped = said(spec, state, sealed(seq), 20.0 + seq)
        assert isinstance(stepped, Stepped)
        assert stepped.checkpoint is not None
        entries += stepped.events
        state = stepped.state
    assert state.checkpoint is not None
    assert (state.checkpoint.seq, state.checkpoint.nth) == (300, 300)
    assert state.seq - before == len(entries) == 21
    assert [entry.data["nth"] for entry in entries[-3:]] == [100, 200, 300]


def test_a_ledger_with_checkpoints_is_whole() -> None:
    """Also one that was saved on the way out, and one that was found damaged."""
    spec, state = JobSpec(command=("train",), checkpoint=CheckpointPolicy()), None
    begun = begin(id="j1", tenant="t", spec=spec, name="n", submitted_by="a", context=Context(now=0.0, jitter=0.0))
    state, ledger = begun.state, list(begun.events)
    again = Fence(epoch=1, counter=3)
    gone = CheckpointDamaged(fence=again, rank=0, checkpoint=CheckpointId(fence=FIRST, seq=2), reason="x")
    for what in (
        BOUND[1], RUNS[1], sealed(1), TAKEN_AWAY[1], sealed(2), Release(fence=FIRST, ranks=(0,)),
        BOUND[1], gone,
    ):  # fmt: skip
        stepped = said(spec, state, what)
        assert isinstance(stepped, Stepped), (what, stepped)
        state, ledger = stepped.state, [*ledger, *stepped.events]
    told, wrong = replay(ledger)
    assert wrong == []
    assert told.kinds["checkpointed"] == 2
    assert told.kinds["checkpoint-damaged"] == 1
