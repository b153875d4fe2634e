"""What is decided does not depend on the order in which a process happens to keep its sets and names."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
PROGRAM = """
import hashlib, msgspec
from ares.sim.traces.engine import ReplayOptions, replay
from ares.sim.traces.policies import POLICIES
from tests.unit.check.replay.made import some
for name in ("greedy", "easy", "easy-sjbf", "conservative", "aggressive", "deadline", "default"):
    log = []
    replay(some(2, unknown=True, outlive=True, fewer=True), POLICIES[name], ReplayOptions(log=log.append))
    print(name, hashlib.sha256(msgspec.json.encode(log)).hexdigest())
"""


def _said(seed: str) -> str:
    env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, env=env, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_every_strategy_decides_the_same_in_every_process() -> None:
    one = _said("1")
    assert len(one.splitlines()) == 7
    assert _said("2") == one == _said("77")
