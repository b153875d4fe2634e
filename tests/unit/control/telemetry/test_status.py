"""The platform's health on one page: what is not well comes first, with its age."""

import asyncio

from ares import __version__
from ares.control.telemetry.replica_roll import FORGOTTEN_S, SILENT_S, ReplicaRoll
from ares.control.telemetry.status import StatusReport
from ares.model.node import Certificate, MachineRecord
from tests.world import World


async def parts(status: StatusReport) -> dict[tuple[str, str], tuple[str, str]]:
    return {(part.kind, part.name): (part.verdict, part.message) for part in (await status.now()).parts}


async def test_a_platform_from_its_first_moment_to_a_lost_node() -> None:
    async with World() as world:
        replica = world.one
        status = StatusReport(replica.view, replica.health, world.clock, "r1", "here", lambda: None)
        empty = await status.now()
        assert empty.verdict == "warn"
        found = await parts(status)
        assert found["nodes", "nodes"] == ("warn", "there is none: jobs wait for the first")
        assert found["backup", "store"][0] == "warn"
        assert [verdict for (kind, _), (verdict, _) in found.items() if kind == "leader"] == ["ok"]
        assert found["store", "store"][0] == "ok"

        agent = await world.agent()
        copied_at = world.clock.wall()
        status = StatusReport(replica.view, replica.health, world.clock, "r1", "here", lambda: copied_at)
        whole = await status.now()
        assert (whole.verdict, whole.cluster) == ("ok", "here")
        assert all(part.verdict == "ok" for part in whole.parts)
        (nodes,) = (part for part in whole.parts if part.kind == "nodes")
        assert nodes.message == "1 of 1 are ready"
        assert nodes.age_s is not None

        status = StatusReport(replica.view, replica.health, world.clock, "r1", "here", lambda: copied_at - 3 * 86_400)
        late = await status.now()
        assert late.parts[0].verdict == "warn"
        found = await parts(status)
        assert found["backup", "store"] == ("warn", "the newest backup is old: `ares store backup FILE`")
        assert agent


async def test_certificates_that_end() -> None:
    async with World() as world:
        replica, now = world.one, int(world.clock.wall())
        status = StatusReport(replica.view, replica.health, world.clock, "r1", "here")

        def machine(name: str, ends_at: int, generation: int = 0) -> None:
            given = Certificate(
                serial="1", generation=generation, key_sha256="", issued_at=ends_at - 100_000, ends_at=ends_at
            )
            record = MachineRecord(role="node", name=name, certificates=(given,))
            replica.view.kept.machines[f"node/{name}"] = record

        machine("fresh", now + 90_000)
        machine("soon", now + 10_000)
        machine("over", now - 10)
        found = await parts(status)
        assert ("certificate", "node/fresh") not in found
        assert found["certificate", "node/soon"] == ("warn", "ends in 2.8 h and was not renewed")
        assert found["certificate", "node/over"][0] == "bad"
        assert ("backup", "store") not in found
        first = (await status.now()).parts[0]
        assert (first.kind, first.verdict) == ("certificate", "bad")


async def test_other_replicas_are_named_and_missed() -> None:
    async with World() as world:
        other = await world.add_replica()
        rolls = [
            ReplicaRoll(world.store, each.view, world.clock, name) for each, name in ((world.one, "r1"), (other, "r2"))
        ]
        status = StatusReport(world.one.view, world.one.health, world.clock, "r1", "here", roll=rolls[0])
        loop = asyncio.create_task(rolls[1].run())
        await rolls[0].write()
        await world.settle()
        found = await parts(status)
        assert found["replica", "r1"] == ("ok", "answers this; shares the store")
        assert found["replica", "r2"] == ("ok", f"is there, version {__version__}")
        # One that stops in order takes its record along; one that is killed is missed, and forgotten in the end.
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)
        await world.settle()
        assert ("replica", "r2") not in await parts(status)
        await rolls[1].write()
        await world.settle()
        assert (await parts(status))["replica", "r2"][0] == "ok"
        await world.advance(SILENT_S + 1)
        verdict, said = (await parts(status))["replica", "r2"]
        assert verdict == "warn"
        assert "killed" in said
        await world.advance(FORGOTTEN_S)
        await rolls[0].write()
        await world.settle()
        assert ("replica", "r2") not in await parts(status)
