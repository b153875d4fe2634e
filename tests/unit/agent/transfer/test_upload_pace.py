"""Uploads at the pace of their tenant, and none while the control plane cannot keep them."""

from pathlib import Path

import pytest

from ares.agent.files.outputs import collect_now
from ares.agent.files.upload import TRIES_MAX, Upload
from ares.agent.transfer.transfers import CONTROL_PLANE, Transfers
from ares.agent.transfer.upload_pace import UploadPace
from ares.core.transfer.breaker import PROBE_S, REQUESTS_MIN
from ares.core.transfer.turns import BURST_S, CHUNK_BYTES
from ares.model.link import AttemptRef, OutputAck
from ares.model.state import Fence
from tests.clocks import ManualClock

MIB = 1 << 20
REF = AttemptRef(job="j", tenant="t", fence=Fence())


class Sender:
    """Sends what it may, as the mailbox does."""

    def __init__(self, folder: Path, transfers: Transfers, size: int) -> None:
        (folder / "file").write_bytes(bytes(size))
        self.sent = 0
        self.failures = list[str]()
        found = collect_now(str(folder), 1 << 40, lambda: True).found
        self.sha256 = found[0].file.sha256
        self.upload = Upload(str(folder), found, self.failures.append, UploadPace(transfers, "t", "j", self.send))

    def send(self) -> None:
        while (piece := self.upload.piece(2 * MIB)) is not None:
            self.sent += len(piece.data)

    def answered(self, offset: int, trouble: str = "", *, sealed: bool = False) -> None:
        ack = OutputAck(ref=REF, rank=0, sha256=self.sha256, offset=offset, trouble=trouble, sealed=sealed)
        pause_s = self.upload.acked(ack)
        if pause_s is not None:
            self.upload.again(self.sha256)


async def test_a_file_goes_at_the_rate_of_its_tenant(tmp_path: Path) -> None:
    clock = ManualClock()
    transfers = Transfers(clock)
    transfers.set_rate("t", 2 * MIB)
    sender = Sender(tmp_path, transfers, 20 * MIB)
    sender.send()
    await clock.advance(5.0)
    assert sender.sent == pytest.approx((5.0 + BURST_S) * 2 * MIB, abs=2 * CHUNK_BYTES)
    await clock.advance(5.0)
    assert sender.sent == 20 * MIB
    assert transfers.moved() == {("t", "output"): 20 * MIB}


async def test_without_a_rate_all_of_it_goes_at_once(tmp_path: Path) -> None:
    transfers = Transfers(ManualClock())
    sender = Sender(tmp_path, transfers, 3 * MIB)
    sender.send()
    assert sender.sent == 3 * MIB
    assert transfers.moved() == {("t", "output"): 3 * MIB}


async def test_an_upload_that_ends_early_leaves_no_wish(tmp_path: Path) -> None:
    clock = ManualClock()
    transfers = Transfers(clock)
    transfers.set_rate("t", 1.0)
    sender = Sender(tmp_path, transfers, 3 * MIB)
    sender.send()
    await clock.advance(0.1)
    assert transfers.waiting() != {}
    sender.upload.close()
    assert transfers.waiting() == {}


async def test_files_that_cannot_be_kept_wait_and_are_not_given_up(tmp_path: Path) -> None:
    clock = ManualClock()
    transfers = Transfers(clock)
    for _ in range(REQUESTS_MIN):
        transfers.ended("t", CONTROL_PLANE, ok=False)
    sender = Sender(tmp_path, transfers, MIB)
    sender.send()
    assert sender.sent == 0
    assert transfers.paused() == {"j": CONTROL_PLANE}
    for _ in range(20):
        sender.answered(0, "the disk is full")
    assert sender.failures == []
    sender.upload.close()
    assert transfers.paused() == {}


async def test_a_few_troubles_of_one_file_are_still_told(tmp_path: Path) -> None:
    sender = Sender(tmp_path, Transfers(ManualClock()), MIB)
    for _ in range(TRIES_MAX + 1):
        sender.send()
        sender.answered(0, "the disk is full")
    assert sender.failures == [f"'file': the disk is full; it was sent {TRIES_MAX + 1} times"]


async def test_an_upload_that_waits_for_its_rate_takes_no_probe_of_the_breaker(tmp_path: Path) -> None:
    clock = ManualClock()
    transfers = Transfers(clock)
    transfers.set_rate("t", 1.0)
    for _ in range(REQUESTS_MIN):
        transfers.ended("t", CONTROL_PLANE, ok=False)
    sender = Sender(tmp_path, transfers, MIB)
    await clock.advance(PROBE_S + 1.0)
    sender.send()
    # No byte may pass yet: another request of the tenant finds out whether the endpoint answers again.
    assert sender.sent == 0
    assert transfers.turn_now("t", CONTROL_PLANE) == 0.0
    sender.upload.close()


async def test_one_in_a_hurry_goes_before_the_rest_of_its_tenant(tmp_path: Path) -> None:
    """Also when its bytes wait already; the tenant's rate stays what it is."""
    clock = ManualClock()
    transfers = Transfers(clock)
    transfers.set_rate("t", 1 * MIB)
    folders = [tmp_path / name for name in ("usual", "last")]
    for folder in folders:
        folder.mkdir()
    usual, last = (Sender(folder, transfers, 20 * MIB) for folder in folders)
    usual.send()
    last.send()
    await clock.advance(1.0)
    last.upload.hurry()
    before = (usual.sent, last.sent)
    await clock.advance(5.0)
    assert usual.sent - before[0] <= CHUNK_BYTES
    assert last.sent - before[1] == pytest.approx(5 * MIB, abs=2 * CHUNK_BYTES)
    for sender in (usual, last):
        sender.upload.close()
    assert transfers.waiting() == {}
