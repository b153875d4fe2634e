"""What nodes say of the jobs on them: each of its own ranks, and of no other node's."""

from typing import Any

import pytest

from ares.model.job import Gang
from ares.model.job_session import AttemptUse
from tests.world import World, settle


class _Side:
    """A node's stream for sessions, which answers with these."""

    def __init__(self, uses: tuple[AttemptUse, ...]) -> None:
        self.uses = uses

    async def call(self, _: object) -> "_Side":
        return self


async def test_a_node_cannot_speak_for_a_rank_on_another(monkeypatch: pytest.MonkeyPatch) -> None:
    async with World() as world:
        agents = {name: await world.agent(name, cpu_milli=1000) for name in ("n1", "n2")}
        job = await world.submit(gang=Gang(ranks=2), cpu_milli=1000)
        await settle()
        for agent in agents.values():
            for start in agent.ranks(job).values():
                agent.started(start)
        await settle()
        state = world.state(job)
        ranks = {place.node: place.rank for place in state.placements}
        assert set(ranks) == {"n1", "n2"}
        ref = next(iter(agents["n1"].ranks(job).values())).ref
        honest = AttemptUse(ref=ref, rank=ranks["n2"], memory_bytes=1)
        own = AttemptUse(ref=ref, rank=ranks["n1"], memory_bytes=2)
        false = AttemptUse(ref=ref, rank=ranks["n2"], memory_bytes=10**12)
        sides: dict[str, Any] = {"n1": _Side((own, false, own)), "n2": _Side((honest,))}

        async def aside(node: str) -> Any:
            return sides[node]

        monkeypatch.setattr(world.one.job_sessions, "_aside", aside)
        uses, unasked = await world.one.job_sessions.measure([state])
        assert unasked == ()
        assert {use.rank: use.memory_bytes for use in uses} == {ranks["n1"]: 2, ranks["n2"]: 1}
        assert len(uses) == 2
