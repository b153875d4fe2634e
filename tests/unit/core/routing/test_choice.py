"""Routing by cases worked by hand."""

import pytest
from msgspec.structs import replace

from ares.core.routing.choice import flip, moves_to, recomputed, route
from ares.core.routing.facts import DataRoute, RouteAsk, RouteOption, ShapeRoom
from ares.core.routing.terms import score, weighed
from ares.model.cluster import RouteDecision, RouteWeights

# One A100 for an hour; 100 GiB of data and an image of 10 GiB.
ASK = RouteAsk(
    cpu_milli=4000,
    memory_mib=1024,
    gpus=1,
    run_s=3600.0,
    inputs=(("imagenet", 100.0),),
    image="torch",
    image_gib=10.0,
)
A100 = ShapeRoom(cpu_milli=64_000, memory_mib=512_000, gpus=8, gpu_model="A100", free=4, price_per_hour=2.0)
# The data is in "near"; "far" is half the price.
NEAR = RouteOption(
    cluster="near",
    region="eu",
    shapes=(A100,),
    datasets=frozenset({"imagenet"}),
    images=frozenset({"torch"}),
    rtt_s=0.01,
)
FAR = RouteOption(
    cluster="far", region="us", shapes=(replace(A100, price_per_hour=1.0),),
    route=DataRoute(gib_per_s=0.5, egress_per_gib=0.02), rtt_s=0.1, report_age_s=2.0,
)  # fmt: skip
WEIGHTS = RouteWeights(money_s=100.0, rtt=1.0, age=0.5)


def _only(decision: RouteDecision, cluster: str) -> dict[str, float]:
    return next(weighed(routed.terms, decision.weights) for routed in decision.ranked if routed.cluster == cluster)


def test_every_term_of_two_clusters() -> None:
    decision = route(ASK, [NEAR, FAR], WEIGHTS)
    near = {"wait_s": 0, "boot_s": 0, "data_s": 0, "image_s": 0, "run_s": 3600, "run_cost": 200, "egress_cost": 0}
    assert _only(decision, "near") == pytest.approx({**near, "interruption_cost": 0, "rtt_s": 0.01, "age_s": 0})
    far = {"wait_s": 0, "boot_s": 0, "data_s": 200, "image_s": 20, "run_s": 3600, "run_cost": 100, "egress_cost": 200}
    assert _only(decision, "far") == pytest.approx({**far, "interruption_cost": 0, "rtt_s": 0.1, "age_s": 1})
    assert [routed.score for routed in decision.ranked] == pytest.approx([3800.01, 4121.1])
    assert decision.chosen == "near"


def test_the_kept_terms_recompute_to_the_kept_score() -> None:
    decision = route(ASK, [NEAR, FAR], WEIGHTS)
    assert recomputed(decision) == {routed.cluster: routed.score for routed in decision.ranked}


def test_the_term_that_would_flip_the_choice() -> None:
    decision = route(ASK, [NEAR, FAR], WEIGHTS)
    found = flip(decision)
    assert found is not None
    # 321.09 s to gain: of the run's 3,600 s that is the smallest part.
    assert (found.cluster, found.term) == ("far", "run_s")
    assert found.flips_at == pytest.approx(3600 - 321.09)
    changed = replace(decision.ranked[1].terms, run_s=found.flips_at - 0.001)
    assert score(changed, WEIGHTS) < decision.ranked[0].score
    assert score(replace(changed, run_s=found.flips_at + 0.001), WEIGHTS) > decision.ranked[0].score


def test_no_single_term_flips_what_is_far_behind() -> None:
    late = replace(FAR, report_age_s=60_000.0, shapes=(replace(A100, free=0, eta80_s=30_000.0),))
    found = flip(route(ASK, [NEAR, late], WEIGHTS))
    assert found is None
    assert flip(route(ASK, [NEAR], WEIGHTS)) is None


