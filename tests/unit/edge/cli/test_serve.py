"""What the command line hands to the programs behind it."""

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ares.app.commands.up import SAMPLE_REQUEST_ID
from ares.app.up import SupervisorStart, UpError
from tests.unit.edge.client.stub import JOB, Say, Stub, detail, problem

Ares = Callable[..., Any]


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """Every program notes what it is given instead of running."""
    calls: list[Any] = []
    monkeypatch.setenv("ARES_HOME", str(tmp_path / "default"))
    monkeypatch.delenv("ARES_JOIN_TOKEN", raising=False)

    def note(name: str) -> Callable[..., int]:
        return lambda *given, **named: calls.append((name, *given, named)) or 0

    for target in ("server.main", "agent.main", "store.backup", "store.restore", "up.supervise"):
        monkeypatch.setattr(f"ares.app.{target}", note(target))
    return calls


def test_server_flags(called: list[Any], ares: Ares, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('[http]\nport = 1\nhost = "0.0.0.0"\n[limits]\njobs_max = 7\n')
    done = ares(
        "server", "--config", str(tmp_path / "c.toml"), "--home", str(tmp_path / "h"), "--listen", "[::1]:2",
        "--agents", "10.0.0.1:3", "--store", "memory:", "--replica", "r1", "--set", "limits.jobs_max=9",
    )  # fmt: skip
    ((name, config, named),) = called
    assert (done.code, name, named) == (0, "server.main", {})
    assert config.home == str(tmp_path / "h")
    assert (config.http.host, config.http.port) == ("::1", 2)
    assert (config.agents.host, config.agents.port) == ("10.0.0.1", 3)
    assert (config.store.url, config.replica, config.limits.jobs_max) == ("memory:", "r1", 9)


def test_flags_not_given_leave_the_file_alone(called: list[Any], ares: Ares, tmp_path: Path) -> None:
    (tmp_path / "default").mkdir()
    (tmp_path / "default" / "ares.toml").write_text("[http]\nport = 4711\n")
    assert ares("server").code == 0
    assert called[0][1].http.port == 4711


def test_agent_flags_and_join_tokens(
    called: list[Any], ares: Ares, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("ares_join_file\n")
    ares(
        "agent",
        "--server",
        "a:1",
        "--server",
        "b:2",
        "--name",
        "n",
        "--label",
        "k=v",
        "--join",
        str(tmp_path / "token"),
    )
    monkeypatch.setenv("ARES_JOIN_TOKEN", "ares_join_env")
    ares("agent", "--auto-join")
    (_, first, named), (_, second, others) = called
    assert (first.node.servers, first.node.name, first.node.labels) == (("a:1", "b:2"), "n", {"k": "v"})
    assert named == {"join_token": "ares_join_file", "auto_join": False}
    assert others == {"join_token": "ares_join_env", "auto_join": True}
    assert second.node.servers == ("127.0.0.1:8643",)


def test_wrong_configuration_is_two_lines_at_most(called: list[Any], ares: Ares, tmp_path: Path) -> None:
    done = ares("server", "--set", "http.port=many")
    assert done.code == 78
    assert done.err.startswith("error: configuration from command line")
    assert "Traceback" not in done.err
    assert ares("server", "--config", str(tmp_path / "absent.toml")).code == 78
    done = ares("server", "--store", "sqlite:relative")
    assert (done.code, done.err.splitlines()[0]) == (
        78,
        "error: store.url from command line: sqlite:relative names no store",
    )
    assert called == []


def test_backup_and_restore_say_which_epoch_and_what_is_kept(ares: Ares, tmp_path: Path) -> None:
    copy, where = tmp_path / "copy", ("--home", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    assert ares("store", "restore", str(copy)).code == 2
    assert ares("store", "new-epoch", *where).code == 0
    assert ares("store", "backup", str(copy), *where).out.startswith(f"written {copy}: epoch 1, revision ")
    for number in (1, 2):
        told, kept = ares("store", "restore", str(copy), *where).out.splitlines()
        assert told == f"restored from {copy}; the store is in epoch {number + 1}"
        assert Path(kept.removeprefix("what it replaced is kept in ")).exists()


def test_a_new_epoch_is_one_further_and_as_far_as_asked(ares: Ares, tmp_path: Path) -> None:
    where = ("--home", str(tmp_path))
    assert ares("store", "new-epoch", *where).out == "the store is in epoch 1\n"
    assert ares("store", "new-epoch", *where).out == "the store is in epoch 2\n"
    assert ares("store", "new-epoch", "--above", "7", *where).out == "the store is in epoch 8\n"
    assert ares("store", "new-epoch", "--set", "store.url=memory:", *where).code == 78


# ---- ports that are taken


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


@pytest.mark.parametrize("command", ["server", "up"])
@pytest.mark.parametrize("key", ["http.port", "agents.port"])
def test_a_taken_port_is_named_at_once(ares: Ares, tmp_path: Path, taken: int, command: str, key: str) -> None:
    ports = {"http.port": 0, "agents.port": 0, key: taken}
    home = tmp_path / "home"
    done = ares(command, "--home", str(home), *(f"--set={name}={port}" for name, port in ports.items()))
    what, fix = done.err.splitlines()
    assert (done.code, what) == (78, f"error: cannot listen on 127.0.0.1 port {taken}: another program listens there")
    assert fix.startswith("fix: choose another by ")
    assert not (home / "store.db").exists()


def test_a_supervisor_gives_up_what_is_configured_wrongly(tmp_path: Path, taken: int) -> None:
    command = ["up", "--foreground", "--home", str(tmp_path), f"--set=http.port={taken}", "--set=agents.port=0"]
    done = subprocess.run([sys.executable, "-m", "ares", *command], stderr=subprocess.PIPE, timeout=60, check=False)
    assert done.returncode == 78
    assert f"error: cannot listen on 127.0.0.1 port {taken}" in done.stderr.decode()


@pytest.mark.parametrize(
    ("log", "what", "fix"),
    [
        ("error: cannot\nfix: choose\n{}\n", "cannot", "choose"),
        ("error: first\nfix: one\nerror: last\n", "last", ""),
        ("nothing to say\n", "the supervisor ended with 3", ""),
    ],
)
def test_up_tells_why_its_supervisor_ended(tmp_path: Path, log: str, what: str, fix: str) -> None:
    path = tmp_path / "up.log"
    path.write_text(f"error: of an earlier start\nfix: old\n{log}")
    ended = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    ended.wait(30)
    started = SupervisorStart(ended, path, len("error: of an earlier start\nfix: old\n"))
    with pytest.raises(UpError) as caught:
        started.require_alive()
    assert str(caught.value).startswith(what)
    assert caught.value.fix == fix


def test_up_in_the_foreground_only_supervises(called: list[Any], ares: Ares) -> None:
    assert ares("up", "--foreground", "--port", "5").code == 0
    ((name, config, _),) = called
    assert (name, config.http.port) == ("up.supervise", 5)


# ---- up, with the stub as the platform


@pytest.fixture
def platform(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> Stub:
    monkeypatch.setattr("ares.app.up.is_up", lambda home: True)
    monkeypatch.setattr("ares.app.up.connection", lambda home: (stub.url, "token"))
    monkeypatch.setattr("ares.app.commands.up.LOOK_EVERY_S", 0.001)
    late = {"name": "local", "info": {"name": "local", "cpuMilli": 1, "memoryMib": 1}, "ready": False, "gpusFree": 4}
    stub.on(
        "GET",
        "/v1/nodes",
        problem(503, "not-ready"),
        {"nodes": []},
        {"nodes": [late]},
        {"nodes": [{**late, "ready": True}]},
    )
    stub.on("GET", "/readyz", {"status": "ready", "checks": {"leader": "r"}})
    stub.on("POST", "/v1/me/login-links", Say({"path": "/ui/#login=secret", "expiresAt": 1.0}, 201))
    return stub


def test_up_with_a_server_that_makes_no_links_says_where_the_dashboard_is(platform: Stub, ares: Ares) -> None:
    platform.on("POST", "/v1/me/login-links", problem(404, "not-found"))
    done = ares("up", "--no-sample")
    assert done.code == 0
    assert f"Dashboard: {platform.url}/ui/\n" in done.out


def test_up_waits_for_its_machine_and_runs_the_sample(platform: Stub, ares: Ares) -> None:
    platform.on("POST", "/v1/jobs", Say({"id": JOB, "replayed": False, "tasks": 1}, 201))
    platform.on("GET", f"/v1/jobs/{JOB}/logs", Say(headers={"x-ares-attempt": "1"}, pieces=[b"Hello\n"]))
    result = {"job": JOB, "fence": {}, "attempt": 1, "exit": {"code": 0}, "committedAt": 1.0, "value": {"answer": 42}}
    platform.on("GET", f"/v1/jobs/{JOB}", detail("SUCCEEDED", attempt=1, result=result))
    done = ares("up")
    (asked,) = platform.requests("POST", "/v1/jobs")
    assert done.code == 0
    dashboard = f"Dashboard, for one login within ten minutes: {platform.url}/ui/#login=secret"
    told = f"Ares is up at {platform.url}\n{dashboard}\nHello\nits result: {{'answer': 42}}\n\nTry next:\n"
    assert done.out.startswith(told)
    assert asked.body["requestId"] == SAMPLE_REQUEST_ID
    assert asked.body["spec"]["resources"] == {"gpus": 1, "memoryMib": 0}


@pytest.mark.parametrize("again", [Say({"id": JOB, "replayed": True, "tasks": 1}), problem(409, "request-conflict")])
def test_up_again_runs_no_second_sample(platform: Stub, ares: Ares, again: Say) -> None:
    platform.on("POST", "/v1/jobs", again)
    done = ares("up")
    assert done.code == 0
    assert done.out.startswith(f"Ares is up at {platform.url}\nDashboard, ")
    assert platform.requests("GET", f"/v1/jobs/{JOB}/logs") == []


def test_up_without_a_sample(platform: Stub, ares: Ares) -> None:
    assert ares("up", "--no-sample").code == 0
    assert platform.requests("POST", "/v1/jobs") == []


def test_up_that_never_gets_ready_says_where_to_look(
    platform: Stub, ares: Ares, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ares.app.commands.up.READY_WITHIN_S", 0.3)
    platform.on("GET", "/v1/nodes", {"nodes": []})
    done = ares("up")
    assert done.code == 1
    assert "error: Ares is not ready after 0.3 s: its agent has not registered; see " in done.err
    assert done.err.rstrip().endswith("up.log")


def test_down(called: list[Any], ares: Ares, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ares.app.up.stop", lambda home: True)
    monkeypatch.setattr("ares.app.up.is_up", lambda home: True)
    monkeypatch.setattr("ares.app.up.connection", lambda home: None)
    assert ares("down").out == "stopped\n"
    monkeypatch.setattr("ares.app.up.is_up", lambda home: False)
    assert ares("down").out.startswith("nothing runs for ")
