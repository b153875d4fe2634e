"""Which jobs a runtime takes, what it does on a rank, and which rank is named when several fail."""

from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from ares.agent.helper.orders import filled
from ares.app.runtimes import load_runtimes
from ares.core.admit.admission import decide
from ares.core.refusal import Admission, Refusal
from ares.core.runtime import kinds
from ares.core.runtime.kind import Runtime, RuntimePlan
from ares.core.runtime.verdict import CLOCK_BOUND_S, TOGETHER_S, believed, in_short, likely, root_of
from ares.edge.client.ask import job_spec
from ares.edge.client.errors import InvalidSpec
from ares.model.job import FailureClass, Gang, Image, JobSpec, Preemption, Resources, RuntimeWish, Warn
from ares.model.link import AttemptRef, GangPeer, Start, WorldInfo
from ares.model.state import ExitInfo, Fence, Placement, RankEnd

PAIR = Gang(ranks=2)
ELASTIC = Gang(ranks=2, min_ranks=1)


def asked(wish: RuntimeWish | None, gang: Gang | None = None, gpus: int = 0, **more: Any) -> JobSpec:
    return JobSpec(command=("python", "train.py"), gang=gang, resources=Resources(gpus=gpus), runtime=wish, **more)


def started(spec: JobSpec, rank: int = 0, gpus: int = 0, address: str = "10.0.0.{}") -> Start:
    peers = tuple(GangPeer(rank=n, node=f"n{n}", address=address.format(n)) for n in range(2))
    ref = AttemptRef(job="j1", tenant="t", fence=Fence(counter=3))
    place = Placement(
        node=f"n{rank}", incarnation=1, cpu_milli=8000, memory_mib=1000, gpus=tuple(range(gpus)), rank=rank
    )
    return Start(ref=ref, attempt=1, placement=place, spec=spec, world=WorldInfo(peers=peers, master_port=1), key="k")


def plan(spec: JobSpec, **where: Any) -> RuntimePlan:
    found = kinds.plan_of(started(spec, **where))
    assert isinstance(found, RuntimePlan)
    return found


# ---- admission


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (asked(RuntimeWish(kind="spark")), "no runtime is called 'spark'; there are command, julia, mpi, ray, torch"),
        (asked(RuntimeWish(kind="julia")), "the command begins with 'python'"),
        (asked(RuntimeWish(kind="julia"), ELASTIC), "Julia's workers are those it began with"),
        (asked(RuntimeWish(kind="mpi"), ELASTIC), "MPI programs have the ranks they began with"),
        (asked(RuntimeWish(kind="mpi", elastic=True), PAIR), "MPI programs have the ranks they began with"),
        (asked(RuntimeWish(kind="mpi", flavour="lam")), "no flavour of MPI is called 'lam'"),
        (asked(RuntimeWish(kind="torch", flavour="openmpi")), "runtime.flavour is for mpi"),
        (asked(RuntimeWish(kind="torch", head_cpus=1)), "runtime.headCpus is for ray"),
        (asked(RuntimeWish(kind="torch"), ELASTIC), "runtime.elastic is not set"),
        (asked(RuntimeWish(kind="torch", elastic=True), PAIR), "for gangs that may shrink and grow"),
        (asked(RuntimeWish(kind="torch", procs="gpus")), "a rank has no GPUs"),
        (asked(RuntimeWish(kind="ray", procs=2)), "Ray starts its processes itself"),
        (asked(RuntimeWish(kind="ray"), ELASTIC), "go together"),
        (asked(RuntimeWish(kind="command", procs=2)), "starts the command as it is"),
        (asked(RuntimeWish(kind="mpi"), image=Image(ref="docker://a/b:1")), "runtime mpi in an image is not supported"),
        (asked(RuntimeWish(kind="ray"), image=Image(ref="docker://a/b:1")), "runtime ray in an image is not supported"),
        (
            asked(RuntimeWish(kind="torch", elastic=True), ELASTIC, image=Image(ref="docker://a/b:1")),
            "an elastic gang in an image is not supported",
        ),
        (asked(RuntimeWish(kind="torch"), time_limit_s=90.0, warn=Warn(signal="SIGTERM")), "warn is SIGTERM"),
        (asked(RuntimeWish(kind="mpi"), time_limit_s=90.0, warn=Warn(signal="SIGINT")), "warn is SIGINT"),
        (
            asked(RuntimeWish(kind="ray"), preemption=Preemption(checkpoint_signal="SIGHUP")),
            "checkpointSignal is SIGHUP",
        ),
        (
            asked(RuntimeWish(kind="torch", elastic=True), Gang(ranks=2, min_ranks=1, resize_signal="SIGTERM")),
            "resizeSignal is SIGTERM",
        ),
    ],
)
def test_refused_with_a_word(spec: JobSpec, says: str) -> None:
    found = decide(spec)
    assert isinstance(found, Refusal)
    assert (found.code, says in found.message, bool(found.fix)) == ("runtime-invalid", True, True), found.message


