"""Reports that the store will never take: the others go on, the operator is told, and no job runs for ever."""

import pytest

from ares.control.execution.checkpoint_intake import CheckpointIntake
from ares.control.execution.session import AgentSession
from ares.control.execution.transitions import JobChange, Outcome
from ares.core.lifecycle.inputs import Exit, LeaseLost, RankStarted
from ares.model.base import Fence
from ares.model.checkpoint import CheckpointId, DamageFound
from ares.model.link import Fenced
from ares.ports.store import StoreRefused
from tests.world import World, settle


def refuse(world: World, monkeypatch: pytest.MonkeyPatch, job: str, kind: type, mended: list[bool]) -> None:
    """The store does not take inputs of this kind about the job, if they say more than that it failed."""
    apply = world.one.transitions.apply

    async def refusing(changes: list[JobChange]) -> list[Outcome]:
        for change in changes:
            for what in change.inputs:
                is_whole = not isinstance(what, Exit) or what.exit.failure is None
                if change.job == job and isinstance(what, kind) and is_whole and not mended:
                    raise StoreRefused("transaction refused: 9,000,000 bytes")
        return await apply(changes)

    monkeypatch.setattr(world.one.transitions, "apply", refusing)


async def test_an_end_that_cannot_be_written_fails_its_job_and_no_other_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    async with World() as world:
        agent = await world.agent("n1")
        jobs = [await world.submit() for _ in range(3)]
        await settle()
        for job in jobs:
            agent.started(agent.starts[job])
        await settle()
        refuse(world, monkeypatch, jobs[1], Exit, [])
        reports = [agent.exited(agent.starts[job]) for job in jobs]
        await settle()
        assert {said.number for said in reports} <= set(agent.acked)
        assert [world.state(job).phase for job in (jobs[0], jobs[2])] == ["SUCCEEDED", "SUCCEEDED"]
        ended = world.state(jobs[1])
        assert ended.phase == "RETRYING"
        assert ended.exit is not None
        assert "cannot be written: transaction refused: 9,000,000 bytes" in ended.exit.message
        alerts = [alert for alert in world.one.view.kept.alerts.values() if alert.kind == "report-set-aside"]
        assert [alert.subject for alert in alerts] == [f"jobs/{jobs[1]}"]


async def test_another_report_is_tried_again_until_it_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    async with World() as world:
        agent = await world.agent("n1")
        jobs = [await world.submit() for _ in range(2)]
        await settle()
        mended = list[bool]()
        refuse(world, monkeypatch, jobs[0], RankStarted, mended)
        reports = [agent.started(agent.starts[job]) for job in jobs]
        await settle()
        assert [world.state(job).phase for job in jobs] == ["STAGING", "RUNNING"]
        assert reports[0].number not in agent.acked
        mended.append(True)
        for _ in range(61):
            agent.renew()
            await world.advance(1.0)
        assert world.state(jobs[0]).phase == "RUNNING"
        assert reports[0].number in agent.acked


async def test_an_attempt_that_was_stopped_gives_its_place_back_though_its_words_do_not_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with World() as world:
        agent = await world.agent("n1")
        job = await world.submit()
        await settle()
        start = agent.starts[job]
        agent.started(start)
        await settle()
        apply = world.one.transitions.apply

        async def refusing(changes: list[JobChange]) -> list[Outcome]:
            if any(isinstance(what, LeaseLost) and what.reason == "long" for what in changes[0].inputs):
                raise StoreRefused("transaction refused: 9,000,000 bytes")
            return await apply(changes)

        monkeypatch.setattr(world.one.transitions, "apply", refusing)
        report = Fenced(number=agent.number(), ref=start.ref, rank=0, reason="long")
        agent.send(report)
        await settle()
        assert report.number in agent.acked
        assert world.state(job).phase == "RETRYING"
        assert [alert.subject for alert in world.one.view.kept.alerts.values()] == [f"jobs/{job}"]


async def test_a_damage_that_cannot_be_written_is_told_and_not_sent_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    async with World() as world:
        agent = await world.agent("n1")
        jobs = [await world.submit() for _ in range(2)]
        await settle()
        damaged = CheckpointIntake._damaged  # pyright: ignore[reportPrivateUsage]

        async def refusing(intake: CheckpointIntake, session: AgentSession, said: DamageFound) -> None:
            if said.ref.job == jobs[0]:
                raise StoreRefused("transaction refused: 9,000,000 bytes")
            await damaged(intake, session, said)

        monkeypatch.setattr(CheckpointIntake, "_damaged", refusing)
        known = CheckpointId(fence=Fence(epoch=1, counter=1), seq=1)
        reports = [
            DamageFound(number=agent.number(), ref=agent.starts[job].ref, rank=0, checkpoint=known, reason="cut")
            for job in jobs
        ]
        agent.send(*reports)
        await settle()
        assert {report.number for report in reports} <= set(agent.acked)
        assert [alert.subject for alert in world.one.view.kept.alerts.values()] == [f"jobs/{jobs[0]}"]