def test_offers_since_the_report_count_as_taken() -> None:
    """A burst of 12 jobs over two clusters with 4 places each: 4 and 4, and the rest by how fast they drain."""
    here = replace(NEAR, shapes=(replace(A100, eta80_s=600.0, drain_per_s=0.01),))
    there = replace(here, cluster="other", rtt_s=0.02)
    counts = {"near": 0, "other": 0}
    for _ in range(12):
        options = [
            replace(option, shapes=(replace(option.shapes[0], offered=counts[option.cluster]),))
            for option in (here, there)
        ]
        counts[route(ASK, options, WEIGHTS).chosen] += 1
    assert counts == {"near": 6, "other": 6}


def test_a_job_that_has_to_wait_is_told_by_the_report() -> None:
    full = replace(NEAR, shapes=(replace(A100, free=1, eta80_s=600.0, drain_per_s=0.01, offered=3),))
    # Three of the four before it, itself included, find no place: 600 s for the first, 100 s for each further one.
    assert _only(route(ASK, [full], WEIGHTS), "near")["wait_s"] == pytest.approx(800.0)


def test_what_may_be_interrupted_costs_the_work_that_is_lost() -> None:
    spot = replace(NEAR, shapes=(replace(A100, interruptions_per_hour=0.5),))
    assert _only(route(ASK, [spot], WEIGHTS), "near")["interruption_cost"] == pytest.approx(0.5 * 2.0 * 100)
    saving = replace(ASK, checkpoint_s=360.0)
    assert _only(route(saving, [spot], WEIGHTS), "near")["interruption_cost"] == pytest.approx(0.5 * 0.2 * 100)


def test_faster_machines_shorten_the_run_and_its_cost() -> None:
    fast = replace(A100, gpu_model="H100", speed=2.0, price_per_hour=3.0)
    both = replace(NEAR, shapes=(A100, fast))
    found = _only(route(ASK, [both], WEIGHTS), "near")
    assert (found["run_s"], found["run_cost"]) == pytest.approx((1800, 150))
    asked = replace(ASK, gpu_model="A100")
    assert _only(route(asked, [both], WEIGHTS), "near")["run_s"] == 3600


@pytest.mark.parametrize(
    ("ask", "option", "code", "message"),
    [
        (ASK, replace(NEAR, state="DRAINING"), "not-active", "it is DRAINING"),
        (replace(ASK, residency=("us",)), NEAR, "residency", "it is in eu, and the job may run in us"),
        (replace(ASK, residency=("us",)), replace(NEAR, region=""), "residency", "does not say where"),
        (replace(ASK, allowed=frozenset({"far"})), NEAR, "policy", "policy"),
        (replace(ASK, arch="arm64"), replace(NEAR, shapes=(replace(A100, arch="amd64"),)), "architecture", "arm64"),
        (replace(ASK, gpus=9), NEAR, "too-large", "none of its 1 kinds of machines has 4 cores, 9 GPUs"),
        (replace(ASK, budget=1.5), NEAR, "budget", "it would cost 2.00, and 1.50 are left"),
        (replace(ASK, deadline_s=3000.0), NEAR, "deadline", "in 3600 s, and must within 3000 s"),
    ],
)
def test_hard_rules(ask: RouteAsk, option: RouteOption, code: str, message: str) -> None:
    decision = route(ask, [option], WEIGHTS)
    assert decision.chosen == ""
    assert decision.refused[0].code == code
    assert message in decision.refused[0].message


def test_an_offer_moves_only_for_a_gain_that_matters() -> None:
    short = replace(ASK, run_s=100.0, inputs=(), image="")
    weights = RouteWeights(money_s=0.0, rtt=0.0, age=0.0)

    def waiting(eta80_s: float) -> RouteDecision:
        full = replace(NEAR, cluster="now", shapes=(replace(A100, free=0, eta80_s=eta80_s),))
        return route(short, [full, replace(NEAR, cluster="else")], weights)

    # 100 s against 160 s: the gain is no more than 60 s.
    assert moves_to(waiting(60.0), "now") == ""
    assert moves_to(waiting(61.0), "now") == "else"
    # 1,000 s against 1,150 s: more than 60 s, less than 15 %.
    short = replace(ASK, run_s=1000.0, inputs=(), image="")
    assert moves_to(waiting(150.0), "now") == ""
    assert moves_to(waiting(200.0), "now") == "else"
    assert moves_to(waiting(200.0), "else") == ""
    assert moves_to(waiting(200.0), "gone") == "else"
