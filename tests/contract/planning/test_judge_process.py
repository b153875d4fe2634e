"""The process that judges a shadow profile: the same answer as here, and it is gone when it is not needed."""

import sys

import msgspec
import psutil
import pytest

from ares.adapters.planning.process import ProcessPlanning
from ares.check.replay.trace import node
from ares.control.shadow.messages import ShadowAnswer, ShadowQuestion
from ares.core.schedule.profiles import changed
from ares.model.profile import Profile
from ares.ports.planning import PlannerLost
from ares.sim.tune.shadow import judge
from tests.unit.sim.tune.test_shadow import busy

FIFO = changed(Profile(), {"actions": "claim,allocate", "order.primary.fifo": "1"})


def question(*, jobs: int = 20) -> bytes:
    return msgspec.json.encode(
        ShadowQuestion(
            base=FIFO, shadow=Profile(), objective="slowdown", since=0.0, now=1e6, chance=0.025,
            nodes=(node("n1", 10),), jobs=tuple(busy(jobs)),
        )
    )  # fmt: skip


async def test_a_process_of_its_own_gives_the_same_answer_and_ends() -> None:
    process = ProcessPlanning((sys.executable, "-m", "ares.app.shadow.judge"))
    await process.open()
    assert process.pid is not None
    pid = process.pid
    assert psutil.Process(pid).nice() == 19
    answer = await process.ask(question(), 120.0)
    assert answer == judge(question())
    assert msgspec.json.decode(answer, type=ShadowAnswer).jobs == 100
    await process.close()
    assert not psutil.pid_exists(pid)


async def test_a_question_that_it_cannot_read_ends_the_process_and_not_the_server() -> None:
    process = ProcessPlanning((sys.executable, "-m", "ares.app.shadow.judge"))
    await process.open()
    with pytest.raises(PlannerLost):
        await process.ask(b"nonsense", 120.0)
