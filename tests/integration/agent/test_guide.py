"""The guide's program does what the guide says."""

import json
import re
import sys
from pathlib import Path

from ares import job as job_module
from ares.model.link import Exited, Fenced, Progress, Stop
from tests.integration.agent.conftest import Running
from tests.integration.agent.scripted import ScriptedPlane

ROOT = Path(__file__).parents[3]
BLOCKS = re.findall(r"^```python\n# (\S+)\n(.*?)^```", (ROOT / "docs/guides/gangs.md").read_text(), re.M | re.S)


async def test_a_preempted_program_goes_on_where_it_was(running: Running, plane: ScriptedPlane, tmp_path: Path) -> None:
    program = dict(BLOCKS)["count.py"]
    env = {"CHECKPOINT": str(tmp_path / "saved.json"), "PYTHONPATH": str(Path(job_module.__file__).parents[1])}
    endless = plane.start("count", sys.executable, "-c", program, "1000000000", env=env)
    plane.say(endless)
    await plane.first(Progress, "count")
    plane.say(Stop(ref=endless.ref, grace_s=600, reason="preempted", checkpoint_signal="SIGUSR1", wait_s=600))
    await plane.first(Fenced, "count")
    saved = json.loads((tmp_path / "saved.json").read_bytes())["step"]
    assert saved > 0
    # With fewer steps to do than it had done: whatever it says comes from the checkpoint.
    plane.say(plane.start("count", sys.executable, "-c", program, "1", env=env, counter=2))
    exited = await plane.first(Exited, "count")
    assert (exited.exit.code, json.loads(exited.value)) == (0, {"steps": saved})
