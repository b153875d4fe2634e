"""A job's trace on a platform that runs: by the command line, for other programs, and as the program itself sees it."""

import json
import re
import sys
from pathlib import Path
from typing import Any, cast

from ares.model.job import JobSpec, RetryPolicy
from tests.collector import collecting
from tests.platform import Platform, eventually
from tests.ports import free_ports
from tests.tidy.source import ROOT

SCRIPT = 'echo $TRACEPARENT; test "$ARES_ATTEMPT" -ge 2 || exit 3'


def test_a_retried_job_from_its_first_moment_to_its_last(shared: Platform, tmp_path: Path) -> None:
    """It fails, waits, runs again: the ids that its processes were given are those of its run spans."""
    client = shared.client()
    spec = JobSpec(command=("sh", "-c", SCRIPT), name="twice", retry=RetryPolicy(limit=2, base_s=0.1))
    job = client.submit(spec)
    seen = eventually(lambda: _of(shared, job.id), "a trace")
    assert seen["spans"][0]["name"] == "job"
    client.wait(job, timeout=60)
    trace = _of(shared, job.id)
    runs = [span for span in trace["spans"] if span["name"] == "run"]
    assert [(span["attempt"], span["status"]) for span in runs] == [(1, "error"), (2, "ok")]
    assert runs[1]["links"][0]["spanId"] == runs[0]["spanId"]
    assert all(span["endedAt"] is not None for span in trace["spans"])
    for attempt, run in enumerate(runs, start=1):
        said = shared.cli("logs", job.id, "--attempt", str(attempt)).out.strip()
        assert said == f"00-{trace['traceId']}-{run['spanId']}-01"
    shown = shared.cli("trace", job.id).out
    assert [line.split()[0] for line in shown.splitlines()[1:]] == [span["name"] for span in trace["spans"]]
    assert "FAILED" in shown
    file, other = tmp_path / "trace.json", tmp_path / "otlp.json"
    shared.cli("trace", job.id, "--chrome", str(file), "--otlp", str(other))
    events = json.loads(file.read_text())["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) == len(trace["spans"])
    (scope,) = json.loads(other.read_text())["resourceSpans"][0]["scopeSpans"]
    assert {span["spanId"] for span in scope["spans"]} == {span["spanId"] for span in trace["spans"]}


def _of(platform: Platform, job: str) -> dict[str, Any]:
    return cast("dict[str, Any]", platform.cli("trace", job, "-o", "json").json())


def test_a_collector_gets_what_went_wrong_and_all_metrics(tmp_path: Path) -> None:
    """Also what ended while it was away; of the others as many as asked for: none."""
    port = free_ports(1)[0]
    given = {
        "ARES_OTLP__ENDPOINT": f"http://127.0.0.1:{port}", "ARES_OTLP__TRACES_PERCENT": "0",
        "ARES_OTLP__METRICS_EVERY_S": "1",
    }  # fmt: skip
    with Platform(tmp_path / "platform", warm=True) as platform:
        platform.server(env=given)
        platform.agent("node-a")
        client = platform.client()
        bad, good = client.submit(command=["false"], workdir="none"), client.submit(command=["true"], workdir="none")
        for job in (bad, good):
            client.wait(job, timeout=60)
        with collecting(port) as (collector, _):
            eventually(lambda: collector.named("commit"), "a trace of the job that failed")
            eventually(lambda: "ares_jobs_total" in collector.metrics, "metrics")
            trace = _of(platform, bad.id)
            assert {span.span_id.hex() for span in collector.spans} == {span["spanId"] for span in trace["spans"]}
            assert {span.trace_id.hex() for span in collector.spans} == {trace["traceId"]}


def test_what_the_program_records_is_part_of_its_trace(tmp_path: Path) -> None:
    """The program of the documents, as it is written there, with the real SDK."""
    page = (ROOT / "docs" / "concepts" / "traces.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", page, re.S)
    with Platform(tmp_path / "platform", warm=True) as platform:
        platform.server()
        platform.agent("node-a", env={"ARES_NODE__SPANS": "true"})
        client = platform.client()
        job = client.submit(command=[sys.executable, "-c", program], workdir="none")
        assert client.wait(job, timeout=60).state.phase == "SUCCEEDED", platform.cli("logs", job.id).out
        trace = eventually(lambda: _with_programs(platform, job.id), "spans of the program")
        (run,) = [span for span in trace["spans"] if span["name"] == "run"]
        (inner,) = [span for span in trace["spans"] if span["name"] == "program"]
        assert (inner["label"], inner["parentId"], inner["attributes"]) == ("epoch", run["spanId"], {"loss": 0.25})
        assert "epoch" in platform.cli("trace", job.id).out


def _with_programs(platform: Platform, job: str) -> dict[str, Any] | None:
    trace = _of(platform, job)
    return trace if any(span["name"] == "program" for span in trace["spans"]) else None
