"""What importers make of sound files, and the way of Ares' own history out and back in."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from ares.check.replay.trace import BadTrace, Trace, node
from ares.model.job import JobSpec, Need, Resources
from ares.model.node import NodeInfo
from ares.model.state import ExitInfo, Job, JobState, Phase
from ares.sim.traces.engine import replay
from ares.sim.traces.formats import alibaba, read
from ares.sim.traces.formats.nodes import nodes_of
from ares.sim.traces.policies import policy


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


# ---- processors


def swf(folder: Path, *lines: str, nodes: str = "") -> Trace:
    return read(write(folder / "some.swf", *lines), nodes=nodes_of(nodes) if nodes else None)


def test_swf_takes_what_was_asked_for_else_what_was_given(tmp_path: Path) -> None:
    found = swf(
        tmp_path,
        ";  MaxNodes: 4",
        "; MaxProcs:   64",
        "7 0 5 100 32 -1 -1 16 600 -1 1 3 1 9 1 -1 -1 -1",
        "8 9 5 0 32 -1 -1 -1 -1 -1 0 -1 1 -1 1 -1 -1 -1",
    )
    asked, given = found.jobs
    assert found.nodes == (node("n0", 64),)
    assert (asked.id, asked.submit, asked.run_s, asked.tenant) == ("7", 0, 100, "u3")
    assert (asked.spec.name, asked.spec.time_limit_s) == ("app-9", 600)
    assert asked.spec.resources == Resources(cpu_milli=16_000, memory_mib=1)
    assert (given.run_s, given.tenant, given.spec.resources.cpu_milli) == (0, "nobody", 32_000)
    assert (given.spec.name, given.spec.time_limit_s) == ("job", None)


def test_swf_with_further_fields_is_read_with_a_warning(tmp_path: Path) -> None:
    line = "7 0 5 100 32 -1 -1 16 600 -1 1 3 1 9 1 -1 -1 -1"
    plain, more = (swf(tmp_path, "; MaxProcs: 64", text) for text in (line, f"{line} 42"))
    assert more.jobs == plain.jobs
    assert more.warnings == ("1 line with more than 18 fields: read without the rest",)


def test_jobs_wider_than_a_node_become_gangs_of_equal_ranks(tmp_path: Path) -> None:
    lines = [f"{n} 0 -1 10 {n} -1 -1 {n} 20 -1 1 1 1 -1 1 -1 -1 -1" for n in (8, 9, 20, 24, 25)]
    found = swf(tmp_path, *lines, nodes="3x8")
    shapes = [(one.spec.gang.ranks if one.spec.gang else 1, one.spec.resources.cpu_milli) for one in found.jobs]
    assert shapes == [(1, 8000), (2, 4500), (3, 6667), (3, 8000)]
    assert found.warnings == ("1 job wider than the machine of 24 processors: left out",)
    ran = replay(found, policy("fcfs"))
    assert (ran.jobs.phase == "SUCCEEDED").all()


def test_without_a_size_the_widest_job_gives_it(tmp_path: Path) -> None:
    found = swf(tmp_path, "1 0 -1 10 12 -1 -1 12 20 -1 1 1 1 -1 1 -1 -1 -1")
    assert found.nodes == (node("n0", 12),)
    assert found.warnings == ("the header names no MaxProcs: taken as 12, the width of the widest job",)


# ---- GPUs


def test_pods_become_jobs_with_shares_and_alternatives(tmp_path: Path) -> None:
    path = write(
        tmp_path / "pods.csv",
        ",".join(alibaba.COLUMNS),
        "a,4000,512,1,300,V100|T4,LS,Running,5,105,10",
        "b,1000,256,0,0,,BE,Succeeded,6,36,6",
        "c,1000,256,8,1000,,Burstable,Pending,7,,",
    )
    write(tmp_path / "pods_node_list.csv", "sn,cpu_milli,memory_mib,gpu,model", "x,8000,1024,2,T4", "y,8000,1024,0,")
    found = read(path)
    share, plain = found.jobs
    assert share.run_s == 95
    assert share.spec.resources == Resources(cpu_milli=4000, memory_mib=512, gpus=1, gpu_milli=300, gpu_model="V100")
    assert [one.gpu_model for one in share.spec.alternatives] == ["T4"]
    assert (share.spec.priority, plain.spec.priority, plain.spec.resources.gpus) == ("HIGH", "LOW", 0)
    assert [(one.name, len(one.gpus)) for one in found.nodes] == [("x", 2), ("y", 0)]
    assert found.warnings == (
        "2 nodes from pods_node_list.csv, which is beside the trace",
        "1 pod never scheduled, of unknown run time: left out",
    )
    ran = replay(found, policy("fcfs"))
    assert ran.jobs.end.tolist() == [100, 36]
    (tmp_path / "pods_node_list.csv").unlink()
    with pytest.raises(BadTrace, match=r"pods\.csv: a list of pods, and no nodes for them; give --nodes"):
        read(path)


def test_times_are_milliseconds_where_iterations_are_told(tmp_path: Path) -> None:
    seconds = write(tmp_path / "a.csv", "job_id,num_gpu,submit_time,duration,vc", "1,12,10,100,lab")
    milli = write(
        tmp_path / "b.csv", "job_id,num_gpu,submit_time,iterations,iteration_time,duration", "1,12,10000,200,500,100000"
    )
    (one,), (other,) = read(seconds).jobs, read(milli).jobs
    assert (one.submit, one.run_s, one.tenant) == (10, 100, "lab")
    assert (other.submit, other.run_s, other.tenant) == (10, 100, "default")
    # Twelve on nodes of eight: two times six.
    assert one.spec.gang is not None
    assert (one.spec.gang.ranks, one.spec.resources.gpus) == (2, 6)


def test_deadlines_are_by_the_clock_of_submissions(tmp_path: Path) -> None:
    path = write(
        tmp_path / "d.csv", ",job_name,norm_job_submit_time,ddl,A100,T4", "0,a,50,60,10,20", "1,b,50,inf,10,20"
    )
    found = read(path, nodes=nodes_of("1x8x2xT4"))
    ran = replay(found, policy("fcfs"))
    assert ran.jobs.end.tolist() == [70, 70]
    assert ran.jobs.late.tolist() == [True, False]
    assert [one.spec.deadline_at for one in found.jobs] == [60, None]


def test_nodes_in_words() -> None:
    found = nodes_of("2x96x8xV100, 1x64")
    assert [(one.name, one.cpu_milli, len(one.gpus)) for one in found] == [
        ("a0", 96_000, 8), ("a1", 96_000, 8), ("b0", 64_000, 0),
    ]  # fmt: skip
    assert {gpu.model for one in found for gpu in one.gpus} == {"V100"}


# ---- Ares' own


def done(number: int, phase: Phase, start: float | None, end: float | None, how: ExitInfo | None = None) -> Job:
    state = JobState(
        id=f"job-{number}", tenant="lab", name="fit", phase=phase, submitted_by="ada", submitted_at=1000.0 + number,
        started_at=start, ended_at=end, attempt=1, exit=how,
    )  # fmt: skip
    return Job(spec=JobSpec(command=("fit",), name="fit", time_limit_s=500), state=state)


def exported(nodes: list[NodeInfo], jobs: list[Job]) -> bytes:
    """As `ares history` writes it."""
    return b"".join(msgspec.json.encode(line) + b"\n" for line in (*({"node": info} for info in nodes), *jobs))


def test_history_comes_back_as_a_trace(tmp_path: Path) -> None:
    jobs = [
        done(2, "SUCCEEDED", 1010.0, 1060.0, ExitInfo(code=0)),
        done(1, "FAILED", 1010.0, 1020.0, ExitInfo(code=3, failure="exit")),
        done(3, "RUNNING", 1010.0, None),
        done(4, "CANCELLED", None, 1011.0),
        done(5, "FAILED", 1010.0, 1510.0, ExitInfo(failure="time-limit")),
    ]
    path = tmp_path / "mine.jsonl"
    path.write_bytes(exported([node("n0", 4)], jobs))
    found = read(path)
    assert found.nodes == (node("n0", 4),)
    assert [(one.id, one.submit, one.run_s, one.fails) for one in found.jobs] == [
        ("job-1", 1001, 10, 3), ("job-2", 1002, 50, None), ("job-5", 1005, 500, None),
    ]  # fmt: skip
    assert {(one.tenant, one.user, one.spec.name) for one in found.jobs} == {("lab", "ada", "fit")}
    assert found.warnings == ("2 jobs without an end of their own: left out", "1 line out of order: sorted")
    assert nodes_of(str(path)) == found.nodes


@pytest.mark.parametrize(
    "waits", [{"held": True}, {"begin_at": 5000.0}, {"needs": (Need(job="job-9"),), "finally_": True}]
)
def test_a_job_that_waited_comes_when_it_was_queued(tmp_path: Path, waits: dict[str, Any]) -> None:
    """What it waited for is not in the trace: the job would never be queued, and `ares tune` broke off."""
    job = done(1, "SUCCEEDED", 1090.0, 1100.0)
    late = Job(spec=replace(job.spec, **waits), state=replace(job.state, queued_at=1080.0))
    path = tmp_path / "mine.jsonl"
    path.write_bytes(exported([node("n0", 4)], [late]))
    found = read(path)
    assert [(one.submit, one.run_s, one.spec) for one in found.jobs] == [(1080, 10, job.spec)]
    assert found.warnings == ("1 job that waited for others, for a time or to be released: come when they were queued",)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('{"spec": {"command": ["x"]}', "not a line of a history"),
        ('{"state": {"id": "1", "tenant": "t", "name": "n"}}', "neither spec and state of a job nor a node"),
        ('{"spec": {"command": 5}, "state": {"id": "1", "tenant": "t", "name": "n"}}', "not a line of a history"),
    ],
)
def test_lines_that_are_no_history(tmp_path: Path, line: str, what: str) -> None:
    good = exported([node("n0", 4)], []).decode().strip()
    with pytest.raises(BadTrace, match=rf"h\.jsonl:2: {what}.*export it again"):
        read(write(tmp_path / "h.jsonl", good, line))


def test_a_history_without_nodes_says_so(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    path.write_bytes(exported([], [done(1, "SUCCEEDED", 0.0, 1.0)]))
    with pytest.raises(BadTrace, match=r"h\.jsonl: a history without nodes; give --nodes"):
        read(path)