@pytest.mark.parametrize(
    "spec",
    [
        asked(None),
        asked(RuntimeWish(kind="command"), ELASTIC),
        asked(RuntimeWish(kind="torch"), PAIR, image=Image(ref="docker://a/b:1")),
        asked(RuntimeWish(kind="command"), PAIR, image=Image(ref="docker://a/b:1")),
        asked(RuntimeWish(kind="torch", procs="gpus"), PAIR, gpus=2),
        asked(RuntimeWish(kind="torch", elastic=True), ELASTIC),
        asked(RuntimeWish(kind="mpi", procs=4, flavour="openmpi"), PAIR),
        asked(RuntimeWish(kind="mpi", procs=4, flavour="mpich"), PAIR),
        asked(RuntimeWish(kind="ray", head_cpus=0, elastic=True), ELASTIC),
        asked(RuntimeWish(kind="torch"), time_limit_s=90.0, warn=Warn(signal="SIGUSR2")),
        asked(RuntimeWish(kind="command"), time_limit_s=90.0, warn=Warn(signal="SIGTERM")),
        asked(None, time_limit_s=90.0, warn=Warn(signal="SIGTERM"), preemption=Preemption(checkpoint_signal="SIGINT")),
    ],
)
def test_accepted(spec: JobSpec) -> None:
    assert isinstance(decide(spec), Admission)


# ---- plans


def test_torchrun_has_the_ranks_place_a_name_of_its_own_and_no_restarts() -> None:
    found = plan(asked(RuntimeWish(kind="torch", procs="gpus"), PAIR, gpus=4), rank=1, gpus=4)
    known = {"PLACE": "1", "SIZE": "2", "ADDRESS": "10.0.0.0", "PORT": "29500", "WATCH": "ares-watch"}
    assert filled(list(found.launcher), known) == [
        "python", "-m", "torch.distributed.run", "--nnodes=2", "--node_rank=1", "--rdzv_backend=static",
        "--rdzv_id=j1.1.3", "--master_addr=10.0.0.0", "--master_port=29500", "--nproc_per_node=4",
        "--max_restarts=0", "--monitor_interval=0.1", "--no_python", "ares-watch",
    ]  # fmt: skip
    assert found.env == {"OMP_NUM_THREADS": "2"}
    assert not found.meets


def test_a_jobs_own_threads_stay() -> None:
    assert plan(asked(RuntimeWish(kind="torch"), PAIR, env={"OMP_NUM_THREADS": "7"})).env == {}


@pytest.mark.parametrize(("address", "kept"), [("127.0.0.{}", True), ("10.0.0.{}", False)])
def test_mpi_keeps_to_the_loopback_only_where_all_ranks_do(address: str, kept: bool) -> None:
    found = plan(asked(RuntimeWish(kind="mpi", procs=2), PAIR), address=address)
    assert (found.meets, found.calls, found.procs) == (True, True, 2)
    assert ("OMPI_MCA_btl_tcp_if_include" in found.env) == kept
    hydra = plan(asked(RuntimeWish(kind="mpi", procs=2, flavour="mpich"), PAIR), address=address)
    assert ("FI_TCP_IFACE" in hydra.env, "OMPI_MCA_plm" in hydra.env) == (kept, False)
    # What the first rank has in its environment, and where it stands, is nothing to the others.
    assert {"-genvnone", "/proc/self/cwd"} <= set(hydra.launcher)


def test_ray_counts_what_the_rank_holds_and_shows_the_key() -> None:
    head = plan(asked(RuntimeWish(kind="ray", head_cpus=0), PAIR), gpus=2)
    worker = plan(asked(RuntimeWish(kind="ray", head_cpus=0), PAIR), rank=1, gpus=2)
    assert {"--num-cpus=0", "--num-gpus=2"} <= set(head.service_first)
    assert "--num-cpus=8" in worker.service
    assert (head.env["RAY_AUTH_MODE"], head.env["RAY_AUTH_TOKEN"]) == ("token", "k")
    assert (head.service_least, worker.service_least) == ((2, 52), (2, 52))


