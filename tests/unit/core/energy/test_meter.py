"""Energy and cost of a job through retries, preemptions and resizes: the sum of its rate over the time it held it."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ares.api.usage import By, UsageReport
from ares.core.lifecycle.graph import begin, step
from ares.core.lifecycle.inputs import (
    Bind,
    Cancel,
    Context,
    Exit,
    Input,
    LeaseLost,
    Preempt,
    RanksResized,
    RankStarted,
    Release,
    RetryDue,
    Stepped,
    VerdictDue,
)
from ares.core.lifecycle.ranks import held, next_rank
from ares.core.lifecycle.usage_report import UsageSum, use_of
from ares.model.job import Gang, JobSpec, RetryPolicy
from ares.model.state import BOUND, ExitInfo, Fence, Job, JobState, Placement, Rate

# One node in each: what a rank draws and costs there.
NODES = {
    "a": Rate(pool="p", gpu_model="A100", watts=400.0, per_hour=3.6),
    "b": Rate(pool="p", gpu_model="T4", watts=70.0, per_hour=0.36),
    "c": Rate(pool="q", gpu_model="A100", watts=410.0, per_hour=1.8),
}
SPEC = JobSpec(command=("true",), gang=Gang(ranks=4, min_ranks=1), retry=RetryPolicy(limit=100))


def usage(states: list[JobState], by: By, since: float, now: float, limit: int) -> UsageReport:
    """One job at a time, as a report in strides adds them."""
    found = UsageSum(by, since, now)
    for state in states:
        found.add([state])
    return found.report(limit)


def rates(places: tuple[Placement, ...]) -> tuple[Rate, ...]:
    found = tuple(NODES[place.node] for place in places)
    return found[:1] if len(set(found)) == 1 else found


@dataclass
class Story:
    """A job and, apart from its record, what its ranks drew and cost second by second."""

    now: float = 1000.0
    job: Job = field(init=False)
    joules: float = 0.0
    cost: float = 0.0
    lost_gpu_s: float = 0.0
    attempt_gpu_s: float = 0.0

    def __post_init__(self) -> None:
        born = begin(
            id="j", tenant="t", spec=SPEC, name="n", submitted_by="u", context=Context(now=self.now, jitter=0.0)
        )
        self.job = Job(spec=SPEC, state=born.state)

    @property
    def state(self) -> JobState:
        return self.job.state

    def pass_time(self, seconds: float) -> None:
        if self.state.phase in BOUND:
            for place in self.state.placements:
                rate = NODES[place.node]
                self.joules += rate.watts * seconds
                self.cost += rate.per_hour * seconds / 3600
                self.attempt_gpu_s += len(place.gpus) * seconds
        self.now += seconds

    def do(self, what: Input) -> None:
        before = self.state.phase
        stepped = step(self.job, what, Context(now=self.now, jitter=0.0))
        assert isinstance(stepped, Stepped), stepped
        self.job = Job(spec=SPEC, state=stepped.state)
        if before in BOUND and self.state.phase not in BOUND:
            self.lost_gpu_s += self.attempt_gpu_s if self.state.phase in ("RETRYING", "PREEMPTED") else 0.0
            self.attempt_gpu_s = 0.0

    def happen(self, what: str, nodes: list[str]) -> None:
        state = self.state
        places = tuple(
            Placement(node=node, incarnation=1, cpu_milli=1000, memory_mib=1, gpus=(0,), rank=rank)
            for rank, node in enumerate(nodes)
        )
        if what == "bind" and state.phase == "PENDING":
            self.do(Bind(placements=places, rates=rates(places)))
            for place in places:
                self.do(RankStarted(fence=self.state.fence, rank=place.rank))
        elif what == "resize" and state.phase == "RUNNING":
            kept = tuple(place for place in state.placements if place.node in nodes and place.rank % 2 == 0)
            kept = kept or state.placements[:1]
            first = next_rank(state)
            more = tuple(
                Placement(node=node, incarnation=1, cpu_milli=1000, memory_mib=1, gpus=(0,), rank=first + n)
                for n, node in enumerate(nodes[: 4 - len(kept)])
            )
            if (*kept, *more) != state.placements:
                self.do(
                    RanksResized(fence=state.fence, placements=(*kept, *more), reason="", rates=rates((*kept, *more)))
                )
                for place in more:
                    self.do(RankStarted(fence=self.state.fence, rank=place.rank))
        elif what == "lose" and state.phase == "RUNNING":
            self.do(LeaseLost(fence=state.fence, reason="silent", ranks=(state.placements[-1].rank,)))
        elif what == "preempt" and state.phase in BOUND:
            self.do(Preempt(fence=state.fence, by="x", reason="r"))
        elif what == "fail" and state.phase in BOUND:
            self.do(Exit(fence=state.fence, exit=ExitInfo(failure="exit", code=1), rank=state.placements[0].rank))
            if self.state.failing:
                self.do(VerdictDue(fence=state.fence))
        elif what == "gone" and (state.lingering or state.leaving):
            ranks = tuple(place.rank for place in (state.leaving if state.phase in BOUND else held(state)))
            revoked = state.fence if state.phase in BOUND else Fence(epoch=1, counter=state.fence.counter - 1)
            self.do(Release(fence=revoked, ranks=ranks))
        elif what == "again" and state.phase == "RETRYING" and not state.lingering:
            self.do(RetryDue(seq=state.seq))


EVENTS = st.tuples(
    st.sampled_from(["bind", "bind", "bind", "resize", "resize", "lose", "preempt", "fail", "gone", "gone", "again"]),
    st.lists(st.sampled_from("abc"), min_size=1, max_size=4),
    st.sampled_from([0.0, 1.0, 90.0, 3600.0]),
)


@given(st.lists(EVENTS, max_size=25), st.booleans())
def test_what_a_job_used_is_its_rate_over_the_time_it_held_it(
    events: list[tuple[str, list[str], float]], end: bool
) -> None:
    story = Story()
    for what, nodes, seconds in events:
        story.happen(what, nodes)
        story.pass_time(seconds)
    if end:
        story.do(Cancel(by="u"))
    used = use_of([story.state], story.now)
    assert used.energy_wh * 3600 == pytest.approx(story.joules)
    assert used.cost == pytest.approx(story.cost)
    assert used.lost_gpu_s == pytest.approx(story.lost_gpu_s)
    for by in ("tenant", "pool", "gpu-model", "job"):
        report = usage([story.state], by, 0.0, story.now, 100)
        assert sum(row.energy_kwh for row in report.rows) == pytest.approx(story.joules / 3.6e6)
        assert report.total.gpu_hours * 3600 == pytest.approx(used.gpu_s)
        assert sum(row.wasted_gpu_hours for row in report.rows) * 3600 == pytest.approx(story.lost_gpu_s)


def test_by_pool_every_attempt_counts_where_it_ran() -> None:
    story = Story()
    for what, nodes, seconds in (
        ("bind", ["a"], 3600.0),
        ("fail", [], 5.0),
        ("again", [], 5.0),
        ("bind", ["c", "b"], 1800.0),
    ):
        story.happen(what, nodes)
        story.pass_time(seconds)
    rows = {row.key: row for row in usage([story.state], "pool", 0.0, story.now, 10).rows}
    assert (rows["p"].gpu_hours, rows["p"].wasted_gpu_hours) == (1.5, 1.0)
    assert (rows["q"].gpu_hours, rows["q"].wasted_gpu_hours, rows["q"].cost) == (0.5, 0.0, 0.9)
    assert rows["p"].energy_kwh == pytest.approx((400.0 + 35.0) / 1000)
    assert (rows["p"].jobs, rows["q"].jobs) == (1, 1)


def test_only_jobs_count_that_ended_since_or_have_not_ended() -> None:
    old = JobState(id="o", tenant="t", name="x", phase="SUCCEEDED", ended_at=10.0, submitted_at=1.0, gpu_s=3600.0)
    new = JobState(id="n", tenant="u", name="x", phase="FAILED", ended_at=50.0, submitted_at=2.0, gpu_s=7200.0)
    report = usage([old, new], "tenant", 20.0, 100.0, 10)
    assert [(row.key, row.jobs, row.gpu_hours) for row in report.rows] == [("u", 1, 2.0)]
    assert report.known_since == 1.0
    # What was used before rates were known is in the sum, and nowhere in particular.
    assert [row.key for row in usage([old], "pool", 0.0, 100.0, 10).rows] == ["(not known)"]
    assert usage([old, new], "job", 0.0, 100.0, 1).groups == 2
