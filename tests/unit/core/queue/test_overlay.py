"""An overlay of the queue reads as the queue would with the job in it, and leaves the queue as it was."""

from math import inf
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ares.core.queue.overlay import QueueOverlay
from ares.core.queue.waiting import JobClass, QueueView, WaitingQueue
from ares.model.profile import OrderPolicy, Weight
from tests.searching import examples
from tests.unit.core.world import spec, state

SETTLED = OrderPolicy(primary=(Weight(name="priority", weight=1.0),), secondary=())
MOVING = OrderPolicy(primary=(Weight(name="fair-share", weight=1.0),), secondary=())
FORMS = (
    spec(), spec(cpu=2), spec(cpu=2, labels={"a": "b"}), spec(priority="HIGH"), spec(deadline_at=50_000.0),
    spec(cpu=3, gap_min_s=60.0),
)  # fmt: skip
TIMES = st.sampled_from((60.0, 600.0, inf))
JOBS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, len(FORMS) - 1), TIMES, TIMES), max_size=12)


def queue_of(jobs: list[tuple[int, int, float, float]], order: OrderPolicy) -> WaitingQueue:
    made = WaitingQueue()
    made.settle(order)
    for number, form, runs_s, likely_s in jobs:
        made.add(state(f"j{number}", at=float(number % 4)), FORMS[form], runs_s, likely_s)
    return made


def shape(found: JobClass) -> tuple[Any, ...]:
    """Without the number of the class, which is of the process only."""
    return found.key, tuple(place[:4] for place in found.line.heads(100)), found.shortest_s


def read(queue: QueueView, ids: list[str]) -> dict[str, Any]:
    here = [job for job in ids if job in queue]
    return {
        "length": len(queue),
        "classes": sorted((shape(found) for found in queue.active.values()), key=repr),
        "jobs": {
            job: (
                shape(found), (queue.place_of(job) or ())[:4], queue.facts_of(job), queue.labels_of(job),
                queue.runs_of(job), queue.likely_of(job), queue.gap_of(job),
            )
            for job in here
            if (found := queue.class_of(job)) is not None
        },
    }  # fmt: skip


@given(JOBS, st.integers(0, 11), st.integers(0, len(FORMS) - 1), TIMES, TIMES, st.sampled_from((SETTLED, MOVING)))
@settings(max_examples=examples(200))
def test_reads_as_the_queue_would_and_leaves_it_alone(
    jobs: list[tuple[int, int, float, float]], asked: int, form: int, runs_s: float, likely_s: float, order: OrderPolicy
) -> None:
    ids = [f"j{number}" for number in range(12)]
    queue, other = queue_of(jobs, order), queue_of(jobs, order)
    job, wanted = state(f"j{asked}", at=float(asked % 4)), FORMS[form]
    before = read(queue, ids)
    overlay = QueueOverlay(queue, job, wanted, runs_s, likely_s)
    other.remove(job.id)
    other.add(job, wanted, runs_s, likely_s)
    mine, theirs = read(overlay, ids), read(other, ids)
    # The shortest time of a class outlasts the job that had it: the overlay may know of a shorter one.
    assert mine["length"] == theirs["length"]
    assert {name: row[1:] for name, row in mine["jobs"].items()} == {n: row[1:] for n, row in theirs["jobs"].items()}
    assert [row[:2] for row in mine["classes"]] == [row[:2] for row in theirs["classes"]]
    if order is SETTLED:
        assert [rank[2][3] for rank in overlay.ahead(job.id)] == [rank[2][3] for rank in other.ahead(job.id)]
    assert read(queue, ids) == before
