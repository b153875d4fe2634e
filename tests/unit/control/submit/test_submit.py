"""Submission: one job per request id, whatever the store does; arrays always become whole."""

import asyncio
from typing import Any

import pytest

from ares.adapters.store.memory import StoreFault
from ares.control.submit.submit import AcceptedJob, SubmitRequest
from ares.core import keys
from ares.core.refusal import Refusal
from ares.model.state import JobState
from tests.world import ALICE, BOB, KEEP_S, World, spec


def ask(request_id: str | None = None, **changes: object) -> SubmitRequest:
    return SubmitRequest(spec=spec(**changes), request_id=request_id)


async def test_the_same_request_is_the_same_job_on_every_replica_and_another_payload_a_conflict() -> None:
    async with World(replicas=2) as world:
        (first,) = await world.one.submit.submit(ALICE, [ask("r")])
        (again,) = await world.two.submit.submit(ALICE, [ask("r")])
        (other,) = await world.two.submit.submit(ALICE, [ask("r", name="other")])
        (foreign,) = await world.two.submit.submit(BOB, [ask("r", name="other")])
        assert isinstance(first, AcceptedJob)
        assert isinstance(again, AcceptedJob)
        assert (again.job, again.replayed, first.replayed) == (first.job, True, False)
        assert isinstance(other, Refusal)
        assert other.code == "request-conflict"
        assert isinstance(foreign, AcceptedJob)
        assert not foreign.replayed
        assert len(world.audit.states) == 2


async def test_concurrent_submissions_of_one_request_on_two_replicas_make_one_job() -> None:
    async with World(replicas=2) as world:
        # Both transactions are under way at once; which one is carried out first is turned around.
        world.faults(StoreFault("delayed", 0.2), StoreFault("delayed", 0.1))
        calls = [asyncio.create_task(replica.submit.submit(ALICE, [ask("r")])) for replica in world.replicas]
        await world.advance(1)
        (one,), (two,) = [call.result() for call in calls]
        assert isinstance(one, AcceptedJob)
        assert isinstance(two, AcceptedJob)
        assert one.job == two.job
        assert (one.replayed, two.replayed) == (True, False)
        assert len(world.audit.states) == 1


@pytest.mark.parametrize("kind", ["reply_lost", "request_lost", "refused", "late"])
@pytest.mark.parametrize("request_id", ["r", None])
@pytest.mark.parametrize("size", [1, 3])
async def test_an_unknown_outcome_neither_doubles_nor_loses(kind: str, request_id: str | None, size: int) -> None:
    async with World() as world:
        world.faults(StoreFault(kind, 0.05 if kind == "late" else 0.0))  # type: ignore[arg-type]
        wanted = [ask(request_id and f"{request_id}{n}") for n in range(size)]
        call = asyncio.create_task(world.one.submit.submit(ALICE, wanted))
        await world.advance(2)
        outcomes = call.result()
        jobs = {outcome.job for outcome in outcomes if isinstance(outcome, AcceptedJob) and not outcome.replayed}
        assert len(jobs) == size
        assert jobs == set(world.audit.states)


async def test_a_store_that_stays_away_gives_no_acknowledgement_and_a_repeat_finds_what_landed() -> None:
    async with World() as world:
        # The very first try lands long after the caller was told "unknown".
        world.faults(StoreFault("late", 5.0), *["request_lost"] * 10)
        call = asyncio.create_task(world.one.submit.submit(ALICE, [ask("r")]))
        await world.advance(3)
        (outcome,) = call.result()
        assert isinstance(outcome, Refusal)
        assert outcome.code == "store-unavailable"
        assert world.audit.states == {}
        await world.advance(5)
        world.store.faults = type(world.store.faults)()
        (again,) = await world.one.submit.submit(ALICE, [ask("r")])
        assert isinstance(again, AcceptedJob)
        assert again.replayed
        assert set(world.audit.states) == {again.job}


@pytest.mark.parametrize("size", [1, 3])
async def test_a_store_that_hangs_is_admitted_before_callers_stop_waiting(size: int) -> None:
    """Clients wait ten seconds and more, and each try takes three here."""
    async with World() as world:
        world.faults(*[StoreFault("request_lost", 3.0)] * 20)
        call = asyncio.create_task(world.one.submit.submit(ALICE, [ask(f"r{n}") for n in range(size)]))
        await world.advance(7)
        outcomes = call.result()
        assert {outcome.code for outcome in outcomes if isinstance(outcome, Refusal)} == {"store-unavailable"}
        assert world.audit.states == {}


async def test_without_a_request_id_the_caller_is_told_that_the_job_may_exist() -> None:
    async with World() as world:
        world.faults(*["reply_lost"], *["request_lost"] * 10)
        call = asyncio.create_task(world.one.submit.submit(ALICE, [ask()]))
        await world.advance(3)
        (outcome,) = call.result()
        assert isinstance(outcome, Refusal)
        assert outcome.code == "store-unavailable"
        assert "may" in outcome.message
        assert "same request id" not in outcome.fix
        assert len(world.audit.states) == 1


