"""The drawing of a workflow."""

from ares.api.flows import FlowDetail, FlowEdge, FlowJob
from ares.edge.cli.commands.flow import drawing


def _flow(*jobs: FlowJob) -> FlowDetail:
    return FlowDetail(id="f", name="n", submitted_by="ann", submitted_at=0.0, whole=True, jobs=jobs)


def _job(name: str, *needs: str, **changes: object) -> FlowJob:
    edges = tuple(FlowEdge(job=need, on="success") for need in needs)
    return FlowJob(name=name, id=f"id-{name}", phase="WAITING", needs=edges, **changes)  # type: ignore[arg-type]


def test_each_job_stands_below_the_last_one_it_waits_for() -> None:
    flow = _flow(_job("d", "b", "c"), _job("a"), _job("b", "a"), _job("c", "b"), _job("z", is_finally=True))
    assert drawing(flow) == [
        "a  WAITING",
        "└─ b  WAITING",
        "   └─ c  WAITING",
        "      └─ d  WAITING  after b, c",
        "z  WAITING  at the end of all",
    ]


def test_wide_and_deep_ones_are_cut() -> None:
    wide = drawing(_flow(_job("a"), *(_job(f"b{number}", "a") for number in range(100))))
    assert (len(wide), wide[-1]) == (13, "└─ ... and 89 more")
    chain = [_job("j0"), *(_job(f"j{number}", f"j{number - 1}") for number in range(1, 1000))]
    deep = drawing(_flow(*chain))
    assert len(deep) == 401
    assert max(map(len, deep)) < 100


def test_jobs_that_a_job_submitted_are_counted_beside_it() -> None:
    made = _job("spread", child_counts={"RUNNING": 2, "SUCCEEDED": 1})
    assert drawing(_flow(made)) == ["spread  WAITING  with 3 children: 2 RUNNING, 1 SUCCEEDED"]
