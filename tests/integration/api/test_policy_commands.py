"""`ares policy`, `alert` and `channel`, and the client's methods, against the real API."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from ares import AsyncClient
from ares.adapters.alerts import ChannelNotifier, Smtp
from ares.app import main
from tests.integration.api.world import World

Ares = Callable[..., Awaitable[tuple[int, str, str]]]
LOGGED = re.compile(r"^\d{4}-\d\d-\d\d .*\[(?:info|warning) .*\n", re.MULTILINE)
FILE = """\
name: limits
when: |
  job.time_limit_s == 0.0   // nobody said
action: set
set:
  timeLimitS: 3600.0
  preemption.allowed: false
  labels.by: user.role
"""


@pytest.fixture
async def ares(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Ares:
    """Runs a command line as a tenant-admin."""
    monkeypatch.setenv("ARES_URL", world.server.url)
    monkeypatch.setenv("ARES_TOKEN", await world.token("tenant-admin"))
    monkeypatch.setenv("ARES_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)

    async def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = await asyncio.to_thread(main.run, list(arguments))
        captured = capsys.readouterr()
        # The server's own log goes to the same place here.
        return code, LOGGED.sub("", captured.out), captured.err

    return run


async def test_a_policy_is_checked_tried_set_shown_and_brought_back(ares: Ares, tmp_path: Path) -> None:
    code, out, _ = await ares("policy", "check", "--when", "job.gpus > 4.0", "--action", "reject")
    assert code == 1
    assert "when, line 1, column 10: > does not take (int, double)" in out
    for _ in range(2):
        assert (await ares("submit", "--no-such-flag", "--", "true"))[0] == 2
        assert (await ares("submit", "--", "true"))[0] == 0
    code, out, _ = await ares("policy", "try", "--when", "job.gpus == 0", "--action", "reject", "--since", "1h")
    assert (code, out.splitlines()[0]) == (0, "would have rejected 2 of 2 jobs")

    (tmp_path / "limits.yaml").write_text(FILE)
    assert await ares("policy", "set", "-f", "limits.yaml", "--note", "first") == (0, "limits is at version 1\n", "")
    code, out, _ = await ares("submit", "-o", "json", "--", "true")
    job = json.loads(out)["id"]
    shown = json.loads((await ares("show", job, "-o", "json"))[1])["spec"]
    assert (shown["timeLimitS"], shown["labels"], shown["preemption"]["allowed"]) == (
        3600.0,
        {"by": "tenant-admin"},
        False,
    )

    assert (await ares("policy", "set", "no-gpu", "--when", "job.gpus > 0", "--action", "reject", "--message", "none"))[
        0
    ] == 0
    code, _, err = await ares("submit", "--gpus", "1", "--", "true")
    assert code == 1
    assert "policy no-gpu of tenant acme: none (job.gpus = 1)" in err
    assert (await ares("policy", "disable", "no-gpu"))[1] == "no-gpu is at version 2, not applied\n"
    assert (await ares("submit", "--gpus", "1", "--", "true"))[0] == 0
    assert (await ares("policy", "revert", "no-gpu", "1"))[1] == "no-gpu is at version 3\n"
    out = (await ares("policy", "list"))[1]
    assert [line.split()[0] for line in out.splitlines()] == ["NAME", "limits", "no-gpu"]
    history = (await ares("policy", "show", "no-gpu", "--history"))[1]
    assert history.count("no-gpu\n") == 3
    assert "version 1 again" in history
    assert (await ares("policy", "enable", "no-gpu"))[0] == 0
    assert (await ares("policy", "delete", "no-gpu"))[1] == "no-gpu is gone\n"
    code, _, err = await ares("policy", "show", "no-gpu")
    assert code == 1
    assert "/v1/policies/no-gpu" in err


async def test_a_wrong_file_and_a_wrong_rule_say_what_to_do(ares: Ares, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("when: 'true'\naktion: reject\n")
    code, _, err = await ares("policy", "set", "p", "-f", "p.yaml")
    assert code == 1
    assert "'aktion' is nothing of a policy; known: name, when, action" in err
    code, _, err = await ares("policy", "set", "p", "--when", "job.gpuss > 1", "--action", "warn", "--message", "m")
    assert code == 1
    assert "there is no job.gpuss; did you mean job.gpus" in err
    assert (await ares("policy", "set", "--when", "true", "--action", "warn"))[0] == 2


async def test_warnings_are_printed_and_alerts_seen_to(world: World, ares: Ares) -> None:
    await ares("policy", "set", "w", "--when", "job.name == 'x'", "--action", "warn", "--message", "a\\x1b[31mname")
    code, _, err = await ares("submit", "--name", "x", "--", "true")
    assert code == 0
    assert "warning: policy w: a\\x1b[31mname" in err
    await ares("policy", "set", "a", "--when", "job.name == 'y'", "--action", "alert", "--message", "y is back")
    await ares("submit", "--name", "y", "--", "true")
    alert = json.loads((await ares("alert", "list", "-o", "json"))[1])["alerts"][0]
    assert "y is back" in alert["text"]
    assert "y is back" in (await ares("alert", "list"))[1]
    assert (await ares("alert", "ack", alert["id"], "--note", "mine"))[1] == f"{alert['id']} is acknowledged\n"
    assert (await ares("alert", "resolve", alert["id"]))[1] == f"{alert['id']} is resolved\n"
    assert "y is back" not in (await ares("alert", "list"))[1]


async def test_channels_are_made_listed_tested_and_deleted(
    world: World, ares: Ares, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world.services.channels, "_notifier", ChannelNotifier(lambda: 0.0, smtp=Smtp()))
    code, out, _ = await ares("channel", "set", "ops", "--webhook", "https://127.0.0.1:1/services/canary")
    assert code == 0
    assert "this is not shown again" in out
    out = (await ares("channel", "list"))[1]
    assert "https://127.0.0.1:1/..." in out
    assert "canary" not in out
    code, _, err = await ares("channel", "test", "ops")
    assert code == 1
    assert "not an address of the open internet" in err
    assert (await ares("channel", "set", "ops"))[0] == 2
    code, _, err = await ares("channel", "set", "mail", "--email", "ops@x.example")
    assert code == 1
    assert "alerts.smtp_host" in err
    assert (await ares("channel", "delete", "ops"))[1] == "ops is gone\n"


async def test_the_client_knows_policies_and_alerts(world: World) -> None:
    async with AsyncClient(world.server.url, await world.token("tenant-admin")) as client:
        assert not (await client.check_policy(when="job.gpus > 1.5", action="reject")).ok
        saved = await client.set_policy("p", when="job.gpus > 4", action="reject", message="no")
        assert saved.version == 1
        assert [one.name for one in await client.policies()] == ["p"]
        tried = await client.try_policy(when="true", action="reject", limit=10)
        assert tried.text == "would have rejected 0 of 0 jobs"
        assert (await client.revert_policy("p", 1)).version == 1
        await client.delete_policy("p")
        assert await client.alerts() == ()
        assert await client.channels() == ()
