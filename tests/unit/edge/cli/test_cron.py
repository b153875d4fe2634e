"""`ares cron`: what is sent of what is typed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.edge.client.stub import Stub, problem


@pytest.mark.parametrize(
    "typed",
    [("--memory", "4G", "--", "python", "report.py"), ("-f", "job.yaml"), ("--memory", "4G", "python", "report.py")],
)
def test_options_of_the_job_come_after_the_schedule(
    ares: Callable[..., Any], stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.yaml").write_text("command: [python, report.py]\nmemory: 4G\n")
    stub.on("PUT", "/v1/crons/nightly", problem(403, "forbidden"))
    assert ares("cron", "add", "--zone", "Europe/Berlin", "nightly", "30 3 * * *", *typed).code != 0
    (asked,) = stub.requests("PUT", "/v1/crons/nightly")
    assert (asked.body["schedule"], asked.body["zone"]) == ("30 3 * * *", "Europe/Berlin")
    spec = asked.body["spec"]
    assert (spec["command"], spec["resources"]["memoryMib"]) == (["python", "report.py"], 4096)
