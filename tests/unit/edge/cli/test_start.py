"""Start-up stays light, help is complete, errors are two lines."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import click
import pytest

from ares.app.main import COMMANDS, cli
from ares.edge.cli import job_flags
from ares.edge.cli.commands import jobs
from ares.model.job import Effects, Priority, Restart
from ares.model.state import TERMINAL, Phase
from tests.unit.edge.client.stub import JOB, Say, Stub, detail, problem, state

HEAVY = (
    "rich",
    "httpx2",
    "msgspec",
    "numpy",
    "litestar",
    "grpc",
    "yaml",
    "uvicorn",
    "structlog",
    "asyncio",
    "ssl",
    "json",
)


def modules_after(*arguments: str, **env: str) -> set[str]:
    """What is loaded when a command line has run, in a fresh interpreter."""
    code = (
        "import sys\nfrom ares.app.main import run\n"
        f"run({list(arguments)!r})\nprint('MODULES', *sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env={**os.environ, **env}
    )
    line = next(line for line in done.stderr.splitlines() if line.startswith("MODULES"))
    return set(line.split())


@pytest.mark.parametrize(
    "arguments", [("--help",), ("submit", "--help"), ("version",), ("--version",), ("nonsense",), ("up", "--help")]
)
def test_start_loads_nothing_heavy(arguments: tuple[str, ...]) -> None:
    loaded = modules_after(*arguments)
    assert "click" in loaded
    assert sorted(set(HEAVY) & loaded) == []


# What a command that scripts call in a loop may not load: most of its time would be that.
SLOW = (
    "httpx2", "asyncio", "http.client", "ssl", "rich", "numpy", "grpc", "litestar", "yaml", "ares.edge.client.sync",
    "concurrent.futures", "tempfile", "difflib", "encodings.idna",
    # Records of answers that it does not read.
    "ares.api.identity", "ares.api.nodes", "ares.api.pools",
)  # fmt: skip
# What is shipped, files or an image, is checked by the rules that the server has: a small module each.
RULES_OF_PROJECTS = {
    "ares.core", "ares.core.project", "ares.core.image", "ares.core.image.reference",
}  # fmt: skip
SLOW_ROOMS = (
    "ares.core",
    "ares.control",
    "ares.adapters",
    "ares.agent",
    "ares.sim",
    "ares.edge.rest",
    "ares.edge.grpc",
)


@pytest.mark.parametrize(
    "arguments", [("jobs",), ("submit", "--gpus", "1", "--", "true"), ("jobs", "--output", "json")]
)
def test_commands_for_scripts_load_little(stub: Stub, arguments: tuple[str, ...]) -> None:
    stub.on("GET", "/v1/jobs", {"jobs": [state()], "cursor": ""})
    stub.on("POST", "/v1/jobs", Say({"id": JOB, "replayed": False, "tasks": 1}, 201))
    loaded = modules_after(*arguments, ARES_URL=stub.url, ARES_TOKEN="token")
    assert [asked.path for asked in stub.asked] == ["/v1/jobs"]
    assert sorted(set(SLOW) & loaded) == []
    assert sorted(name for name in loaded - RULES_OF_PROJECTS if name.startswith(SLOW_ROOMS)) == []


def test_completion_of_commands_loads_nothing_heavy() -> None:
    env = {"_ARES_COMPLETE": "bash_complete", "COMP_WORDS": "ares su", "COMP_CWORD": "1"}
    code = "import sys\nfrom ares.app.main import cli\ntry: cli(prog_name='ares')\nfinally: print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env={**os.environ, **env}
    )
    assert done.stdout.splitlines()[0] == "plain,submit"
    assert sorted(set(HEAVY) & set(done.stdout.split())) == []


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Any:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None, f"{path} {name} is listed but not there"
            yield from commands(found, (*path, name))


def test_every_command_and_option_is_explained() -> None:
    bare = [
        (path, parameter.name)
        for path, command in commands(cli)
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.help
    ]
    silent = [path for path, command in commands(cli) if not command.help]
    cut = [path for path, command in commands(cli) if command.get_short_help_str(66).endswith("...") and path]
    assert (bare, silent, cut) == ([], [], [])


def test_all_asked_for_commands_are_there() -> None:
    asked = "up server agent submit jobs show logs wait cancel retry events nodes pools lease token store version"
    assert {*asked.split(), "completion"} <= COMMANDS.keys()


def test_choices_are_those_of_the_model() -> None:
    from typing import get_args

    assert get_args(Priority) == job_flags.PRIORITIES
    assert get_args(Effects) == job_flags.EFFECTS
    assert get_args(Restart) == job_flags.RESTARTS
    assert get_args(Phase) == jobs.PHASES
    assert set(jobs.PHASES) - set(jobs.ACTIVE) == TERMINAL


# ---- errors


def test_nobody_listens(ares: Callable[..., Any], stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARES_URL", "http://127.0.0.1:9")
    done = ares("jobs")
    error, fix = done.err.splitlines()
    assert done.code == 1
    assert error.startswith("error: The Ares server does not answer: http://127.0.0.1:9 (from ARES_URL): ")
    assert fix.startswith("fix: start it with `ares up`")


def test_nothing_is_configured(ares: Callable[..., Any], stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ARES_URL")
    done = ares("jobs")
    assert done.code == 1
    assert "client.json does not exist" in done.err
    assert "fix: start one here with `ares up`" in done.err


def test_the_servers_words_are_passed_on_without_its_escapes(ares: Callable[..., Any], stub: Stub) -> None:
    stub.on("GET", f"/v1/jobs/{JOB}", problem(403, "forbidden", "not \x1b[2J yours\nerror: fake", "ask an admin"))
    done = ares("show", JOB)
    assert done.err.splitlines() == [
        "error: This token may not do that: not \\x1b[2J yours\\nerror: fake",
        "fix: ask an admin",
    ]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("jbos",), "did you mean `ares jobs`?"),
        (("jobs", "--limit", "many"), "'many' is not a valid integer"),
        (("jobs", "--phase", "DONE"), "'DONE' is not one of"),
        (("submit", "--nonsense", "x"), "No such option"),
        (("submit", "--label", "x", "--", "true"), "'x' is not of the form key=value"),
        (("submit", "--env", "SURELY_UNSET", "--", "true"), "SURELY_UNSET is not set here"),
        (("submit", "--follow", "--array", "0-3", "--", "true"), "an array has no single output"),
        (("events",), "name a job, or use -f"),
        (("show",), "Missing argument 'JOB'"),
        (("server", "--listen", "8642"), "'8642' is not HOST:PORT"),
    ],
)
def test_wrong_usage_exits_with_2(ares: Callable[..., Any], stub: Stub, arguments: Any, says: str) -> None:
    done = ares(*arguments)
    assert done.code == 2
    assert says in done.err
    assert done.err.splitlines()[-1].startswith("fix: `ares")
    assert stub.asked == []


def test_no_traceback_unless_asked_for(ares: Callable[..., Any], stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ares.edge.cli.commands.jobs.fetch", lambda *_: 1 / 0)
    done = ares("jobs")
    assert done.code == 1
    assert done.err.splitlines() == [
        "error: ZeroDivisionError: division by zero",
        "fix: set ARES_DEBUG=1 to see where, and report it",
    ]
    monkeypatch.setenv("ARES_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        ares("jobs")


def test_a_missing_file_is_named(ares: Callable[..., Any], stub: Stub) -> None:
    assert ares("submit", "-f", "absent.yaml").err == "error: absent.yaml: No such file or directory\n"


# ---- as a process


@contextmanager
def spawned(stub: Stub, *arguments: str) -> Generator[subprocess.Popen[str]]:
    """A command line in a process of its own, which ends with the test however that ends."""
    env = {**os.environ, "ARES_URL": stub.url, "ARES_TOKEN": "token"}
    with subprocess.Popen(
        [sys.executable, "-m", "ares", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_ctrl_c_detaches_and_leaves_the_job(stub: Stub) -> None:
    ended = threading.Event()

    def quiet() -> Any:
        yield b": open\n\n"
        ended.wait(60)

    stub.on("POST", "/v1/jobs", Say({"id": JOB, "replayed": False, "tasks": 1}, 201))
    stub.on("GET", "/v1/events", Say(pieces=quiet()))
    stub.on("GET", f"/v1/jobs/{JOB}", detail("RUNNING"))
    with spawned(stub, "submit", "--wait", "--", "sleep", "100") as process:
        stub.wait_for("GET", f"/v1/jobs/{JOB}")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    ended.set()
    assert process.returncode == 130
    assert out == ""
    assert f"the job goes on. ares wait {JOB} waits again, ares cancel {JOB} ends it" in err
    assert "Traceback" not in err
    assert stub.requests("DELETE", f"/v1/jobs/{JOB}") == []


def test_a_reader_that_leaves_is_no_error(stub: Stub) -> None:
    stub.on("GET", "/v1/jobs", {"jobs": [state(id=f"job{n}", reason="x" * 500) for n in range(1000)], "cursor": ""})
    with spawned(stub, "jobs") as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
        assert process.wait(30) == 1


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(ares: Callable[..., Any], stub: Stub, shell: str) -> None:
    done = ares("completion", shell)
    assert done.code == 0
    assert f"_ARES_COMPLETE={shell}_complete" in done.out


def complete(stub_url: str, words: str) -> list[str]:
    env = {
        **os.environ, "ARES_URL": stub_url, "ARES_TOKEN": "token", "_ARES_COMPLETE": "bash_complete",
        "COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1),
    }  # fmt: skip
    done = subprocess.run([sys.executable, "-m", "ares"], capture_output=True, text=True, check=False, env=env)
    assert done.stderr == ""
    return done.stdout.split()


def test_job_ids_are_completed(stub: Stub) -> None:
    stub.on("GET", "/v1/jobs", {"jobs": [state(id="aaa1"), state(id="aaa2"), state(id="bbb")], "cursor": ""})
    assert complete(stub.url, "ares logs aa") == ["plain,aaa1", "plain,aaa2"]
    assert complete("http://127.0.0.1:9", "ares logs aa") == []


def test_an_option_of_another_tool_is_answered_without_guesses(ares: Callable[..., Any], stub: Stub) -> None:
    done = ares("submit", "--dependency", "afterok:1", "--", "true")
    assert done.err.splitlines() == ["error: there is no option --dependency", "fix: here it is --after ok:JOB"]
    assert done.code == 2
