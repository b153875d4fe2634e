"""Filters about what nodes are: they say the same of busy and of idle ones."""

import pytest

from ares.core.ask import Ask
from ares.core.schedule.filters import FILTERS, isolation, pods
from ares.model.job import NodeTerm, TermOp
from ares.model.node import Gpu, Taint
from ares.model.profile import Profile
from tests.unit.core.schedule.nodes import node, passing, refusal

NODES = [
    node("n0", info={"labels": {"disk": "ssd", "zone": "a", "gen": "9"}, "region": "eu"}),
    node("n1", info={"labels": {"disk": "ssd", "zone": "b", "gen": "10"}, "region": "us"}),
    node("n2", info={"labels": {"gen": "new"}}),
]


def test_every_filter_of_the_default_profile_is_built_in() -> None:
    assert list(FILTERS) == list(Profile().filters)


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("ever", [False, True])
def test_without_nodes_there_is_one_reason(name: str, ever: bool) -> None:
    reason = refusal(name, [], Ask(), ever=ever)
    assert (reason.code, reason.message) == ("NO_NODES", "no node is registered")


def test_a_selector_wants_every_label() -> None:
    assert passing("selector", NODES, Ask()) is None
    assert passing("selector", NODES, Ask(selector=(("disk", "ssd"),))) == ["n0", "n1"]
    assert passing("selector", NODES, Ask(selector=(("disk", "ssd"), ("zone", "b")))) == ["n1"]
    assert passing("selector", NODES, Ask(selector=(("disk", "never seen"),))) == []


def test_the_selector_names_what_the_nearest_node_lacks() -> None:
    reason = refusal("selector", NODES, Ask(selector=(("disk", "ssd"), ("gen", "10"), ("zone", "c"))))
    assert reason.code == "SELECTOR_MISMATCH"
    assert reason.message == (
        "none of the 3 nodes has the labels disk=ssd, gen=10, zone=c; the nearest, n1, lacks zone=c"
    )
    alone = refusal("selector", NODES[:1], Ask(selector=(("disk", "hdd"),)))
    assert alone.message == "not even n0 has the labels disk=hdd"


@pytest.mark.parametrize(
    ("op", "key", "values", "expected"),
    [
        ("in", "zone", ("a", "c"), ["n0"]),
        ("in", "zone", (), []),
        ("not-in", "zone", ("a",), ["n1", "n2"]),
        ("exists", "disk", (), ["n0", "n1"]),
        ("absent", "disk", (), ["n2"]),
        # As numbers, not as text; what is not a number is neither.
        ("gt", "gen", ("9",), ["n1"]),
        ("lt", "gen", ("9.5",), ["n0"]),
        ("gt", "gen", ("old",), []),
        ("lt", "gen", (), []),
    ],
)
def test_required_terms(op: TermOp, key: str, values: tuple[str, ...], expected: list[str]) -> None:
    term = NodeTerm(key=key, op=op, values=values)
    assert passing("affinity", NODES, Ask(terms=(term,))) == expected


def test_preferred_terms_refuse_nobody() -> None:
    assert passing("affinity", NODES, Ask(terms=(NodeTerm(key="zone", values=("x",), required=False),))) is None


def test_the_unmet_term_is_named_with_what_the_node_has() -> None:
    terms = (
        NodeTerm(key="disk", values=("ssd",)),
        NodeTerm(key="gen", op="gt", values=("12",)),
        NodeTerm(key="fast", op="exists"),
    )
    reason = refusal("affinity", NODES, Ask(terms=terms))
    assert reason.code == "AFFINITY_UNMET"
    assert reason.message == (
        "none of the 3 nodes meets the required terms; the nearest, n0, fails gen above 12 (it has 9) "
        "and fast is there (it does not have it)"
    )


def test_where_data_may_be_nodes_must_say_where_they_are() -> None:
    assert passing("residency", NODES, Ask()) is None
    assert passing("residency", NODES, Ask(residency=("eu", "uk"))) == ["n0"]
    assert passing("residency", NODES, Ask(residency=("nowhere",))) == []
    reason = refusal("residency", NODES, Ask(residency=("ch", "uk")))
    assert reason.code == "RESIDENCY_UNMET"
    assert reason.message == (
        "may run only in ch, uk; none of the 3 nodes is there, by region: undeclared (1), eu (1), us (1)"
    )


TAINTED = [
    node("own", info={"taints": (Taint(key="team", value="ml"),)}),
    node("op", taints=(Taint(key="broken"),)),
    node("soft", taints=(Taint(key="spot", effect="prefer-not"),)),
]


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        ((), ["soft"]),
        ((("team", "ml"),), ["own", "soft"]),
        ((("team", "web"),), ["soft"]),
        ((("team", None), ("broken", None)), ["own", "op", "soft"]),
    ],
)
def test_taints(tolerations: tuple[tuple[str, str | None], ...], expected: list[str]) -> None:
    assert passing("taints", TAINTED, Ask(tolerations=tolerations)) == expected


def test_the_taint_is_named() -> None:
    reason = refusal("taints", TAINTED[:2], Ask(tolerations=(("spot", None), ("team", "web"))))
    assert reason.code == "TAINTED"
    assert reason.message == (
        "none of the 2 nodes is free of taints the job does not tolerate: "
        "own has team=ml, the job tolerates spot, team=web"
    )


