"""Admission: bounds on both sides, and what the answer says."""

from typing import Any

import pytest

from ares.core.admit.admission import decide, too_late
from ares.core.admit.arrays import INDEX_MAX, indices
from ares.core.admit.dedup import New, Replayed, payload_sha256, resolve
from ares.core.refusal import Admission, Refusal
from ares.model.job import (
    ARGV_BYTES_MAX,
    ENV_BYTES_MAX,
    Gang,
    JobSpec,
    JobTerm,
    NodeTerm,
    Resources,
    TopologyWish,
    Warn,
)
from ares.model.secret import SecretRef
from ares.model.state import RequestRecord

ONE_GPU = Resources(gpus=1)
ONE_NODE = TopologyWish(level="node", required=True)
LABELS = {f"k{n}": "v" for n in range(65)}
SIXTY_FOUR = {f"k{n}": "v" for n in range(64)}

REJECTED: list[tuple[dict[str, Any], str]] = [
    ({"command": ("",)}, "command-empty"),
    ({"command": (" \t",)}, "command-empty"),
    ({"command": ("x", "y" * (ARGV_BYTES_MAX - 2))}, "command-too-large"),
    ({"command": ("é" * (ARGV_BYTES_MAX // 2),)}, "command-too-large"),
    ({"command": ("a\ud800",)}, "not-utf8"),
    ({"env": {"A": "\udcff"}}, "not-utf8"),
    ({"env": {"A": "x" * (ENV_BYTES_MAX - 2)}}, "env-too-large"),
    ({"env": {"ARES_JOB_ID": "1"}}, "env-reserved"),
    ({"env": {"RANK": "1"}}, "env-reserved"),
    ({"env": {"CUDA_VISIBLE_DEVICES": ""}}, "env-reserved"),
    ({"workdir": "/data/../etc"}, "workdir-dots"),
    ({"workdir": "/."}, "workdir-dots"),
    ({"labels": LABELS}, "labels-too-many"),
    ({"selector": LABELS}, "labels-too-many"),
    ({"time_limit_s": 30.0, "warn": Warn(before_s=30.0)}, "warn-after-limit"),
    ({"time_limit_s": 30.0, "warn": Warn(before_s=61.0)}, "warn-after-limit"),
    ({"warn": Warn(before_s=1.0)}, "warn-after-limit"),
    ({"env": {"MASTER_PORT": "1"}}, "env-reserved"),
    ({"resources": Resources(gpu_model="A100")}, "gpu-model-without-gpus"),
    ({"resources": Resources(gpu_milli=999)}, "gpu-share-without-gpus"),
    ({"resources": Resources(gpu_memory_mib=1)}, "gpu-memory-without-gpus"),
    ({"resources": ONE_GPU, "alternatives": (ONE_GPU, Resources(gpu_milli=500))}, "gpu-share-without-gpus"),
    ({"gang": Gang(ranks=2, min_ranks=3)}, "gang-min-above-ranks"),
    ({"gang": Gang(ranks=2, resize_signal="SIGHUP")}, "gang-not-elastic"),
    ({"gang": Gang(ranks=3, per_node=2), "topology": ONE_NODE}, "gang-spread-and-together"),
    ({"gang": Gang(ranks=9, min_ranks=3, per_node=2), "topology": ONE_NODE}, "gang-spread-and-together"),
    ({"topology": TopologyWish(level="nvlink")}, "nvlink-without-gpus"),
    ({"topology": TopologyWish(level="nvlink"), "resources": ONE_GPU, "alternatives": (Resources(),)},
     "nvlink-without-gpus"),
    ({"affinity": (NodeTerm(key="a"),)}, "affinity-values"),
    ({"affinity": (NodeTerm(key="a", op="not-in"),)}, "affinity-values"),
    ({"affinity": (NodeTerm(key="a", op="exists", values=("x",)),)}, "affinity-values"),
    ({"affinity": (NodeTerm(key="a", op="gt", values=("1", "2")),)}, "affinity-values"),
    ({"affinity": (NodeTerm(key="a", op="lt"),)}, "affinity-values"),
    ({"affinity": (NodeTerm(key="a", op="lt", values=("many",)),)}, "affinity-not-a-number"),
    ({"affinity": (NodeTerm(key="a", op="gt", values=("nan",)),)}, "affinity-not-a-number"),
    ({"affinity": (NodeTerm(key="a", values=("\ud800",)),)}, "not-utf8"),
    ({"job_affinity": (JobTerm(labels={}),)}, "job-affinity-empty"),
    ({"effects": "unsafe", "restart": "always"}, "unsafe-restart"),
    ({"array": "5-1"}, "array-syntax"),
    ({"array": "0-100000"}, "array-too-large"),
]  # fmt: skip

ADMITTED: list[dict[str, Any]] = [
    {},
    {"command": ("x", "y" * (ARGV_BYTES_MAX - 3))},
    {"env": {"A": "x" * (ENV_BYTES_MAX - 3)}},
    {"env": {"ARE": "1", "RANKS": "1", "MY_ARES_X": "1"}},
    {"workdir": "/data/.hidden/..x/a.b/"},
    {"labels": SIXTY_FOUR, "selector": SIXTY_FOUR},
    {"time_limit_s": 30.0, "warn": Warn(before_s=29.9)},
    {"resources": Resources(gpus=1, gpu_model="A100")},
    {"resources": Resources(gpus=1, gpu_milli=1, gpu_memory_mib=1), "alternatives": (Resources(),)},
    {"gang": Gang(ranks=2, min_ranks=2, per_node=8, resize_signal="SIGHUP"), "topology": ONE_NODE, "array": "0-3"},
    {"gang": Gang(ranks=9, min_ranks=2, per_node=2), "topology": ONE_NODE},
    {"gang": Gang(ranks=3, per_node=1), "topology": TopologyWish(level="node")},
    {"gang": Gang(ranks=3, per_node=1), "topology": TopologyWish(level="rack", required=True)},
    {"topology": TopologyWish(level="nvlink", required=True), "resources": ONE_GPU, "alternatives": (ONE_GPU,)},
    {"affinity": (NodeTerm(key="a", values=("x", "y")), NodeTerm(key="a", op="absent"))},
    {"affinity": (NodeTerm(key="a", op="gt", values=("-80.5",)), NodeTerm(key="a", op="lt", values=("7",)))},
    {"effects": "unsafe", "restart": "never"},
    {"array": "0-99999"},
]


@pytest.mark.parametrize(("options", "code"), REJECTED, ids=lambda one: one if isinstance(one, str) else "")
def test_rejected(options: dict[str, Any], code: str) -> None:
    verdict = decide(JobSpec(**{"command": ("true",), **options}))
    assert isinstance(verdict, Refusal)
    assert verdict.code == code
    assert verdict.fix
    assert len(verdict.message) < 300


@pytest.mark.parametrize("options", ADMITTED)
def test_admitted_as_asked(options: dict[str, Any]) -> None:
    spec = JobSpec(**{"command": ("true",), **options})
    verdict = decide(spec)
    assert isinstance(verdict, Admission)
    assert (verdict.indices is None) == (spec.array is None)


@pytest.mark.parametrize(
    ("text", "found"),
    [("7", (7,)), ("0-3", (0, 1, 2, 3)), ("4-4", (4,)), ("9,1-3", (9, 1, 2, 3)), ("0-10:5", (0, 5, 10)),
     ("0-9:5", (0, 5)), ("3-5:100", (3,)), ("007", (7,)), (f"{INDEX_MAX}", (INDEX_MAX,))],
)  # fmt: skip
def test_indices(text: str, found: tuple[int, ...]) -> None:
    assert indices(text) == found


@pytest.mark.parametrize(
    "text",
    ["", ",", "1,", ",1", "1,,2", "-", "-1", "1-", "3-1", "1-2-3", "1:2", "1-5:0", "1-5:", "1-5:1:1", "a", "1 ,2", "٣",
     "1\n", "+1", "0x1", "1.5", f"{INDEX_MAX + 1}", "9" * 900, "1,1", "0-5,3", "0-4:2,4", "0-10,5-15"],
)  # fmt: skip
def test_bad_indices(text: str) -> None:
    refused = indices(text)
    assert isinstance(refused, Refusal)
    assert refused.code == "array-syntax"
    assert len(refused.message) < 150


@pytest.mark.parametrize("text", ["0-100000", "0-9999999", "0-50000,60000-110000", ",".join(["0-9999999"] * 100)])
def test_too_many_tasks(text: str) -> None:
    refused = indices(text)
    assert isinstance(refused, Refusal)
    assert refused.code == "array-too-large"


def test_the_repeated_index_is_named() -> None:
    refused = indices("0-5,9,3-4")
    assert isinstance(refused, Refusal)
    assert "index 3 more than once" in refused.message


def test_the_digest_does_not_depend_on_the_order_of_maps_but_on_every_value() -> None:
    one = JobSpec(command=("true",), env={"A": "1", "B": "2"}, labels={"x": "1", "y": "2"})
    same = JobSpec(command=("true",), env={"B": "2", "A": "1"}, labels={"y": "2", "x": "1"}, priority="NORMAL")
    others = [
        JobSpec(command=("true", ""), env=one.env, labels=one.labels),
        JobSpec(command=("true",), env={"A": "2", "B": "1"}, labels=one.labels),
        JobSpec(command=("true",), env=one.env, labels=one.labels, array="0-1"),
        JobSpec(command=("true",), env=one.env, labels=one.labels, resources=Resources(gpus=1)),
    ]
    digests = {payload_sha256(spec) for spec in others}
    assert payload_sha256(one) == payload_sha256(same)
    assert len(digests | {payload_sha256(one)}) == 5


def test_seen_before() -> None:
    seen = RequestRecord(job="j1", payload_sha256="aa")
    assert resolve(None, "aa") == New()
    assert resolve(seen, "aa") == Replayed(job="j1")
    conflict = resolve(seen, "ab")
    assert isinstance(conflict, Refusal)
    assert conflict.code == "request-conflict"
    assert "different payload" in conflict.message


@pytest.mark.parametrize(("deadline", "late"), [(None, ""), (100.1, ""), (100.0, "0 s"), (10.0, "1 min 30 s")])
def test_a_deadline_lies_ahead(deadline: float | None, late: str) -> None:
    verdict = too_late(JobSpec(command=("true",), deadline_at=deadline), now=100.0)
    assert (verdict is not None) == bool(late)
    assert verdict is None or (verdict.code, verdict.message) == ("deadline-passed", f"the deadline passed {late} ago")


class _Compared(str):
    """Counts how often names are compared with each other."""

    __slots__ = ()
    times = 0

    def __eq__(self, other: object) -> bool:
        _Compared.times += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


@pytest.mark.parametrize("secrets", [(), (SecretRef(name="token", env="TOKEN"),)])
def test_many_variables_are_looked_at_once_each(secrets: tuple[SecretRef, ...]) -> None:
    """A job of 60 KB kept a server busy for more than a second, and a batch of them for minutes."""
    names = 8_000
    env = {_Compared(f"K{number}"): "" for number in range(names)}
    _Compared.times = 0
    assert isinstance(decide(JobSpec(command=("true",), env=env, secrets=secrets)), Admission)
    assert _Compared.times < 20 * names
