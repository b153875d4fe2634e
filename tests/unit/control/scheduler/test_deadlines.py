"""Deadlines through the services, in virtual time: given by a class, kept or missed, and new with a new try."""

import pytest

from ares.control.submit.submit import SubmitRequest
from ares.core.refusal import Refusal
from tests.world import ADMIN, ALICE, World, spec

HOUR = 3600.0


def counted(world: World, outcome: str) -> str:
    lines = world.one.telemetry.render().decode().splitlines()
    return next(
        (line.split()[-1] for line in lines if line.startswith(f'ares_deadlines_{outcome}_total{{sla="gold"}}')), "0.0"
    )


@pytest.mark.parametrize(("lasts_s", "met", "missed"), [(600.0, "1.0", "0.0"), (700.0, "0.0", "1.0")])
async def test_a_job_of_a_class_meets_or_misses_it(lasts_s: float, met: str, missed: str) -> None:
    async with World() as world:
        await world.one.profiles.change(ADMIN, {"slas.gold.end_within_s": "650", "slas.gold.start_within_s": "30"})
        agent = await world.agent()
        job = await world.submit(sla="gold")
        await world.settle()
        agent.started(agent.starts[job])
        await world.settle()
        state = world.state(job)
        assert state.deadline_at == state.submitted_at + 650.0
        assert state.first_started_at is not None
        await world.advance(lasts_s)
        assert world.one.deadlines.at_risk(state) == (lasts_s > 650.0)
        agent.exited(agent.starts[job])
        await world.settle()
        assert (counted(world, "met"), counted(world, "missed")) == (met, missed)
        (one,) = await world.one.deadlines.classes_seen(ALICE)
        assert (one.name, one.jobs, one.met_percent) == ("gold", 1, 100.0 if met == "1.0" else 0.0)


async def test_a_second_attempt_does_not_start_anew_what_was_started_in_time() -> None:
    async with World() as world:
        await world.one.profiles.change(ADMIN, {"slas.gold.start_within_s": "30"})
        agent = await world.agent()
        job = await world.submit(sla="gold")
        await world.settle()
        agent.started(agent.starts[job])
        await world.settle()
        first = world.state(job).first_started_at
        await world.advance(60)
        agent.exited(agent.starts[job], code=1)
        await world.until(lambda: world.state(job).attempt == 2)
        agent.started(agent.starts[job])
        await world.settle()
        assert world.state(job).first_started_at == first
        assert (counted(world, "met"), counted(world, "missed")) == ("1.0", "0.0")


async def test_a_job_tried_again_by_hand_has_its_class_anew() -> None:
    async with World() as world:
        await world.one.profiles.change(ADMIN, {"slas.gold.end_within_s": "650"})
        agent = await world.agent()
        job = await world.submit(sla="gold", restart="never")
        await world.settle()
        agent.started(agent.starts[job])
        await world.advance(1000)
        agent.exited(agent.starts[job], code=1)
        await world.settle()
        again = await world.one.jobs.retry(ALICE, job, "")
        assert again is not None
        assert not isinstance(again, Refusal), again
        await world.settle()
        state = next(one for one in world.audit.states.values() if one.retry_of == job)
        assert state.deadline_at == state.submitted_at + 650.0


async def test_a_class_set_through_another_replica_is_known() -> None:
    async with World(replicas=2) as world:
        world.two.wire.hold_watch()
        await world.one.profiles.change(ADMIN, {"slas.gold.end_within_s": "650"})
        world.two.wire.release_watch()
        (outcome,) = await world.two.submit.submit(ALICE, [SubmitRequest(spec=spec(sla="gold"))])
        assert not isinstance(outcome, Refusal)
