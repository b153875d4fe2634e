"""What an attempt goes on from: a list that cannot be read is not taken for a lost checkpoint."""

import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from ares.adapters.clocks import SystemClock
from ares.agent.attempts.attempt import Attempt
from ares.agent.attempts.workspace import Folder
from ares.agent.files.spool import Tail
from ares.agent.link.mailbox import Mailbox
from ares.agent.staging import restorer as restoring
from ares.agent.staging.preparation import Preparation
from ares.agent.staging.restorer import Restorer
from ares.agent.staging.stager import StagingFailed
from ares.agent.transfer.transfers import Transfers
from ares.core.checkpoint import digest_of, encode_manifest
from ares.model.checkpoint import (
    CheckpointAsk,
    CheckpointPart,
    CheckpointPointer,
    CheckpointPolicy,
    DamageFound,
    RestorableCheckpoint,
)
from ares.model.job import JobSpec
from ares.model.link import AttemptRef, FetchPiece, FetchRequest, Start
from ares.model.state import Fence, OutputFile, Placement
from ares.ports.executor import Launch
from ares.ports.link import LinkBroken

DATA = b"weights"
MANIFEST = encode_manifest([OutputFile(path="w", size=len(DATA), sha256=digest_of(DATA))])
KEPT = {digest_of(data): data for data in (DATA, MANIFEST)}
BEFORE = CheckpointPointer(
    fence=Fence(epoch=1, counter=1), seq=3, manifest=digest_of(MANIFEST), size=len(DATA), step=3, taken_at=1.0
)
LIST = msgspec.json.encode(
    (
        RestorableCheckpoint(
            pointer=BEFORE,
            parts=(CheckpointPart(rank=0, manifest=digest_of(MANIFEST), size=len(DATA)),),
        ),
    )
)
LAUNCH = Launch(
    argv=("x",), env={}, cwd="/", log_path="/dev/null", memory_mib=1, cpu_milli=1, file_bytes_max=1, processes_max=1,
    open_files_max=1,
)  # fmt: skip


def attempt_in(folder: Path) -> Attempt:
    start = Start(
        ref=AttemptRef(job="j1", tenant="t", fence=Fence(epoch=1, counter=2)), attempt=2,
        placement=Placement(node="n1", incarnation=1, cpu_milli=100, memory_mib=10),
        spec=JobSpec(command=("x",), checkpoint=CheckpointPolicy()),
    )  # fmt: skip
    place = Folder(str(folder))
    return Attempt(start, place, Tail(place.log, 1 << 20), 1e9, start.world)


def answered(ask: CheckpointAsk, listed: bytes) -> bytes:
    whole = listed if ask.sha256 is None else KEPT[ask.sha256]
    return whole[ask.offset : ask.offset + ask.length]


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restoring, "_AGAIN_S", (0.0,))


@pytest.mark.parametrize(
    "pieces",
    [
        (FetchPiece(sha256="", data=b"["),),
        (FetchPiece(sha256="", data=b"", trouble="it cannot be read"),),
        (FetchPiece(sha256="", data=b" " * (3 << 20)),) * 2,
    ],
    ids=["broken", "trouble", "long"],
)
async def test_a_list_that_cannot_be_read_ends_the_attempt_and_says_so(
    tmp_path: Path, pieces: Sequence[FetchPiece]
) -> None:
    async def fetch(request: FetchRequest) -> AsyncIterator[FetchPiece]:
        for piece in pieces:
            yield piece

    with pytest.raises(StagingFailed, match="the list of its checkpoints cannot be read") as failed:
        await Restorer(fetch, Mailbox(), SystemClock()).restore(attempt_in(tmp_path), LAUNCH)
    assert not failed.value.lasting


async def test_an_error_that_was_not_thought_of_ends_the_attempt(tmp_path: Path) -> None:
    async def fetch(request: FetchRequest) -> AsyncIterator[FetchPiece]:
        raise ZeroDivisionError("oh")
        yield

    attempt = attempt_in(tmp_path)
    attempt.start = msgspec.structs.replace(attempt.start, checkpoint=BEFORE)
    preparation = Preparation(None, None, restorer=Restorer(fetch, Mailbox(), SystemClock()))
    with pytest.raises(StagingFailed, match="it could not be prepared: ZeroDivisionError"):
        await preparation.prepare(attempt, LAUNCH)


