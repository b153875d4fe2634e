import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ares.adapters.clocks import SystemClock, SystemRng
from ares.adapters.doors import UnixDoors
from ares.adapters.executors.local import LocalExecutor
from ares.adapters.executors.terms import SandboxTerms
from ares.agent.agent import Agent
from ares.agent.settings import AgentSettings
from ares.model.node import NodeInfo
from tests.integration.agent.scripted import ScriptedPlane


class Running:
    """An agent on a scripted control plane."""

    def __init__(self, state_dir: Path, plane: ScriptedPlane, settings: AgentSettings, **info: object) -> None:
        self.state_dir = state_dir
        self.plane = plane
        self.agent = Agent(
            boot=1,
            info=NodeInfo(**{"name": "n1", "cpu_milli": 2000, "memory_mib": 1024, **info}),
            link=plane,
            # Tests and their jobs meet in files there.
            executor=LocalExecutor(state_dir, terms=SandboxTerms(writable=(str(state_dir),))),
            clock=SystemClock(),
            rng=SystemRng(),
            state_dir=state_dir,
            credential="c",
            settings=settings,
            children=plane,
            doors=UnixDoors(),
        )
        self.task = asyncio.create_task(self.agent.run())


@pytest.fixture
def plane() -> ScriptedPlane:
    return ScriptedPlane()


@pytest.fixture
def settings() -> AgentSettings:
    return AgentSettings(
        environment={"PATH": "/usr/local/bin:/usr/bin:/bin"},
        log_bytes_max=200_000,
        shutdown_grace_s=0.5,
        poll_every_s=0.05,
    )


@pytest.fixture
async def running(tmp_path: Path, plane: ScriptedPlane, settings: AgentSettings) -> AsyncIterator[Running]:
    """A connected agent whose first renewal was acknowledged."""
    running = Running(tmp_path, plane, settings)
    await plane.until(lambda: plane.incarnation > 0)
    yield running
    if not running.task.done():
        running.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running.task
