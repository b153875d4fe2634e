"""Which shapes are common, what is asked for by name, and what that makes GPUs of each kind worth."""

import msgspec
import pytest

from ares.control.planner.messages import News
from ares.core.ask import Ask
from ares.core.capacity.node_slice import Wish
from ares.core.capacity.typical import Typicals
from ares.core.capacity.wishes import facts_of, kinds_of, prices_of
from ares.core.schedule.cluster import Cluster
from ares.core.schedule.follower import follow
from ares.model.job import JobSpec, NodeTerm, Resources
from ares.model.state import JobState
from tests.unit.core.schedule.nodes import node, table

WEEK = 7 * 86_400.0
A100, H100 = Wish("A100"), Wish("H100")


def counted(*asks: tuple[Ask, float]) -> Typicals:
    found = Typicals()
    for ask, at in asks:
        found.count(ask, at)
    return found


def test_a_job_a_week_older_counts_half() -> None:
    old, new = Ask(gpus=1), Ask(gpus=2)
    shares = {shape.gpus: shape.share for shape in counted((old, 0.0), (new, WEEK)).top()}
    assert shares == pytest.approx({1: 1 / 3, 2: 2 / 3})


def test_the_order_in_which_jobs_become_known_does_not_matter() -> None:
    jobs = [(Ask(gpus=1), 3 * WEEK), (Ask(gpus=2), 0.0), (Ask(gpus=4), 90 * WEEK)]
    there, back = counted(*jobs).top(), counted(*reversed(jobs)).top()
    assert [shape[:4] for shape in there] == [shape[:4] for shape in back]
    assert [shape.share for shape in there] == pytest.approx([shape.share for shape in back])


def test_ranks_count_each() -> None:
    shares = {
        shape.cpu_milli: shape.share for shape in counted((Ask(gpus=1, ranks=3), 0.0), (Ask(2000, gpus=1), 0.0)).top()
    }
    assert shares == pytest.approx({1000: 0.75, 2000: 0.25})


def test_another_picture_goes_on_from_the_same_mix() -> None:
    first = counted((Ask(gpus=1, gpu_model="A100"), 5.0), (Ask(gpus=4), WEEK))
    second = Typicals()
    second.restore(first.data)
    for picture in (first, second):
        picture.count(Ask(gpus=1), 2 * WEEK)
    assert first.top() == second.top()
    assert first.named() == second.named()


def test_shapes_without_end_are_bounded_and_heavy_ones_stay() -> None:
    seen = Typicals()
    for at in range(10_000):
        seen.count(Ask(cpu_milli=1 + at, gpus=1))
        seen.count(Ask(gpus=8))
    assert len(seen.data.weights) <= 4096
    assert seen.top()[0].gpus == 8


def test_shapes_are_renewed_when_half_as_much_again_came() -> None:
    seen = Typicals()
    renewals: list[int] = []
    for at in range(1, 101):
        if seen.count(Ask(gpus=1)):
            seen.top()
            renewals.append(at)
    assert renewals == [8, 20, 38, 65]


def prices(**parts: float) -> dict[str, float]:
    """By node, on one with two A100 and one with six H100."""
    nodes = table(node("a", gpus=2, model="NVIDIA A100"), node("h", gpus=6, model="NVIDIA H100"))
    named = tuple((Wish(model), part) for model, part in parts.items())
    kinds = kinds_of(nodes, tuple(wish for wish, _ in named))
    known = dict(prices_of(nodes, named))
    return {name: known.get(kinds.answers[kinds.column.item(row)], 0.0) for row, name in enumerate(("a", "h"))}


def test_a_price_is_the_part_of_the_models_gpus_that_will_be_asked_for_by_name() -> None:
    # Of eight GPUs an eighth is one of two A100, three eighths are three of six H100.
    assert prices(A100=1 / 8, H100=3 / 8) == {"a": 0.5, "h": 0.5}
    assert prices(A100=1 / 8) == {"a": 0.5, "h": 0.0}
    assert prices(A100=0.9) == {"a": 1.0, "h": 0.0}


def test_what_every_node_answers_to_has_no_price() -> None:
    nodes = table(node("a", gpus=2, model="NVIDIA A100"), node("b", gpus=2, model="NVIDIA A100"))
    assert prices_of(nodes, ((A100, 1.0),)) == ()


def test_a_wish_for_any_of_several_goes_where_least_is_asked_for() -> None:
    names = ("A100", "H100", "L40")
    nodes = table(*(node(name, gpus=4, model=f"NVIDIA {name}", info={"labels": {"gpu": name}}) for name in names))
    either = Wish(terms=(NodeTerm(key="gpu", values=("A100", "H100")),))
    found = dict(prices_of(nodes, ((A100, 0.25), (either, 0.25))))
    # Three of four A100 are asked for by name, so three for either go to H100.
    assert sorted(found.values()) == [0.75, 0.75]
    assert sorted(dict(prices_of(nodes, ((A100, 0.125), (either, 0.375)))).values()) == [0.75, 0.75]


def test_kinds_follow_the_nodes() -> None:
    nodes = table(node("a", gpus=2, model="NVIDIA A100"), node("h", gpus=6, model="NVIDIA H100"))
    seen = counted((Ask(gpus=1, gpu_model="H100"), 0.0), (Ask(gpus=1), 0.0))
    before = facts_of(nodes, seen)
    assert before.prices == ((1, round(32 * 4 / 6) / 32),)
    nodes.drop(1)
    assert facts_of(nodes, seen).prices == ()


def test_jobs_that_ended_before_a_restart_still_count_and_planners_are_told() -> None:
    spec = JobSpec(
        command=("train",),
        resources=Resources(gpus=2, gpu_model="A100"),
        affinity=(NodeTerm(key="zone", values=("a",)),),
    )
    ended = JobState(
        id="j", tenant="t", name="j", submitted_by="u", phase="SUCCEEDED", submitted_at=5.0, queued_at=5.0, ended_at=9.0
    )
    leader, planner = Cluster(), Cluster()
    follow(leader, None, ended, spec, 10.0)
    sent = msgspec.msgpack.encode(News(now=10.0, typical=leader.typicals.data))
    told = msgspec.msgpack.decode(sent, type=News).typical
    assert told is not None
    planner.know_typical(told)
    wish = Wish("A100", 0, (), (NodeTerm(key="zone", values=("a",)),))
    assert planner.typicals.named() == leader.typicals.named() == ((wish, 1.0),)
    planner.prepare()
    assert planner.evaluations.facts.typical == leader.typicals.top()
