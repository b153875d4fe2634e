"""checkpoints.md, Orbax: its program as it is written, with the real Orbax and JAX on the CPU, killed in a save."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.e2e.test_runtime_guides import ROOT, agents, files, submitted
from tests.platform import Platform
from tests.runtimes import WITHIN_S, orbax_python

pytestmark = [pytest.mark.timeout(WITHIN_S), pytest.mark.slow]


def test_orbax_goes_on_from_what_was_handed_over(platform: Platform, tmp_path: Path) -> None:
    tools = orbax_python()
    agents(platform, tools, ("node-a",))
    client, at = platform.client(), files("checkpoints.md", tmp_path / "project")
    program = at / "orbax_train.py"
    without_fault = program.read_text()
    # Orbax has written its files, and they are no checkpoint yet.
    dies = "if job.attempt == 1 and state['step'] > 30: __import__('signal').raise_signal(9)"
    handing = "        job.checkpoint(new, step=int("
    assert handing in without_fault
    program.write_text(without_fault.replace(handing, f"        {dies}\n{handing}"))
    job = submitted(platform, at, "orbax.yaml")
    detail = client.wait(job, timeout=240)
    assert (detail.state.phase, detail.state.attempt) == ("SUCCEEDED", 2), detail.state.reason
    said = b"".join(client.logs(job, attempt=2)).decode()
    (began,) = re.findall(r"begins at step (\d+)", said)
    kept = [
        event.data["step"] for event in client.job_events(job) if event.kind == "checkpointed" and event.attempt == 1
    ]
    assert int(began) == kept[-1] <= 30
    program.write_text(without_fault)
    assert detail.result is not None
    assert detail.result.value == _alone(at, tools)
    assert detail.result.value["steps"] == 60


def _alone(at: Path, tools: Path) -> object:
    """What the program has as its result without Ares and without a fault."""
    result = at / "result.json"
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "ARES_RESULT_FILE": str(result)}
    subprocess.run([str(tools / "python"), "orbax_train.py"], cwd=at, env=env, check=True)
    return json.loads(result.read_bytes())
