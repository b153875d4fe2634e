"""Attempts in sandboxes on a real agent: what jobs are promised works there too, and excess ends them."""

import asyncio
import contextlib
import json
import os
import re
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ares.adapters.clocks import SystemClock, SystemRng
from ares.adapters.executors.local import Contain, LocalExecutor
from ares.adapters.executors.terms import SandboxTerms
from ares.agent.agent import Agent
from ares.agent.attempts.owners import NoUidLeft, Owners
from ares.agent.settings import AgentSettings
from ares.model.job import Gang
from ares.model.link import Exited, GangPeer, Hello, WorldInfo
from ares.model.node import NodeInfo
from ares.model.secret import Secret, SecretGiven, SecretRef
from tests import needs
from tests.integration.agent.scripted import ScriptedPlane

FIRST, LAST = 100_000, 100_001
ALL_OF_IT = """
    id -u; pwd; cat "$ARES_SECRETS_DIR/key"; echo '{"x": 1}' > "$ARES_RESULT_FILE"; echo made > "$ARES_OUTPUT_DIR/a"
    echo '{"fraction": 0.5}' > "$ARES_PROGRESS_FILE"; grep -c peers "$ARES_WORLD_FILE"; echo tmp > "$TMPDIR/t"
"""


@contextlib.asynccontextmanager
async def agent(
    state: Path, plane: ScriptedPlane, settings: AgentSettings, contain: Contain = "best", **terms: Any
) -> AsyncGenerator[None]:
    executor = LocalExecutor(state, contain=contain, terms=SandboxTerms(hidden=(str(state),), **terms))
    made = Agent(
        boot=1, info=NodeInfo(name="n1", cpu_milli=2000, memory_mib=1024), link=plane, executor=executor,
        clock=SystemClock(), rng=SystemRng(), state_dir=state, credential="c", settings=settings,
    )  # fmt: skip
    task = asyncio.create_task(made.run())
    try:
        await plane.until(lambda: plane.incarnation > 0)
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def level(plane: ScriptedPlane) -> str:
    return plane.all(Hello)[0].info.isolation_level


@pytest.mark.parametrize("users", [False, True])
async def test_a_job_in_a_sandbox_has_all_it_is_promised(
    tmp_path: Path, plane: ScriptedPlane, settings: AgentSettings, users: bool
) -> None:
    """Its directory, result, outputs, progress, world and secrets; with a user for every tenant as well."""
    if users and os.geteuid() != 0:
        pytest.skip("NOT TESTED: only root can become another user. Run it as root.")
    owners = Owners(tmp_path, FIRST, LAST) if users else None
    settings = replace(settings, owners=owners)
    async with agent(tmp_path, plane, settings, uid=FIRST if users else None):
        if level(plane) != "sandbox":
            pytest.skip(needs.SANDBOX)
        told = plane.start(
            "j1", "sh", "-c", ALL_OF_IT, isolation="sandbox", secrets=(SecretRef(name="key", file="key"),),
            gang=Gang(ranks=1), world=WorldInfo(peers=(GangPeer(rank=0, node="n1", address=""),)),
        )  # fmt: skip
        given = (SecretGiven(name="key", version=1, value=Secret(b"hush-hush\n"), file="key"),)
        plane.say(msgspec.structs.replace(told, secrets=given))
        exited = await plane.first(Exited, "j1")
        said = bytes(plane.logs[(exited.ref, 0)]).decode().splitlines()
        assert exited.exit.failure is None, (exited.exit, said)
        assert said == [str(FIRST if users else os.getuid()), f"{tmp_path}/attempts/j1.1.1.0/work", "***", "1"]
        assert json.loads(exited.value) == {"x": 1}
        assert [plane.outputs[file.sha256] for file in exited.outputs] == [b"made\n"]
        await plane.until(lambda: not (tmp_path / "attempts" / "j1.1.1.0").exists())
        # The next finds no directory of another user.
        plane.say(plane.start("j2", "sh", "-c", "touch $ARES_OUTPUT_DIR/b && touch here"))
        assert (await plane.first(Exited, "j2")).exit.failure is None


async def test_an_agent_that_cannot_does_not_start_it(
    tmp_path: Path, plane: ScriptedPlane, settings: AgentSettings
) -> None:
    """Whatever the scheduler believed when it sent the job here."""
    async with agent(tmp_path, plane, settings, contain="none"):
        assert level(plane) == "any"
        plane.say(plane.start("j1", "sh", "-c", "echo ran", isolation="process"))
        exited = await plane.first(Exited, "j1")
        assert exited.exit.failure == "staging"
        assert "it needs isolation 'process', and this node offers 'any'" in exited.exit.message
        assert not plane.logs


async def test_a_directory_that_grows_too_large_ends_its_attempt(
    tmp_path: Path, plane: ScriptedPlane, settings: AgentSettings
) -> None:
    """N46: a disk fill is told with both numbers; the next attempt on the node is unharmed."""
    settings = replace(settings, workspace_bytes_max=8 << 20, disk_look_every_s=0.05)
    async with agent(tmp_path, plane, settings):
        plane.say(plane.start("j1", "sh", "-c", "head -c 20971520 /dev/zero > big; sleep 1000"))
        exited = await plane.first(Exited, "j1")
        assert exited.exit.signal == "SIGKILL"
        assert re.search(r"its directory holds \d+ MiB, and this node allows 8 MiB", exited.exit.message)
        plane.say(plane.start("j2", "sh", "-c", "head -c 1000 /dev/zero > small"))
        assert (await plane.first(Exited, "j2")).exit.failure is None


async def test_a_flood_of_output_is_dropped_and_counted(
    tmp_path: Path, plane: ScriptedPlane, settings: AgentSettings
) -> None:
    """N46: far more lines than anybody reads; the node goes on, and the log says how much is missing."""
    settings = replace(settings, log_bytes_max=4 << 20, log_bytes_per_s=64 << 10)
    async with agent(tmp_path, plane, settings):
        plane.say(plane.start("j1", "sh", "-c", "seq 3000000; echo over"))
        exited = await plane.first(Exited, "j1")
        log = bytes(plane.logs[(exited.ref, 0)])
        assert exited.exit.code == 0
        assert log.startswith(b"1\n2\n3\n")
        assert len(log) < 2 << 20
        assert re.search(rb"\[ares: [0-9,]+ bytes of output were dropped: too many at once\]", log)


def test_a_tenant_keeps_its_user(tmp_path: Path) -> None:
    owners = Owners(tmp_path, FIRST, LAST)
    first = {tenant: owners.of(tenant) for tenant in ("b", "a", "b")}
    assert first == {"b": FIRST, "a": FIRST + 1}
    again = Owners(tmp_path, FIRST, LAST)
    assert {tenant: again.of(tenant) for tenant in ("a", "b")} == first
    with pytest.raises(NoUidLeft, match="all 2 users"):
        again.of("c")
    # Nobody becomes whom the range no longer has.
    assert Owners(tmp_path, FIRST + 10, LAST + 10).of("a") == FIRST + 10