def test_julia_shows_no_cookie_on_a_command_line_and_has_another_for_each_attempt() -> None:
    spec = JobSpec(command=("julia", "-t", "4", "main.jl"), gang=PAIR, runtime=RuntimeWish(kind="julia", procs=3))
    found = plan(spec)
    cookie = found.files["cookie"].strip()
    assert (len(cookie), found.ports, found.procs, found.service_stays) == (16, 3, 3, True)
    assert cookie not in " ".join((*found.launcher, *found.service, *found.env.values()))
    again = kinds.plan_of(structs.replace(started(spec), key="another"))
    assert isinstance(again, RuntimePlan)
    assert again.files["cookie"].strip() != cookie


@pytest.mark.parametrize("wish", [None, RuntimeWish(kind="command")])
def test_a_command_is_started_as_it_is(wish: RuntimeWish | None) -> None:
    assert kinds.plan_of(started(asked(wish))) is None


# ---- which rank failed first


def end(rank: int, at: float, failure: FailureClass = "exit", blames: int | None = None) -> RankEnd:
    return RankEnd(rank, ExitInfo(failure=failure), at, blames)


@pytest.mark.parametrize(
    ("ends", "root"),
    [
        ((end(0, 10.5), end(1, 10.0)), 1),
        # Within the time that counts as one moment, the class decides.
        ((end(0, 10.0), end(1, 10.0 + TOGETHER_S, "signal")), 1),
        ((end(0, 10.0), end(1, 10.5, "signal")), 0),
        ((end(0, 10.0, "signal"), end(1, 10.1, "oom")), 1),
        # A lost node is learned of late, and is the reason all the same.
        ((end(0, 10.0, "oom"), end(1, 18.0, "node-lost")), 1),
        # What a runtime blames on another rank that failed fell with it, also along a chain.
        ((end(0, 9.0, "signal", blames=2), end(1, 9.5, blames=0), end(2, 12.0)), 2),
        # Not on one that has not failed, nor when all blame each other.
        ((end(0, 9.0, blames=3), end(1, 9.5)), 0),
        ((end(0, 9.5, blames=1), end(1, 9.0, blames=0)), 1),
    ],
)
def test_the_rank_that_failed_first(ends: tuple[RankEnd, ...], root: int) -> None:
    assert root_of(ends).rank == root


def test_a_gang_of_thousands_keeps_few_ends_and_the_first_among_them() -> None:
    ends: tuple[RankEnd, ...] = ()
    for rank in range(3000):
        blames = None if rank == 1700 else 1700
        ends = likely((*ends, end(rank, 10.0 if rank == 1700 else 10.1, blames=blames)))
    assert len(ends) <= 64
    assert root_of(ends).rank == 1700
    assert len(in_short(ExitInfo(failure="exit", message="x" * 2000)).message) <= 500


@given(st.permutations([end(0, 3.0), end(1, 2.9, "signal"), end(2, 5.0, "oom"), end(3, 3.1, blames=1)]))
def test_the_order_of_reports_does_not_matter(ends: list[RankEnd]) -> None:
    assert root_of(ends).rank == 1


@pytest.mark.parametrize(("ahead", "at"), [(300.0, 100.0), (-300.0, 100.0), (0.5, 100.0), (-1.0, 99.0)])
def test_a_clock_is_believed_as_far_as_it_agrees(ahead: float, at: float) -> None:
    assert believed(100.0 + ahead, 100.0) == at
    assert CLOCK_BOUND_S < 300


# ---- as people write it


