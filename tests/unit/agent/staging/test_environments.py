"""Environments of attempts: a build that fails leaves nothing, and a directory that hangs holds up its own tenant."""

import asyncio
import errno
import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ares.agent.settings import AgentSettings
from ares.agent.staging import environments
from ares.agent.staging.environments import Environments
from ares.agent.staging.stager import StagingFailed, in_thread
from ares.model.job import JobSpec, PythonEnvironment
from ares.ports.executor import Finished

# An executor or a mailbox that is not asked for anything.
NOTHING: Any = None


class _FullDisk:
    """A stager that finds the disk full, once the directories of the build are there."""

    async def stage(self, _start: object, folder: str, *_more: object) -> None:
        assert os.listdir(os.path.dirname(folder))
        raise OSError(errno.ENOSPC, "No space left on device")


async def test_a_build_on_a_full_disk_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    wish = PythonEnvironment(file="requirements.txt", project="0" * 64)
    spec = JobSpec(command=("true",), python=wish)
    start = SimpleNamespace(spec=spec, ref=SimpleNamespace(tenant="t", job="j"))
    attempt: Any = SimpleNamespace(
        start=start, fenced=False, deadline=0.0, folder=SimpleNamespace(log=str(tmp_path / "log"))
    )
    launch: Any = SimpleNamespace(uid=None)
    stager: Any = _FullDisk()
    made = Environments(tmp_path, stager, NOTHING, NOTHING, AgentSettings(uv="uv"))
    with pytest.raises(StagingFailed, match="cannot be kept here: No space left on device"):
        await made.provide(attempt, launch, lambda said: None)
    assert os.listdir(tmp_path / "cache/t/envs") == []


NONE = "error: No solution found when resolving dependencies\n  cause: Because a was not found in the {}\n"


@pytest.mark.parametrize(
    ("code", "oom", "said", "lasting"),
    [
        (1, False, NONE.format("package registry"), True),
        # Further up than the lines that are shown.
        (1, False, NONE.format("package registry") + "hint: a word\n" * 20, True),
        (1, True, NONE.format("package registry"), False),
        (1, False, NONE.format("cache") + "\nhint: unavailable because the network was\n  disabled.\n", False),
        (1, False, "error: Failed to build `a`\n  cause: the build backend returned an error\n", False),
        (1, False, "error: Failed to build `a`\n" + "No solution found, Failed to parse\n" * 20, False),
        (1, False, "sh: fork: Resource temporarily unavailable\n", False),
        (2, False, "error: Couldn't parse requirement in `requirements.txt` at position 0\n", True),
        (2, False, "error: Failed to fetch: `a`\n", False),
    ],
)
async def test_only_what_no_node_can_have_is_lasting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, oom: bool, said: str, lasting: bool
) -> None:
    log = tmp_path / "log"

    async def run(*_: object) -> Finished:
        log.write_text(said)
        return Finished(code=code, signal=None, oom=oom, max_rss_mib=1, cpu_s=0.0)

    async def stage(*_: object) -> None: ...

    def order(*_: object) -> None: ...

    monkeypatch.setattr(Environments, "_run", run)
    monkeypatch.setattr(Environments, "_order", order)
    spec = JobSpec(command=("true",), python=PythonEnvironment(file="requirements.txt", project="0" * 64))
    start = SimpleNamespace(spec=spec, ref=SimpleNamespace(tenant="t", job="j"))
    attempt: Any = SimpleNamespace(start=start, fenced=False, deadline=0.0, folder=SimpleNamespace(log=str(log)))
    launch: Any = SimpleNamespace(uid=None, memory_mib=1)
    stager: Any = SimpleNamespace(stage=stage)
    made = Environments(tmp_path, stager, NOTHING, NOTHING, AgentSettings(uv="uv"))
    with pytest.raises(StagingFailed) as failed:
        await made.provide(attempt, launch, lambda said: None)
    assert failed.value.lasting == lasting


async def test_a_directory_that_hangs_holds_up_its_own_tenant_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forty jobs of a tenant name it; threads that all share are free, another tenant is served, attempts can end."""
    answers, asked = threading.Event(), list[str]()

    def find(path: str, *_terms: object) -> str:
        asked.append(path)
        if path == "/hangs":
            assert answers.wait(60)
        return path

    monkeypatch.setattr(environments, "find_environment", find)
    made = Environments(tmp_path, None, NOTHING, NOTHING, AgentSettings())
    launch: Any = SimpleNamespace(uid=None)

    def provide(tenant: str, path: str) -> "asyncio.Task[Any]":
        spec = JobSpec(command=("true",), python=PythonEnvironment(path=path))
        attempt: Any = SimpleNamespace(start=SimpleNamespace(spec=spec, ref=SimpleNamespace(tenant=tenant)))
        return asyncio.create_task(made.provide(attempt, launch, lambda said: None))

    hanging = [provide("t", "/hangs") for _ in range(40)]
    try:
        assert await provide("other", "/there") == "/there"
        while len(asked) < 5:
            await asyncio.sleep(0.01)
        assert await in_thread(lambda: "free") == "free"
        # Four of the one tenant, and the other's.
        assert len(asked) == 5
        for task in hanging:
            task.cancel()
        ends = await asyncio.gather(*hanging, return_exceptions=True)
        assert {type(end) for end in ends} == {asyncio.CancelledError}
        # What was left behind still counts: the tenant gets no threads beyond its own.
        again = provide("t", "/hangs")
        assert await provide("other", "/there") == "/there"
        assert asked.count("/hangs") == 4
    finally:
        answers.set()
    assert await again == "/hangs"
