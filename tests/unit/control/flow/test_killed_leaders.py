"""The leader is killed at each kind of transaction of a release: a wide fan-out and a long chain are released once."""

from collections.abc import Callable, Sequence
from itertools import product

import pytest

from ares.control.flow.submission import AcceptedFlow, FlowRequest
from ares.model.job import JobSpec, Need
from ares.ports.store import Committed, Compare, Op, Put, StoreUnavailable, Unknown
from tests.world import ALICE, Replica, World, spec

FAN_OUT, CHAIN = 600, 120
# Every place to be killed at in a small one; one place in the largest that is accepted.
FULL = [*product((FAN_OUT,), (1, 4), (True, False)), pytest.param(9_999, 4, False, marks=pytest.mark.slow)]
LONG = [*product((CHAIN,), (1, 7, 50), (True, False)), pytest.param(1_000, 50, True, marks=pytest.mark.slow)]


def _kill_at(replica: Replica, holds: Callable[[Sequence[Op]], bool], number: int, *, landed: bool) -> list[str]:
    """The replica is cut off at the transaction with this number among those for which `holds`; whether that one is
    still carried out is `landed`."""
    wire, seen, struck = replica.wire, [0], list[str]()
    send = wire.txn

    async def txn(compares: Sequence[Compare], then: Sequence[Op], otherwise: Sequence[Op] = ()) -> Committed | Unknown:
        if holds(then):
            seen[0] += 1
            if seen[0] == number:
                if landed:
                    await send(compares, then, otherwise)
                wire.up = False
                struck.append(replica.name)
                raise StoreUnavailable("killed")
        return await send(compares, then, otherwise)

    wire.txn = txn  # type: ignore[method-assign]
    return struck


def _tells(kind: str) -> Callable[[Sequence[Op]], bool]:
    text = f'"kind":"{kind}"'.encode()
    return lambda ops: any(isinstance(op, Put) and text in op.value for op in ops)


async def _flow(world: World, jobs: dict[str, JobSpec]) -> AcceptedFlow:
    """Submitted through the replica that does not lead."""
    done = await world.two.workflows.submit(ALICE, FlowRequest(jobs=jobs))
    assert isinstance(done, AcceptedFlow), done
    await world.settle()
    return done


@pytest.mark.parametrize(("count", "number", "landed"), FULL)
async def test_a_fan_out_is_released_once(count: int, number: int, landed: bool) -> None:
    async with World(replicas=2) as world:
        jobs = {"root": spec(held=True)}
        jobs |= {f"j{n}": spec(needs=(Need(job="root", on="end"),)) for n in range(count)}
        done = await _flow(world, jobs)
        assert world.leading() == [world.one]
        struck = _kill_at(world.one, _tells("ready"), number, landed=landed)
        await world.two.jobs.cancel(ALICE, done.ids["root"])
        await world.until(lambda: struck)
        await world.one.crash()
        children = [job for name, job in done.ids.items() if name != "root"]
        await world.until(lambda: all(world.state(job).phase == "PENDING" for job in children))
        assert all(world.kinds(job) == ["submitted", "ready"] for job in children)


@pytest.mark.parametrize(("count", "number", "landed"), LONG)
async def test_a_chain_is_told_to_its_end_once(count: int, number: int, landed: bool) -> None:
    """Each link is decided by the one before: that many transactions, one after the other."""
    async with World(replicas=2) as world:
        jobs = {"j0": spec(held=True)} | {f"j{n}": spec(needs=(Need(job=f"j{n - 1}"),)) for n in range(1, count)}
        done = await _flow(world, jobs)
        struck = _kill_at(world.one, _tells("unmet"), number, landed=landed)
        await world.two.jobs.cancel(ALICE, done.ids["j0"])
        await world.until(lambda: struck)
        await world.one.crash()
        await world.until(lambda: world.state(done.ids[f"j{count - 1}"]).phase == "SKIPPED")
        assert all(world.kinds(done.ids[f"j{n}"]) == ["submitted", "unmet"] for n in range(1, count))