@pytest.mark.parametrize(
    ("said", "wish", "time"),
    [
        ({"runtime": "torch"}, RuntimeWish(kind="torch"), None),
        ({"runtime": "2h"}, None, 7200.0),
        ({"expected": "90s", "runtime": "mpi"}, RuntimeWish(kind="mpi"), 90.0),
        ({"runtime": ["torch", "2h"], "procs": "gpus"}, RuntimeWish(kind="torch", procs="gpus"), 7200.0),
        ({"runtime": {"kind": "mpi", "procs": 4}}, RuntimeWish(kind="mpi", procs=4), None),
        ({"runtime": "ray", "procs": "2", "elastic": True}, RuntimeWish(kind="ray", procs=2, elastic=True), None),
    ],
)
def test_a_runtime_is_a_name_or_a_time(said: dict[str, Any], wish: RuntimeWish | None, time: float | None) -> None:
    spec = job_spec(command=["x"], **said)
    assert (spec.runtime, spec.expected_runtime_s) == (wish, time)


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"runtime": {"kind": "torch", "proc": 1}}, "proc"),
        ({"runtime": ["torch", "mpi"]}, "runtime is given twice"),
        ({"runtime": "2h", "expected": "3h"}, "runtime is given twice"),
        ({"runtime": "torch", "procs": "x"}, "procs 'x' is no number of processes"),
        ({"procs": 2}, "procs: said of a runtime, and no runtime is named"),
        ({"elastic": True}, "elastic: said of a runtime, and no runtime is named"),
        ({"runtime": {}}, "an empty runtime: said of a runtime, and no runtime is named"),
    ],
)
def test_mistakes_are_named(said: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidSpec, match=says):
        job_spec(command=["x"], **said)


# ---- plugins


@pytest.fixture
def table() -> Iterator[dict[str, Runtime]]:
    before = dict(kinds.RUNTIMES)
    yield kinds.RUNTIMES
    kinds.RUNTIMES.clear()
    kinds.RUNTIMES.update(before)


def _entry(name: str, value: Any) -> Any:
    return SimpleNamespace(name=name, dist=SimpleNamespace(name="third", version="1"), load=lambda: value)


def _found(*entries: Any) -> Callable[..., list[Any]]:
    def found(*, group: str) -> list[Any]:
        return list(entries) if group == "ares.runtimes" else []

    return found


def test_a_plugins_runtime_admits_and_starts_jobs(table: dict[str, Runtime]) -> None:
    def accepts(spec: JobSpec, wish: RuntimeWish) -> None: ...

    def spark(start: Start, wish: RuntimeWish) -> RuntimePlan:
        return RuntimePlan(launcher=("spark", "@SIZE@"))

    def last(ends: Sequence[RankEnd]) -> RankEnd:
        return ends[-1]

    made = Runtime(accepts, spark, last)
    origins, refused = load_runtimes(_found(_entry("spark", made), _entry("mpi", made), _entry("odd", 3)))
    assert origins == {"spark": "third 1"}
    assert [(plugin.kind, plugin.name) for plugin in refused] == [("runtime", "mpi"), ("runtime", "odd")]
    spec = asked(RuntimeWish(kind="spark"), PAIR)
    assert isinstance(decide(spec), Admission)
    assert plan(spec).launcher == ("spark", "@SIZE@")
    assert table["spark"].classify((end(0, 1.0), end(1, 2.0))).rank == 1


def test_a_plugin_that_raises_refuses_by_name(table: dict[str, Runtime]) -> None:
    def raises(*_: object) -> Any:
        raise RuntimeError("boom")

    load_runtimes(_found(_entry("shaky", Runtime(raises, raises, raises))))
    spec = asked(RuntimeWish(kind="shaky"), PAIR)
    found = decide(spec)
    assert isinstance(found, Refusal)
    assert "'shaky' failed: RuntimeError: boom" in found.message
    assert "boom" in str(kinds.plan_of(started(spec)))
    assert table["shaky"].classify((end(0, 1.0), end(1, 2.0))).rank == 0


@pytest.mark.usefixtures("table")
def test_a_plugin_that_plans_something_else_fails_the_start_by_name() -> None:
    def accepts(spec: JobSpec, wish: RuntimeWish) -> None: ...

    for made in ({"launcher": ["spark"]}, ("spark",), 3):
        kind = type(made).__name__

        def odd(start: Start, wish: RuntimeWish, made: Any = made) -> Any:
            return made

        load_runtimes(_found(_entry(f"odd-{kind}", Runtime(accepts, odd, root_of))))
        found = kinds.plan_of(started(asked(RuntimeWish(kind=f"odd-{kind}"), PAIR)))
        assert isinstance(found, str)
        assert f"'odd-{kind}' failed: TypeError: its plan is a {kind}" in found


def test_a_node_without_the_plugin_says_so() -> None:
    assert "this node lacks the plugin" in str(kinds.plan_of(started(asked(RuntimeWish(kind="spark"), PAIR))))