async def test_its_bytes_wait_for_the_tenants_turn(tmp_path: Path) -> None:
    asked, clock = list[int](), SystemClock()
    transfers = Transfers(clock)
    transfers.set_rate("t", 1e9)

    async def fetch(request: FetchRequest) -> AsyncIterator[FetchPiece]:
        ask = request.checkpoint
        assert ask is not None
        asked.append(ask.length)
        yield FetchPiece(sha256=ask.sha256 or "", data=answered(ask, LIST))

    await Restorer(fetch, Mailbox(), clock, transfers).restore(attempt_in(tmp_path), LAUNCH)
    assert transfers.moved() == {("t", "checkpoint"): len(DATA)}
    assert asked[-1] == len(DATA)


async def test_a_connection_that_breaks_after_every_answer_is_no_damage(tmp_path: Path) -> None:
    broken = set[CheckpointAsk]()

    async def fetch(request: FetchRequest) -> AsyncIterator[FetchPiece]:
        ask = request.checkpoint
        assert ask is not None
        yield FetchPiece(sha256=ask.sha256 or "", data=answered(ask, LIST))
        if ask not in broken and not ask.offset:
            broken.add(ask)
            raise LinkBroken("lost")

    launch = await Restorer(fetch, Mailbox(), SystemClock()).restore(attempt_in(tmp_path), LAUNCH)
    assert (Path(launch.env["ARES_RESTORE_DIR"]) / "w").read_bytes() == DATA
    assert len(broken) == 3


# ---- files that are not what was saved


def _older() -> tuple[RestorableCheckpoint, dict[str, bytes]]:
    """A checkpoint before BEFORE, and its files."""
    data = b"older weights"
    manifest = encode_manifest([OutputFile(path="w", size=len(data), sha256=digest_of(data))])
    pointer = msgspec.structs.replace(BEFORE, seq=2, manifest=digest_of(manifest), size=len(data), step=2)
    part = CheckpointPart(rank=0, manifest=digest_of(manifest), size=len(data))
    return RestorableCheckpoint(pointer=pointer, parts=(part,)), {digest_of(own): own for own in (data, manifest)}


def _damages(whole: bytes) -> Iterator[bytes]:
    """Cut at every byte, and with every byte changed."""
    for at in range(len(whole)):
        yield whole[:at]
        yield whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]


@pytest.mark.parametrize("name", [digest_of(DATA), digest_of(MANIFEST)], ids=["file", "list of files"])
async def test_one_that_is_cut_at_any_byte_gives_way_to_the_older(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restoring, "in_thread", _at_once)
    older, files = _older()
    newest = msgspec.json.decode(LIST, type=tuple[RestorableCheckpoint, ...])
    listed = msgspec.json.encode((*newest, older))
    for number, damaged in enumerate(_damages(KEPT[name])):
        there = {**KEPT, **files, name: damaged}

        async def fetch(request: FetchRequest, there: dict[str, bytes] = there) -> AsyncIterator[FetchPiece]:
            ask = request.checkpoint
            assert ask is not None
            whole = listed if ask.sha256 is None else there[ask.sha256]
            yield FetchPiece(sha256=ask.sha256 or "", data=whole[ask.offset : ask.offset + ask.length])

        place = tmp_path / str(number)
        place.mkdir()
        mailbox = Mailbox()
        launch = await Restorer(fetch, mailbox, SystemClock()).restore(attempt_in(place), LAUNCH)
        assert (Path(launch.env["ARES_RESTORE_DIR"]) / "w").read_bytes() == b"older weights"
        assert launch.env["ARES_RESTORE_SEQ"] == "2"
        told = [
            report for report in mailbox.outbox.take(10, 1 << 20, lambda _: True) if isinstance(report, DamageFound)
        ]
        assert [report.checkpoint.seq for report in told] == [3]
        shutil.rmtree(place)


async def _at_once(work: Callable[[], object]) -> object:
    return work()
