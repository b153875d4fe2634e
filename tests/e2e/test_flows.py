"""Workflows by the command line, on real processes; and the only server killed on the way."""

import json

from tests.platform import Platform, eventually

FLOW = """\
name: nightly
jobs:
  prep:
    command: [sh, -c, 'echo prepared']
    cpus: 100m
    memory: 64M
  fold:
    command: [sh, -c, 'exit $((ARES_ARRAY_INDEX == 1))']
    cpus: 100m
    memory: 64M
    array: 0-2
    retries: 0
    after: ok:prep
  score:
    command: ["true"]
    cpus: 100m
    memory: 64M
    array: 0-2
    needs: [{job: fold, each: true}]
  clean:
    command: ["true"]
    cpus: 100m
    memory: 64M
    finally: true
"""


def test_a_workflow_by_the_command_line(shared: Platform) -> None:
    path = shared.directory / "flow.yaml"
    path.write_text(FLOW)
    made = json.loads(shared.cli("submit", "-f", str(path), "-o", "json").out)
    assert (made["name"], made["jobs"], made["tasks"]) == ("nightly", 4, 8)
    assert shared.cli("wait", made["ids"]["clean"]).code == 0
    shown = shared.cli("flow", "show", made["id"])
    assert shown.code == 0
    head, *lines = shown.out.splitlines()
    assert head.startswith(f"nightly  {made['id']}  1 FAILED, 1 SKIPPED, 6 SUCCEEDED")
    assert lines[:3] == ["prep  SUCCEEDED", "└─ fold x3  FAILED", "   └─ score x3  SKIPPED"]
    # Waiting for a skipped task says so by its code.
    assert shared.cli("wait", f"{made['ids']['score']}_1").code == 119
    again = json.loads(shared.cli("flow", "retry", made["id"], "--from", "fold", "-o", "json").out)
    assert set(again["ids"]) == {"fold", "score", "clean"}
    cancelled = shared.cli("flow", "cancel", again["id"])
    assert cancelled.code == 0, cancelled
    no = shared.cli("flow", "show", "nosuchflow")
    assert (no.code, "nosuchflow" in no.err) == (1, True), no


def test_hold_release_begin_and_after(shared: Platform) -> None:
    held = shared.cli("submit", "--hold", "--cpus", "100m", "-o", "name", "--", "true").out.strip()
    after = shared.cli("submit", "--after", f"ok:{held}", "--cpus", "100m", "-o", "name", "--", "true").out.strip()
    later = shared.cli("submit", "--begin", "2h", "--cpus", "100m", "-o", "name", "--", "true").out.strip()
    waiting = json.loads(shared.cli("jobs", "--phase", "WAITING", "-o", "json").out)
    codes = {job: waiting["waiting"][job]["code"] for job in (held, after, later)}
    assert codes == {held: "HELD", after: "WAITING_FOR_JOB", later: "BEGIN_AT"}
    released = shared.cli("release", held)
    assert (released.code, "PENDING" in released.out) == (0, True), released
    assert shared.cli("wait", after).code == 0
    assert "SUCCEEDED" in shared.cli("release", after).err
    assert shared.cli("hold", later).code == 0
    assert shared.cli("cancel", later).code == 0


def test_a_chain_goes_on_when_its_only_server_is_killed(platform: Platform) -> None:
    """Killed again and again while a chain and a fan-out run: each job ends once, in order."""
    server = platform.server()
    platform.agent("node-a")
    ask = {"command": ["true"], "cpus": "50m", "memory": "32M"}
    jobs = {"j0": ask} | {f"j{n}": {**ask, "after": f"ok:j{n - 1}"} for n in range(1, 12)}
    jobs |= {f"fan{n}": {**ask, "after": "ok:j2"} for n in range(12)}
    client = platform.client()
    made = client.submit_flow(jobs, name="chain")
    for step in ("j2", "j5", "j8"):
        client.wait(made.ids[step], 120.0)
        server.kill()
        server.start()
        eventually(lambda: server.ready() or None, "the server is back")
    client.wait(made.ids["j11"], 120.0)
    eventually(lambda: client.flow(made.id).counts == {"SUCCEEDED": 24} or None, "all jobs have ended", 120.0)
    for job in made.ids.values():
        kinds = [event.kind for event in client.job_events(job)]
        assert (kinds.count("ready"), kinds.count("succeeded")) == (1, 1)
