"""Environments that are built on a node: a build that fails leaves nothing."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ares.agent.settings import AgentSettings
from ares.agent.staging.environments import Environments
from ares.agent.staging.stager import StagingFailed
from ares.model.job import JobSpec, PythonEnvironment


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
    parts: Any = (_FullDisk(), None, None)
    made = Environments(tmp_path, *parts, AgentSettings(uv="uv"))
    with pytest.raises(StagingFailed, match="cannot be kept here: No space left on device"):
        await made.provide(attempt, launch, lambda said: None)
    assert os.listdir(tmp_path / "cache/t/envs") == []
