"""A sandbox from the command line to the process and back, with a real server and a real agent."""

import os

import pytest

from tests import needs
from tests.platform import Platform


def test_a_job_that_asks_for_a_sandbox_is_in_one(shared: Platform) -> None:
    """N28: what the job reads of the agent's directory, which holds its credential, is that there is none."""
    shown = shared.cli("node", "show", "node-a").out
    if "Isolation:     sandbox\n" not in shown:
        pytest.skip(needs.SANDBOX)
    assert "Kept apart by: pid-namespace, " in shown
    agent = shared.directory / "nodes" / "agents" / "node-a"
    script = f"ls {agent}; cat /proc/net/dev | wc -l; grep Seccomp: /proc/self/status"
    ran = shared.cli("submit", "--isolation", "sandbox", "--network", "none", "--follow", "--", "sh", "-c", script)
    # Two lines of header, and the loopback.
    assert (ran.code, ran.out.split()) == (0, ["attempts", "3", "Seccomp:", "2"]), ran
    assert {"attempts", "executor"} <= set(os.listdir(agent))