async def test_repeats_and_conflicts_inside_one_batch_harm_nobody_else() -> None:
    async with World() as world:
        (old,) = await world.one.submit.submit(ALICE, [ask("old")])
        outcomes = await world.one.submit.submit(
            ALICE,
            [ask("a"), ask("a"), ask("a", name="x"), ask("old", name="x"), ask(), ask(array="9-1"), ask("b")],
        )
        kinds = [o.code if isinstance(o, Refusal) else o.replayed for o in outcomes]
        assert kinds == [False, True, "request-conflict", "request-conflict", False, "array-syntax", False]
        assert isinstance(outcomes[0], AcceptedJob)
        assert isinstance(outcomes[1], AcceptedJob)
        assert outcomes[0].job == outcomes[1].job
        assert isinstance(old, AcceptedJob)
        assert len(world.audit.states) == 4
        counted = world.one.telemetry.render().decode()
        assert 'ares_submissions_total{outcome="replayed"} 1.0' in counted


async def test_what_is_refused_changes_nothing() -> None:
    async with World() as world:
        before = await world.store.revision()
        bad = [ask("r", env={"ARES_X": "1"}), ask("s", array="5-1"), ask("t", array="0-200000")]
        outcomes = await world.one.submit.submit(ALICE, bad)
        assert [type(outcome) for outcome in outcomes] == [Refusal] * 3
        assert await world.store.revision() == before
        (good,) = await world.one.submit.submit(ALICE, [ask("r")])
        assert isinstance(good, AcceptedJob)
        assert not good.replayed


async def test_a_job_too_large_for_the_store_is_refused_for_good_and_big_ones_fit_together() -> None:
    async with World() as world:
        # Control characters take six bytes each once they are written down.
        huge = SubmitRequest(spec=spec().__class__(command=("x", "\x01" * 131_000), env={"A": "\x01" * 65_000}))
        big = SubmitRequest(spec=spec().__class__(command=("x", "y" * 130_000)))
        outcomes = await asyncio.wait_for(world.one.submit.submit(ALICE, [huge, *[big] * 20]), 5)
        assert isinstance(outcomes[0], Refusal)
        assert outcomes[0].code == "spec-too-large"
        assert all(isinstance(outcome, AcceptedJob) for outcome in outcomes[1:])
        assert world.one.wire.txns <= 6


async def test_a_full_queue_takes_no_more_than_fits_and_still_knows_what_it_took() -> None:
    async with World(queue_max=3) as world:
        outcomes = await world.one.submit.submit(ALICE, [ask(f"r{n}") for n in range(5)])
        assert [isinstance(outcome, AcceptedJob) for outcome in outcomes] == [True] * 3 + [False] * 2
        await world.settle()
        (again,) = await world.one.submit.submit(ALICE, [ask("r0")])
        assert isinstance(again, AcceptedJob)
        assert again.replayed
        (conflict,) = await world.one.submit.submit(ALICE, [ask("r0", name="x")])
        assert isinstance(conflict, Refusal)
        assert conflict.code == "request-conflict"
        (array,) = await world.one.submit.submit(ALICE, [ask("a", array="0-9")])
        assert isinstance(array, Refusal)
        assert array.code == "queue-full"


async def test_an_array_is_one_submission_and_a_repeat_elsewhere_knows_its_size() -> None:
    async with World(replicas=2) as world:
        world.two.wire.hold_watch()
        (first,) = await world.one.submit.submit(ALICE, [ask("r", array="0-99")])
        (again,) = await world.two.submit.submit(ALICE, [ask("r", array="0-99")])
        assert isinstance(first, AcceptedJob)
        assert isinstance(again, AcceptedJob)
        assert (again.job, again.replayed, again.tasks) == (first.job, True, 100)
        assert set(world.audit.states) == {f"{first.job}_{n}" for n in range(100)}
        world.two.wire.release_watch()


@pytest.mark.parametrize("lost", [["request_lost"] * 40, ["refused"], [None, "request_lost", "reply_lost"]])
async def test_an_array_interrupted_after_its_header_is_finished_by_the_leader(lost: list[str | None]) -> None:
    async with World() as world:
        world.faults(None, *lost)
        call = asyncio.create_task(world.one.submit.submit(ALICE, [ask("r", array="0-99")]))
        await world.until(lambda: len(world.audit.states) == 100)
        (outcome,) = call.result()
        assert isinstance(outcome, AcceptedJob)
        assert outcome.tasks == 100
        await world.until(lambda: world.one.view.arrays[outcome.job].expanded)
        assert all(events[0].kind == "submitted" for events in world.audit.events.values())