GPUS = [
    node("busy", gpus=4, gpus_used={0: 1000, 1: 1000, 2: 1000, 3: 1000}),
    node("small", gpus=2, model="NVIDIA A10", gpu_memory=24_000),
    node("none"),
]


def test_gpu_models_are_about_the_machine_and_not_about_now() -> None:
    assert passing("gpus-declared", GPUS, Ask()) is None
    assert passing("gpus-declared", GPUS, Ask(gpus=2)) == ["busy", "small"]
    assert passing("gpus-declared", GPUS, Ask(gpus=2, gpu_model="A10")) == ["small"]
    assert passing("gpus-declared", GPUS, Ask(gpus=2, gpu_memory_mib=40_000)) == ["busy"]


def test_a_gpu_cut_into_slices_is_not_to_be_had_whole() -> None:
    sliced = node("mig", info={})
    gpus = tuple(Gpu(index=at, uuid=str(at), model="A100", memory_mib=80_000, mig=at == 0) for at in range(2))
    info = type(sliced.record.info)(name="mig", cpu_milli=8000, memory_mib=1024, gpus=gpus)
    nodes = [sliced._replace(record=type(sliced.record)(info=info, incarnation=1, registered_at=0.0))]
    assert passing("gpus-declared", nodes, Ask(gpus=1)) == ["mig"]
    assert passing("gpus-declared", nodes, Ask(gpus=2)) == []


@pytest.mark.parametrize("ever", [False, True])
def test_a_missing_model_says_what_there_is(ever: bool) -> None:
    reason = refusal("gpus-declared", GPUS, Ask(gpus=2, gpu_model="H100", gpu_memory_mib=90_000), ever=ever)
    assert reason.code == "INFEASIBLE_GPU_MODEL"
    assert reason.message == (
        "needs 2 GPUs of model H100 with 90,000 MiB or more on one node; no node that could take it has any; "
        "there are NVIDIA A10, NVIDIA A100-SXM4-80GB"
    )
    assert reason.numbers == {"asked": 2, "total": 0, "nodes": 3}


def test_too_many_gpus() -> None:
    reason = refusal("gpus-declared", GPUS, Ask(gpus=8))
    assert reason.code == "INFEASIBLE_GPU"
    assert reason.message == "needs 8 GPUs on one node; the largest that could take it, busy, has 4"
    none = refusal("gpus-declared", GPUS[2:], Ask(gpus=1))
    assert (none.code, none.message) == (
        "INFEASIBLE_GPU",
        "needs 1 GPU on one node; no node that could take it has any",
    )


def test_devices_must_be_declared() -> None:
    nodes = [
        node("t2", info={"devices": {"tpu": ("a", "b")}}, devices_used={"tpu": 2}),
        node("t4", info={"devices": {"tpu": ("a", "b", "c", "d")}}),
        node("f", info={"devices": {"fpga": ("x",)}}),
    ]
    assert passing("devices-declared", nodes, Ask()) is None
    assert passing("devices-declared", nodes, Ask(devices=(("tpu", 2),))) == ["t2", "t4"]
    assert passing("devices-declared", nodes, Ask(devices=(("fpga", 1), ("tpu", 1)))) == []
    many = refusal("devices-declared", nodes, Ask(devices=(("tpu", 6),)))
    assert many.code == "INFEASIBLE_DEVICE"
    assert many.message == "needs 6 tpu devices on one node; the nearest that could take it, t4, has 4"
    unknown = refusal("devices-declared", nodes, Ask(devices=(("npu", 1),)))
    assert unknown.message == "needs 1 npu device on one node; no node that could take it declares any"


def test_pods_are_for_jobs_that_need_no_agent_on_their_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    # In force under every profile, and so in no list of filters.
    monkeypatch.setitem(FILTERS, "pods", pods.FILTER)
    bare = node("bare", info={"sandbox": ("pods", "pod-default-image", "images")})
    nodes = [node("machine"), bare, node("strict", info={"sandbox": ("pods", "images")})]
    assert passing("pods", [node("machine")], Ask(staged=True)) is None
    assert passing("pods", nodes, Ask(image=True)) is None
    assert passing("pods", nodes, Ask()) == ["machine", "bare"]
    assert passing("pods", nodes, Ask(image=True, staged=True)) == ["machine"]
    assert "names no image" in refusal("pods", nodes[2:], Ask()).message
    assert "agent on its own machine" in refusal("pods", nodes[1:], Ask(staged=True)).message


def test_container_images_need_a_node_that_runs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent of an older version would run the command without its image."""
    # In force under every profile, and so in no list of filters.
    monkeypatch.setitem(FILTERS, "isolation", isolation.FILTER)
    able = node("able", info={"sandbox": ("images", "net-namespace")})
    nodes = [node("old"), able, node("only-apart", info={"sandbox": ("net-namespace",)})]
    assert passing("isolation", nodes, Ask(image=True)) == ["able"]
    assert passing("isolation", nodes, Ask()) is None
    reason = refusal("isolation", [node("old")], Ask(image=True))
    assert (reason.code, reason.message) == ("ISOLATION_UNMET", "the one node cannot run container images")
    both = refusal("isolation", [node("a", info={"sandbox": ("images",)})], Ask(image=True, offline=True))
    assert "network: none needs, or cannot run container images" in both.message
