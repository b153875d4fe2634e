"""Texts that mean something elsewhere, to a shell, a template, a terminal or a log, mean nothing here."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from ares.agent.settings import AgentSettings
from ares.api.jobs import JobDetail
from ares.edge.cli.commands.show import render
from ares.edge.cli.render.table import layout
from ares.model.job import JobSpec
from ares.model.link import Exited, Hello
from ares.model.state import ExitInfo, JobState, LedgerEvent
from tests import needs
from tests.integration.agent.conftest import Running
from tests.integration.agent.scripted import ScriptedPlane

ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\n\u202e\x08"


def hostile(canary: Path) -> list[str]:
    return [
        f"$(touch {canary})", f"`touch {canary}`", f"; touch {canary};", f"| touch {canary}", f"\ntouch {canary}\n",
        f"-o ProxyCommand='touch {canary}'", "--", "{{7*7}}", "${HOME}", "%s%n", "{0.__class__}", "\r\nSet-Cookie: a=b",
        "\x1b[31mred\x1b[0m", "'\"", "*", "~",
    ]  # fmt: skip


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[ScriptedPlane]:
    """With a real agent connected to it."""
    plane = ScriptedPlane()
    running = Running(tmp_path, plane, AgentSettings(environment={"PATH": "/usr/bin:/bin"}, poll_every_s=0.05))
    await plane.until(lambda: plane.incarnation > 0)
    yield plane
    running.task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running.task


@pytest.mark.parametrize("isolation", ["any", "sandbox"])
async def test_arguments_and_variables_reach_the_job_as_they_are(
    plane: ScriptedPlane, tmp_path: Path, isolation: str
) -> None:
    """N19: no shell, no template and no option parser lies between; N20: braces and percent signs stay."""
    if isolation != "any" and plane.all(Hello)[0].info.isolation_level != isolation:
        pytest.skip(needs.SANDBOX)
    canary = tmp_path / "canary"
    texts = hostile(canary)
    variables = {f"V{number}": text for number, text in enumerate(texts)}
    script = "import os, sys; print(ascii((sys.argv[1:], [os.environ[f'V{n}'] for n in range(len(sys.argv) - 1)])))"
    command = ("/usr/bin/python3", "-I", "-S", "-c", script, *texts)
    plane.say(plane.start("j1", *command, name="a name -o x", env=variables, isolation=isolation))
    exited = await plane.first(Exited, "j1")
    assert exited.exit.code == 0, exited.exit.message
    assert bytes(plane.logs[(exited.ref, 0)]).decode().strip() == ascii((texts, texts))
    assert not os.access(canary, os.F_OK)


@pytest.mark.parametrize("name", ["$(id)", "a;b", "a\nb", "-rf", "\x1b[31m", "a\r\nb", "../x", "a\u202eb", "{{x}}", ""])
def test_a_name_is_a_name(name: str) -> None:
    """N19: what could be more than that is refused, with the field named."""
    with pytest.raises(msgspec.ValidationError, match=r"\$\.name"):
        msgspec.convert({"command": ["true"], "name": name}, JobSpec)


def test_nothing_a_job_says_steers_the_terminal_of_who_looks_at_it() -> None:
    """N19: arguments, labels, reasons, messages and results as `ares show` and `ares list` print them."""
    spec = JobSpec(command=("echo", ESCAPES), labels={"a": "b"}, workdir="/x")
    state = JobState(
        id="j1", tenant="t", name="job", submitted_by="u", phase="FAILED", reason=ESCAPES,
        exit=ExitInfo(failure="exit", message=ESCAPES),
    )  # fmt: skip
    event = LedgerEvent(
        job="j1", tenant="t", seq=1, at=0.0, kind="failed", phase="FAILED", attempt=1, by=ESCAPES, reason=ESCAPES
    )
    lines = [*render(JobDetail(state=state, spec=spec), (event,), 0.0), *layout(("A",), [(ESCAPES,)])]
    assert any("\\x1b]0;owned" in line for line in lines)
    assert [line for line in lines if not line.isprintable()] == []
