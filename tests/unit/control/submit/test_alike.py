"""Requests that ask for the same are drafted from the first of them. The records are those that each would have had."""

from typing import Any

from ares.control.submit.alike import Alike
from ares.control.submit.draft import Checked, Draft, Drafting, SubmitRequest
from ares.control.submit.submit import AcceptedJob
from ares.core.refusal import Refusal
from ares.model.job import JobSpec
from tests.world import ALICE, World, spec

PLAIN = spec()
OTHERS = (spec(name="other"), spec(gpus=1, priority="HIGH"), spec(held=True), spec(sla="gold"))


def requests(*specs: JobSpec, **changes: Any) -> list[SubmitRequest]:
    return [SubmitRequest(spec=one, request_id=f"r{place}", **changes) for place, one in enumerate(specs)]


def drafts(world: World, wanted: list[SubmitRequest], *, alike: bool) -> list[Draft | Refusal]:
    """Without a pause in between, as one stride of a batch."""
    drafting: Drafting = world.one.submit._drafting  # type: ignore[reportPrivateUsage]
    by = Alike(drafting, world.one.view, world.clock, world.one.telemetry)
    made: list[Draft | Refusal] = []
    for place, request in enumerate(wanted):
        check = by.check(ALICE, request) if alike else drafting.check(ALICE, request)
        assert isinstance(check, Checked)
        draft = by.draft if alike else drafting.draft
        made.append(check.no or draft(check, place, None, place, len(wanted)))
    return made


async def records_of(wanted: list[SubmitRequest], *, alike: bool) -> list[Any]:
    # Equal worlds draw equal ids, and their time stands still.
    async with World() as world:
        return [
            made if isinstance(made, Refusal) else (made.ops, made.compares, made.digest, made.job, made.spec)
            for made in drafts(world, wanted, alike=alike)
        ]


async def test_the_records_are_those_of_a_draft_of_its_own() -> None:
    mixed = [PLAIN, PLAIN, *OTHERS, PLAIN, OTHERS[0], OTHERS[0], OTHERS[1], OTHERS[1], OTHERS[2], OTHERS[2], OTHERS[3]]
    for wanted in (
        requests(*mixed),
        requests(PLAIN, PLAIN, trace="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        requests(PLAIN, PLAIN, retry_of="0123456789abcdef", manual_retries=2, note="again"),
        [SubmitRequest(spec=PLAIN), SubmitRequest(spec=PLAIN), SubmitRequest(spec=PLAIN, request_id="r")],
        [SubmitRequest(spec=PLAIN, request_id="r"), SubmitRequest(spec=PLAIN), SubmitRequest(spec=PLAIN, note="why")],
    ):
        assert await records_of(wanted, alike=True) == await records_of(wanted, alike=False)


async def test_like_jobs_beyond_the_bound_of_their_tenant_are_refused() -> None:
    async with World(tenant_jobs_max=5) as world:
        outcomes = await world.one.submit.submit(ALICE, requests(*[PLAIN] * 8))
        assert [isinstance(outcome, AcceptedJob) for outcome in outcomes] == [True] * 5 + [False] * 3
        assert all(outcome.code == "queue-full" for outcome in outcomes if isinstance(outcome, Refusal))
