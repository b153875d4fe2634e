"""A job's trace on a platform that runs: by the command line, for other programs, and as the program itself sees it."""

import json
from pathlib import Path
from typing import Any, cast

from ares.model.job import JobSpec, RetryPolicy
from tests.platform import Platform, eventually

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
