"""Where idle GPUs stay good for common jobs, in cases a person can check, and against the definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ares.core.ask import Ask
from ares.core.capacity.node_slice import ClusterFacts, Matching, NodeSlice, Typical, Wish
from ares.core.schedule.scorers.fragmentation import score
from tests.unit.core.schedule.nodes import Node, node, table
from tests.unit.core.schedule.worlds import MODELS, World, worlds


def typical(cpu: int, gpus: int = 1, milli: int = 1000, model: str | None = None, share: float = 1.0) -> Typical:
    return Typical(cpu * 1000, gpus, milli, Wish(model), share)


def facts(*shapes: Typical, **prices: float) -> ClusterFacts:
    """Prices by the model that is wished for."""
    wishes = tuple(dict.fromkeys(shape.wish for shape in shapes if shape.wish != Wish()))
    return ClusterFacts(
        typical=shapes,
        wishes=wishes,
        prices=tuple((1 << at, prices.get(wish.gpu_model or "", 0.0)) for at, wish in enumerate(wishes)),
    )


def scores(nodes: list[Node], ask: Ask, *shapes: Typical, **prices: float) -> dict[str, float]:
    rows = NodeSlice(table(*nodes), ask, slice(0, len(nodes)), facts(*shapes, **prices), Matching())
    said = score(rows)
    assert said is not None
    return dict(zip([one.record.info.name for one in nodes], said.tolist(), strict=True))


def best(nodes: list[Node], ask: Ask, *shapes: Typical, **prices: float) -> str:
    found = scores(nodes, ask, *shapes, **prices)
    ordered = sorted(found, key=lambda name: -found[name])
    assert found[ordered[0]] > found[ordered[1]], found
    return ordered[0]


def test_nothing_to_say_before_any_job_with_gpus_came() -> None:
    assert score(NodeSlice(table(node("a", gpus=1)), Ask(), slice(0, 1), ClusterFacts(), Matching())) is None


@pytest.mark.parametrize("ask", [Ask(), Ask(gpus=1), Ask(gpus=2, gpu_milli=500)])
def test_no_rows_get_no_scores(ask: Ask) -> None:
    """A decision about a job that no node can take looks at none; common jobs wish for a model."""
    nowhere = NodeSlice(
        table(node("a", gpus=1)),
        ask,
        np.array([], np.int64),
        facts(typical(1, model="A100")),
        Matching(),
    )
    scores = score(nowhere)
    assert scores is not None
    assert scores.tolist() == []


def test_half_a_gpu_goes_where_half_a_gpu_is_left() -> None:
    nodes = [node("fresh", gpus=2), node("half", gpus=2, gpus_used={1: 500})]
    assert best(nodes, Ask(gpus=1, gpu_milli=500), typical(1, share=0.5), typical(1, milli=500, share=0.5)) == "half"


def test_a_share_goes_where_the_rest_is_still_of_use() -> None:
    # 300 less leaves 500 of the one and 600 of the other: only the latter still takes a common 600.
    nodes = [node("800", gpus=1, gpus_used={0: 200}), node("900", gpus=1, gpus_used={0: 100})]
    assert best(nodes, Ask(gpus=1, gpu_milli=300), typical(1, milli=600)) == "900"


def test_cpus_are_not_taken_from_under_idle_gpus() -> None:
    nodes = [node("tight", cpu=16, gpus=4), node("roomy", cpu=64, gpus=4)]
    found = scores(nodes, Ask(cpu_milli=12_000), typical(4))
    # Four CPUs for one GPU: 12 fewer strand 3 GPUs on the one, none on the other.
    assert found == pytest.approx({"tight": 0.5 - 0.5 * 3 / 4, "roomy": 0.5})


def test_a_job_that_needs_few_cpus_goes_where_gpus_are_stranded() -> None:
    nodes = [node("roomy", cpu=64, gpus=4), node("starved", cpu=2, gpus=4)]
    assert best(nodes, Ask(cpu_milli=1000, gpus=1), typical(4)) == "starved"


def test_sets_of_gpus_stay_together_for_large_jobs() -> None:
    nodes = [node("whole", cpu=64, gpus=8), node("opened", cpu=64, gpus=8, gpus_used={0: 1000})]
    shapes = (typical(1, share=0.9), typical(8, gpus=8, share=0.1))
    assert best(nodes, Ask(cpu_milli=1000, gpus=1), *shapes) == "opened"


def test_a_model_asked_for_by_name_is_left_to_those_who_ask() -> None:
    nodes = [node("wanted", gpus=1, model=MODELS[0]), node("other", gpus=1, model=MODELS[1])]
    shapes = (typical(1, share=0.6), typical(1, model="A100", share=0.4))
    assert best(nodes, Ask(gpus=1), *shapes, A100=0.5) == "other"


def test_of_two_models_asked_for_by_name_the_scarcer_is_left_alone() -> None:
    nodes = [node("scarce", gpus=1, model=MODELS[0]), node("plenty", gpus=1, model=MODELS[1])]
    shapes = (typical(1, share=0.6), typical(1, model="A100", share=0.2), typical(1, model="A10", share=0.2))
    assert best(nodes, Ask(gpus=1), *shapes, A100=0.75, A10=0.25) == "plenty"


WISHES = st.builds(
    Wish,
    gpu_model=st.sampled_from([None, None, "A100", "A10", "H100"]),
    gpu_memory_mib=st.sampled_from([0, 0, 40_000]),
    selector=st.just(()),
    terms=st.just(()),
)
SHAPES = st.builds(
    Typical,
    cpu_milli=st.sampled_from([500, 1000, 3000]),
    gpus=st.sampled_from([1, 1, 2, 4]),
    gpu_milli=st.sampled_from([300, 600, 1000]),
    wish=WISHES,
    share=st.sampled_from([0.1, 0.3, 0.45]),
)
PICTURES = st.lists(SHAPES, min_size=1, max_size=4, unique_by=lambda shape: shape[:4]).map(tuple)


@given(worlds(), PICTURES)
def test_rows_alone_score_as_in_whole_columns(world: World, shapes: tuple[Typical, ...]) -> None:
    def said(at: object) -> np.ndarray:
        found = score(NodeSlice(world.table, world.ask, at, facts(*shapes), Matching()))  # pyright: ignore[reportArgumentType]
        assert found is not None
        return found

    whole = said(slice(None))
    count = len(world.nodes)
    assert ((whole > 0) & (whole < 1)).all()
    for at in [np.array([row]) for row in range(count)] + [np.arange(count)[::-1]]:
        assert said(at).tobytes() == whole[at].tobytes()


@given(worlds(), PICTURES)
def test_the_tables_equal_the_definition(world: World, shapes: tuple[Typical, ...]) -> None:
    rows = NodeSlice(world.table, world.ask, slice(0, len(world.nodes)), facts(*shapes), Matching())
    said = score(rows)
    assert said is not None
    ask = world.ask
    takes = (rows.cpu_free >= ask.cpu_milli) & (rows.gpus_free >= ask.gpus)
    for row in np.flatnonzero(takes).tolist():
        left = [max(0, milli) for milli in rows.gpu_left[row].tolist()]
        fits = [gpu for gpu in range(len(left)) if rows.gpu_fits[row, gpu]]
        after = list(left)
        for gpu in sorted(fits, key=lambda gpu: (left[gpu], gpu))[: ask.gpus]:
            after[gpu] -= ask.gpu_milli
        answers = [
            bool(world.table.answers(shape.wish.gpu_model, shape.wish.gpu_memory_mib)[row].any())
            or shape.wish == Wish()
            for shape in shapes
        ]
        cpu = int(rows.cpu_free[row])
        saved = _useless(shapes, answers, cpu, left) - _useless(shapes, answers, cpu - ask.cpu_milli, after)
        assert said[row] == pytest.approx(0.5 + 0.5 * saved / (1 + abs(saved)))


def _useless(shapes: tuple[Typical, ...], answers: list[bool], cpu: int, left: list[int]) -> float:
    """Idle GPU that the shapes could not use, shape by shape."""
    idle, whole, total = sum(left), left.count(1000), 0.0
    for shape, answered in zip(shapes, answers, strict=True):
        if not answered:
            continue
        if shape.gpus > 1 and shape.gpu_milli == 1000:
            sets = min(whole // shape.gpus, cpu // shape.cpu_milli)
            total += shape.share * (idle / 1000 - sets * shape.gpus)
        else:
            served = cpu * shape.gpus * shape.gpu_milli / shape.cpu_milli
            rests = sum(milli % shape.gpu_milli for milli in left)
            total += shape.share * (max(0, idle - served) + rests) / 1000
    return total
