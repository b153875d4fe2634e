"""Counts of use, kept along with changes, against sums made anew; and admission that never goes beyond a bound."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ares.core.quota.asked import asked_by
from ares.core.quota.counts import TENANT, Counts, QuotaLevel, is_live, levels_of, live, used_by
from ares.core.quota.judge import OverQuota, WithinQuota, judge
from ares.core.quota.measures import add, month_of, to_units
from ares.model.job import JobSpec, Resources
from ares.model.quota import Limit, Limits, Quota
from ares.model.state import JobState, Phase, Spent

_PHASES: tuple[Phase, ...] = ("PENDING", "STAGING", "RUNNING", "RETRYING", "PREEMPTED", "SUCCEEDED", "FAILED")
_ASKED = asked_by(JobSpec(command=("x",), resources=Resources(cpu_milli=300, memory_mib=7, gpus=1, gpu_milli=333)))
_MONTHS = (1_790_000_000.0, 1_795_000_000.0)
_amounts = st.floats(min_value=0.0, max_value=1e6, allow_nan=False)

states = st.builds(
    JobState,
    id=st.sampled_from([f"job{n}" for n in range(6)]),
    tenant=st.just("t"),
    name=st.just("n"),
    phase=st.sampled_from(_PHASES),
    team=st.sampled_from([None, "a", "b"]),
    submitted_by=st.sampled_from(["u", "v"]),
    gpu_s=_amounts,
    spent=st.lists(st.builds(Spent, cost=_amounts, fate=st.sampled_from(["kept", "lost"])), max_size=2).map(tuple),
    cost_estimate=_amounts,
    estimated_s=_amounts,
    output_bytes=st.integers(0, 10**9),
    ended_at=st.sampled_from(_MONTHS),
)


def _follow(counts: Counts, before: JobState | None, after: JobState | None) -> None:
    """As the service does it with a change of the view."""
    if before is not None and not is_live(before):
        counts.end(before, -1)
    if after is None:
        if before is not None:
            counts.drop(before.id)
    elif is_live(after):
        counts.put(after.id, live(after, _ASKED))
    else:
        counts.drop(after.id)
        counts.end(after)


@given(st.lists(st.tuples(states, st.booleans()), max_size=30))
def test_counts_are_the_sums_over_the_jobs_there_are(changes: list[tuple[JobState, bool]]) -> None:
    counts, jobs = Counts(), dict[str, JobState]()
    for state, removed in changes:
        before = jobs.get(state.id)
        # Whose job it is never changes.
        after = state if before is None else replace(state, team=before.team, submitted_by=before.submitted_by)
        _follow(counts, before, None if removed else after)
        if removed:
            jobs.pop(state.id, None)
        else:
            jobs[state.id] = after
    month = month_of(_MONTHS[1])
    for level in (
        TENANT,
        QuotaLevel("user", "u"),
        QuotaLevel("user", "v"),
        QuotaLevel("team", "a"),
        QuotaLevel("team", "b"),
    ):
        truth: dict[str, int] = {}
        for state in jobs.values():
            if level not in levels_of(state.team, state.submitted_by):
                continue
            if is_live(state):
                add(truth, live(state, _ASKED).amounts)
            else:
                add(truth, {"storage": state.output_bytes})
                add(truth, used_by(state) if month_of(state.ended_at or 0.0) == month else {})
        found = counts.used(level, month)
        assert {key: units for key, units in found.items() if units} == {k: v for k, v in truth.items() if v}


# What comes in pieces may be used up; of everything else, and of money above all, use stays below the threshold.
_IN_PIECES = ("gpus", "gpus.a100", "jobs", "jobs-queued")
_IN_ANY_PART = ("cpu", "memory", "gpu-hours", "budget", "storage")


@given(
    st.sampled_from([*_IN_PIECES, *_IN_ANY_PART]), st.floats(0.0, 500.0), st.integers(100, 1000),
    st.lists(st.integers(0, 1200), max_size=60),
)  # fmt: skip
def test_whatever_is_asked_for_in_whichever_order_use_stays_within_its_bound(
    measure: str, hard: float, threshold_milli: int, shares: list[int]
) -> None:
    quota = Quota(own=Limits(amounts={measure: Limit(hard=hard)}), threshold=threshold_milli / 1000)
    most, used = to_units(measure, hard), {measure: 0}
    for share in shares:
        units = 1 + most * share // 1000
        if isinstance(judge(quota, (TENANT,), lambda _: used, {measure: units}), WithinQuota):
            used[measure] += units
    whole = measure in _IN_PIECES or threshold_milli == 1000
    # The most that is not beyond the limit, or that does not reach the threshold of it.
    within = most if whole else (most * threshold_milli - 1) // 1000
    assert used[measure] <= max(0, within)
    # And nothing that fits is refused, nor is one unit more than that taken.
    left = within - used[measure]
    if left > 0:
        assert isinstance(judge(quota, (TENANT,), lambda _: used, {measure: left}), WithinQuota)
    assert isinstance(judge(quota, (TENANT,), lambda _: used, {measure: max(0, left) + 1}), OverQuota)