async def test_a_submitter_that_dies_between_header_and_tasks_leaves_nothing_half_done() -> None:
    async with World(replicas=2) as world:
        dying = world.two
        world.faults(None, StoreFault("delayed", 1.0))
        call = asyncio.create_task(dying.submit.submit(ALICE, [ask("r", array="0-9")]))
        await world.settle()
        dying.wire.up = False
        call.cancel()
        assert world.audit.states == {}
        await world.until(lambda: len(world.audit.states) == 10)
        (again,) = await world.one.submit.submit(ALICE, [ask("r", array="0-9")])
        assert isinstance(again, AcceptedJob)
        assert again.replayed
        assert again.tasks == 10
        dying.wire.up = True


async def test_a_late_expander_does_not_bring_back_tasks_that_were_forgotten() -> None:
    async with World(replicas=2) as world:
        world.faults(None, "refused")
        (array,) = await world.two.submit.submit(ALICE, [ask(array="0-99")])
        assert isinstance(array, AcceptedJob)
        await world.settle()
        record = world.two.view.arrays[array.job]
        assert not record.expanded
        # The late one has read the header and then stands still, with all its writes on their way.
        late = world.two.wire
        held, txn = asyncio.Event(), late.txn

        async def slow(*args: Any) -> Any:
            await held.wait()
            return await txn(*args)

        late.txn = slow  # type: ignore[method-assign]
        call = asyncio.create_task(world.two.expanding.expand(record))
        await world.settle()
        await world.one.expanding.expand(record)
        await world.one.jobs.cancel(ALICE, array.job)
        await world.settle()
        world.later(KEEP_S + 1)
        while await world.one.retention.sweep():
            continue
        assert array.job not in world.one.view.arrays
        held.set()
        await call
        await world.settle()
        assert not world.one.view.entries
        assert array.job not in world.one.view.arrays


async def test_cancelling_an_array_that_is_not_whole_yet_cancels_every_task() -> None:
    async with World() as world:
        world.faults(None, *["refused"] * 5)
        (array,) = await world.one.submit.submit(ALICE, [ask(array="0-99")])
        assert isinstance(array, AcceptedJob)
        assert len(world.audit.states) < 100
        world.store.faults = type(world.store.faults)()
        state = await world.one.jobs.cancel(ALICE, array.job)
        assert isinstance(state, JobState)
        assert state.phase == "CANCELLED"
        await world.advance(30)
        assert [s.phase for s in world.audit.states.values()] == ["CANCELLED"] * 100
        detail = await world.one.jobs.get(ALICE, array.job)
        assert detail is not None
        assert detail.array_counts == {"CANCELLED": 100}
        assert await world.one.jobs.cancel(BOB, array.job) is None


async def test_request_records_point_to_the_job_they_made() -> None:
    async with World() as world:
        (made,) = await world.one.submit.submit(ALICE, [ask("a/b:c")])
        assert isinstance(made, AcceptedJob)
        assert world.audit.requests == {keys.request("alpha", "a/b:c"): made.job}


async def test_a_request_made_before_its_deadline_is_still_known_after_it() -> None:
    async with World(scheduling=False) as world:
        due = world.clock.wall() + 60
        request = ask("once", deadline_at=due)
        (first,) = await world.one.submit.submit(ALICE, [request])
        assert isinstance(first, AcceptedJob)
        await world.advance(61)
        again, late = await world.one.submit.submit(ALICE, [request, ask(deadline_at=due)])
        assert isinstance(again, AcceptedJob)
        assert (again.job, again.replayed) == (first.job, True)
        assert isinstance(late, Refusal)
        assert (late.code, "1 s ago" in late.message) == ("deadline-passed", True)
        # Who asks for another try of a job that came too late wants it all the same.
        await world.one.jobs.cancel(ALICE, first.job)
        retried = await world.one.jobs.retry(ALICE, first.job)
        assert isinstance(retried, JobState), retried


async def test_memory_that_is_not_said_is_the_share_of_the_machines_by_then() -> None:
    """The same request later is the same job, whatever machines there are then."""
    async with World(scheduling=False) as world:
        request = SubmitRequest(spec=spec(memory_mib=0, cpu_milli=2000), request_id="r1")
        (alone,) = await world.one.submit.submit(ALICE, [SubmitRequest(spec=spec(memory_mib=0, cpu_milli=2000))])
        await world.agent("n1", cpu_milli=4000, memory_mib=4096)
        (first,) = await world.one.submit.submit(ALICE, [request])
        await world.agent("n2", cpu_milli=1000, memory_mib=65_536)
        await world.agent("n3", cpu_milli=1000, memory_mib=65_536)
        (again,) = await world.one.submit.submit(ALICE, [request])
        await world.settle()
        assert isinstance(alone, AcceptedJob)
        assert isinstance(first, AcceptedJob)
        assert isinstance(again, AcceptedJob)
        kept = [world.one.view.decode_spec(world.one.view.specs[job]).resources for job in (alone.job, first.job)]
        assert [resources.memory_mib for resources in kept] == [256, 2048]
        assert (again.job, again.replayed) == (first.job, True)
        # As much as the only machine with two CPUs has.
        assert world.one.submit.sized(request.spec).resources.memory_mib == 4096
