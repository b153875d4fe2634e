"""A class of which no job has room is done with at its first job, whatever the class was like before."""

import pytest

from ares.core.queue.factors import JobFacts
from ares.core.queue.order import Place
from ares.core.queue.waiting import ClassKey, facts_of
from ares.core.schedule import ranked_queue
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.quick_look import QuickLook
from ares.core.schedule.trial import Trial
from tests.unit.core.world import NOW, cluster, cycle_at, node, placed, run, spec, state

_LONG = [f"long{number}" for number in range(20)]


def behind_a_promise() -> Cluster:
    """Half of a node is busy for 100 s, and the first in line wants all of it: what it leaves is too short for the
    jobs behind, but for one."""
    made = cluster(node("n1", cpu=8))
    run(made, "busy", spec(cpu=4, time_limit_s=100.0), placed("n1", cpu=4), since=NOW)
    made.enqueue(state("wide", at=NOW - 1000.0), spec(cpu=8, time_limit_s=1000.0))
    made.enqueue(state("brief", at=NOW - 900.0), spec(cpu=4, time_limit_s=10.0, grace_s=0.0))
    for job in _LONG:
        made.enqueue(state(job, at=NOW - 800.0), spec(cpu=4, time_limit_s=5000.0))
    # Of one class alone no job needs a rank.
    made.enqueue(state("other", at=NOW - 100.0), spec(cpu=3, time_limit_s=5000.0))
    return made


def test_the_least_of_a_class_is_that_of_its_jobs_as_they_are_now() -> None:
    made = behind_a_promise()
    found = made.waiting.class_of("brief")
    assert found is not None
    assert found is made.waiting.class_of("long0")
    with Trial.what_if(made, NOW) as trial:
        assert QuickLook(trial).shortest(found) == 10.0
    made.dequeue("brief")
    with Trial.what_if(made, NOW) as trial:
        assert QuickLook(trial).shortest(found) == made.waiting.runs_of("long0") >= 5000.0


def test_a_class_whose_shortest_job_has_left_is_not_ranked_job_by_job(monkeypatch: pytest.MonkeyPatch) -> None:
    ranked: list[str] = []

    def noted(place: Place, key: ClassKey) -> JobFacts:
        ranked.append(place[3])
        return facts_of(place, key)

    monkeypatch.setattr(ranked_queue, "facts_of", noted)
    made = behind_a_promise()
    plan = cycle_at(made, made.profile, NOW, tells=False)
    assert [start.job for start in plan.placed] == ["brief"]
    made.dequeue("brief")
    ranked.clear()
    plan = cycle_at(made, made.profile, NOW, tells=False)
    assert not plan.placed
    assert {promise.job for promise in plan.promises} == {"wide"}
    assert len(set(ranked) & set(_LONG)) <= 2
