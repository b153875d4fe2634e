"""A report as one job meets it, by cases worked by hand."""

import pytest
from msgspec.structs import replace

from ares.core.routing.choice import look, route
from ares.core.routing.facts import RouteAsk, ShapeRoom
from ares.core.routing.options import kind_of, option_of
from ares.model.cluster import ClusterRecord, RouteRefusal, RouteWeights
from ares.model.uplink import ClusterReport, ReportedEta, ReportedRoom, ReportedShape

RECORD = ClusterRecord(name="east", code="001", state="ACTIVE", region="eu")
# Ten machines of 8 GPUs: on four of them 2 GPUs are free, on one of them 8.
NODES = ReportedShape(
    cpu_milli=64_000, memory_mib=512_000, gpus=8, gpu_model="NVIDIA A100 80GB", pool="gold", nodes=10,
    free_cpu_milli=128_000, free_memory_mib=1_000_000, free_gpus=16,
    rooms=(
        ReportedRoom(machines=4, cpu_milli=16_000, memory_mib=128_000, gpus=2),
        ReportedRoom(machines=1, cpu_milli=64_000, memory_mib=512_000, gpus=8),
    ),
    etas=(
        ReportedEta(cpu_milli=8000, memory_mib=64_000, gpus=1, eta80_s=60.0),
        ReportedEta(cpu_milli=64_000, memory_mib=512_000, gpus=8, eta80_s=900.0),
        ReportedEta(cpu_milli=64_000, memory_mib=512_000, gpus=8, ranks=10, eta80_s=7200.0),
    ),
    drain_hour=2.0, gpu_hour=2.0, cpu_hour=0.1,
)  # fmt: skip
REPORT = ClusterReport(
    cluster="east", incarnation=1, seq=7, shapes=(NODES,), ready_nodes=10, rtt_ms=40, labels=("pool=gold", "tier=a"),
    datasets=("imagenet",),
)  # fmt: skip
ASK = RouteAsk(cpu_milli=8000, memory_mib=32_000, gpus=1, run_s=3600.0)


def _room(ask: RouteAsk, lent: tuple[int, int, int] = (0, 0, 0), shape: ReportedShape = NODES) -> ShapeRoom:
    option = option_of(RECORD, replace(REPORT, shapes=(shape,)), 1.0, ask, {kind_of(shape): lent})
    return option.shapes[0]


def test_room_counts_where_it_is() -> None:
    assert _room(ASK).free == 4 * 2 + 8
    assert _room(replace(ASK, gpus=4)).free == 2
    assert _room(replace(ASK, gpus=8)).free == 1
    assert _room(replace(ASK, per_node=1)).free == 5
    # Without a word about where it is, as one heap.
    assert _room(replace(ASK, gpus=4), shape=replace(NODES, rooms=())).free == 4


def test_what_was_offered_takes_room_of_its_own_kind_only() -> None:
    assert _room(ASK, lent=(8000, 32_000, 1)).offered == 1
    assert _room(ASK, lent=(8000, 32_000, 20)).offered == 20
    # CPUs that were offered take no GPU, while there are more of them than jobs with GPUs can use.
    assert _room(replace(ASK, cpu_milli=1000), lent=(60_000, 0, 0)).offered == 0


@pytest.mark.parametrize(("ask", "eta"), [
    (ASK, 60.0),
    (replace(ASK, gpus=2), 900.0),
    (replace(ASK, memory_mib=100_000), 900.0),
    (replace(ASK, ranks=3), 7200.0),
    (replace(ASK, ranks=11), 7200.0),
])  # fmt: skip
def test_a_start_is_that_of_the_next_larger_size(ask: RouteAsk, eta: float) -> None:
    assert _room(ask).eta80_s == eta


def test_a_cluster_that_does_not_say_when_is_judged_by_its_queue() -> None:
    report = replace(REPORT, shapes=(replace(NODES, etas=()),), pending=20)
    assert option_of(RECORD, report, 1.0, ASK, {}).shapes[0].eta80_s == 60.0 * 3


def test_prices_are_of_one_rank_and_places_drain_by_what_a_machine_holds() -> None:
    room = _room(replace(ASK, gpus=4))
    assert room.price_per_hour == pytest.approx(4 * 2.0 + 8 * 0.1)
    # Two machines an hour, two ranks each.
    assert room.drain_per_s == pytest.approx(4 / 3600)


def test_run_times_by_model_are_matched_by_words() -> None:
    named = replace(ASK, gpu_model="A100", runs=(("A100", 1200.0), ("H100", 600.0)))
    assert _room(named).speed == 3.0
    assert isinstance(look(replace(ASK, gpu_model="H100"), option_of(RECORD, REPORT, 1.0, ASK, {}), RouteWeights()),
                      RouteRefusal)  # fmt: skip


@pytest.mark.parametrize(("ask", "code", "message"), [
    (replace(ASK, selector=("tier=b",)), "selector", "none of its machines has the label tier=b"),
    (replace(ASK, ranks=100, min_ranks=81), "too-large", "its machines hold 80 of the job's 81 ranks"),
    (replace(ASK, preemptible=False), "too-large", "for a job that must not be taken away"),
])  # fmt: skip
def test_hard_rules_of_reports(ask: RouteAsk, code: str, message: str) -> None:
    spot = replace(REPORT, shapes=(replace(NODES, spot=not ask.preemptible),))
    (no,) = route(ask, [option_of(RECORD, spot, 1.0, ask, {})]).refused
    assert no.code == code
    assert message in no.message


def test_a_silent_cluster_is_named_as_such_and_labels_beyond_a_report_refuse_nothing() -> None:
    (no,) = route(ASK, [option_of(RECORD, REPORT, 42.0, ASK, {})]).refused
    assert (no.code, no.message) == ("silent", "it last reported 42 s ago, and 15 s are the most")
    (no,) = route(ASK, [option_of(RECORD, None, None, ASK, {})]).refused
    assert (no.code, no.message) == ("silent", "it has not reported yet")
    many = replace(REPORT, more_labels=True)
    wanted = replace(ASK, selector=("tier=b",))
    assert route(wanted, [option_of(RECORD, many, 1.0, wanted, {})]).chosen == "east"
