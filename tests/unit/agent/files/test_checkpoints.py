"""Checkpoints that jobs leave: whatever a job does there, the agent says what is kept."""

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest

from ares.adapters.clocks import SystemClock
from ares.agent.attempts.attempt import Attempt
from ares.agent.attempts.workspace import Folder
from ares.agent.files import checkpoints
from ares.agent.files.checkpoints import AttemptCheckpoints
from ares.agent.files.outputs import collect
from ares.agent.files.saving import remove
from ares.agent.files.spool import Tail
from ares.agent.link.mailbox import Mailbox
from ares.agent.transfer.transfers import Transfers
from ares.model.checkpoint import Checkpointed, CheckpointPolicy
from ares.model.job import JobSpec
from ares.model.link import AttemptRef, OutputAck, Start
from ares.model.state import Fence, Placement


class Saves:
    """One attempt and its checkpoint directory."""

    def __init__(self, folder: Path) -> None:
        start = Start(
            ref=AttemptRef(job="j1", tenant="t", fence=Fence(epoch=1, counter=1)), attempt=1,
            placement=Placement(node="n1", incarnation=1, cpu_milli=100, memory_mib=10),
            spec=JobSpec(command=("x",), checkpoint=CheckpointPolicy()),
        )  # fmt: skip
        place, clock = Folder(str(folder)), SystemClock()
        self.attempt = Attempt(start, place, Tail(place.log, 1 << 20), 1e9, start.world)
        self.checkpoints = AttemptCheckpoints(Mailbox(), clock, collect, lambda _: None, Transfers(clock))
        self.checkpoints.bytes_max = 1 << 30
        self.checkpoints.open(self.attempt)
        self.root = Path(place.checkpoints)

    def leave(self, *numbers: int) -> None:
        for number in numbers:
            (self.root / str(number)).mkdir()
            (self.root / str(number) / "w").write_text(str(number))

    @property
    def status(self) -> dict[str, object]:
        return json.loads((self.root / ".status").read_bytes())


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.01)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


async def test_many_at_once_take_no_descriptor_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = Event()

    def slow(fd: int, seq: int) -> None:
        go.wait(60)
        remove(fd, seq)

    monkeypatch.setattr(checkpoints, "remove", slow)
    saves = Saves(tmp_path)
    before = descriptors()
    saves.leave(*range(100))
    saves.checkpoints.look(saves.attempt)
    saves.leave(*range(100, 200))
    saves.checkpoints.look(saves.attempt)
    during = descriptors()
    go.set()
    # The first look's newest is on its way, and the second's waits for it.
    await until(lambda: len([name for name in os.listdir(saves.root) if name.isdecimal()]) <= 2)
    saves.checkpoints.drop(saves.attempt)
    assert during - before < 20


async def test_one_that_is_kept_stays_so_when_the_next_fails(tmp_path: Path) -> None:
    saves = Saves(tmp_path)
    saves.leave(5)
    saves.checkpoints.look(saves.attempt)
    await until(lambda: saves.attempt.upload is not None)
    assert saves.attempt.upload is not None
    (file,) = saves.attempt.upload.files
    ref = saves.attempt.start.ref
    saves.checkpoints.kept(
        saves.attempt, OutputAck(ref=ref, rank=0, sha256=file.sha256, offset=file.size, sealed=True, seq=5)
    )
    saving = saves.attempt.checkpoints
    assert saving is not None
    assert saving.report is not None
    said = Checkpointed(number=saving.report, ref=ref, rank=0, seq=5, step=5, files=(file,), taken_at=1.0)
    saves.checkpoints.settled(saves.attempt, said)
    assert saves.status == {"saved": 5}
    (saves.root / "6").mkdir()
    saving.began = 0.0
    saves.checkpoints.look(saves.attempt)
    await until(lambda: saves.status != {"saved": 5})
    assert saves.status == {"saved": 5, "failed": 6, "why": "there are no files in it"}
    saves.checkpoints.drop(saves.attempt)
