"""What a job leaves in its output directory: found whole and checked, or refused with a clear word; then sent."""

import hashlib
import os
import socket
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from ares.agent.files.outputs import Collected, GivenUp, collect_now, holds_any
from ares.agent.files.upload import CHUNK_BYTES_MAX, TRIES_MAX, Upload
from ares.agent.transfer.transfers import Transfers
from ares.agent.transfer.upload_pace import UploadPace
from ares.model.link import AttemptRef, OutputAck
from ares.model.state import Fence, OutputFile
from tests.clocks import ManualClock

ROOM = 1 << 30
REF = AttemptRef(job="j", tenant="t", fence=Fence(counter=1))


def collected(root: Path, bytes_max: int = ROOM) -> Collected:
    return collect_now(str(root), bytes_max, lambda: True)


def files(root: Path) -> tuple[OutputFile, ...]:
    found = collected(root)
    assert not found.trouble
    return tuple(one.file for one in found.found)


def test_all_files_by_path_with_their_digests(tmp_path: Path) -> None:
    (tmp_path / "b" / "deep").mkdir(parents=True)
    (tmp_path / "b" / "deep" / "x y.bin").write_bytes(b"\x00" * 3_000_000)
    (tmp_path / "a.txt").write_bytes(b"hello")
    (tmp_path / "größe").touch()
    (tmp_path / "empty").mkdir()
    assert files(tmp_path) == tuple(
        OutputFile(path=path, size=len(data), sha256=hashlib.sha256(data).hexdigest())
        for path, data in (("a.txt", b"hello"), ("b/deep/x y.bin", b"\x00" * 3_000_000), ("größe", b""))
    )


def test_nothing_is_nothing(tmp_path: Path) -> None:
    assert not holds_any(str(tmp_path))
    assert not holds_any(str(tmp_path / "removed"))
    assert collected(tmp_path) == Collected()
    (tmp_path / "empty").mkdir()
    assert holds_any(str(tmp_path))
    assert collected(tmp_path) == Collected()


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(os.path.relpath(path))


HOSTILE: dict[str, tuple[Callable[[Path], object], str]] = {
    "link to a secret": (lambda root: os.symlink("/etc/passwd", root / "x"), "'x' is a symbolic link"),
    "link to nothing": (lambda root: os.symlink("nowhere", root / "x"), "'x' is a symbolic link"),
    "linked directory": (lambda root: os.symlink("/etc", root / "x"), "'x' is a symbolic link"),
    "named pipe": (lambda root: os.mkfifo(root / "x"), "'x' is a named pipe"),
    "socket": (lambda root: _socket(root / "x"), "'x' is a socket"),
    "escape sequence": (lambda root: (root / "\x1b[2Jx").touch(), "cannot be printed"),
    "new line": (lambda root: (root / "a\nb").touch(), "cannot be printed"),
    "turned text": (lambda root: (root / "gpj\u202eexe").touch(), "cannot be printed"),
    "not UTF-8": (lambda root: os.close(os.open(os.fsencode(root) + b"/\xff\xfe", os.O_CREAT)), "cannot be printed"),
    "ten thousand files": (
        lambda root: [os.close(os.open(root / str(n), os.O_CREAT)) for n in range(10_000)],
        "more than 1,000 files",
    ),
    "deep": (lambda root: (root / "/".join("d" * 40)).mkdir(parents=True), "more than 32 deep"),
    "long path": (lambda root: (root / "/".join(["d" * 200] * 3)).mkdir(parents=True), "at most 512"),
    "too much": (lambda root: os.truncate(_file(root / "x"), ROOM + 1), "more than the 1,073,741,824 bytes"),
}


def _file(path: Path) -> Path:
    path.touch()
    return path


@pytest.mark.parametrize("what", HOSTILE)
def test_what_cannot_be_kept_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    monkeypatch.chdir(tmp_path)
    make, says = HOSTILE[what]
    make(tmp_path)
    found = collected(tmp_path)
    assert says in found.trouble
    assert found.found == ()


def test_a_directory_that_is_a_link_is_not_entered(tmp_path: Path) -> None:
    link = tmp_path / "outputs"
    os.symlink("/etc", link)
    assert holds_any(str(link))
    assert collected(link).trouble
    os.unlink(link)
    link.write_bytes(b"a file in its place")
    assert holds_any(str(link))
    assert collected(link).trouble


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "growing"
    path.write_bytes(bytes(5_000_000))
    blocks = 0

    def wanted() -> bool:
        nonlocal blocks
        blocks += 1
        with path.open("ab") as file:
            file.write(bytes(2_000_000))
        return True

    assert collect_now(str(tmp_path), ROOM, wanted).trouble == "'growing' changed while it was read"
    # It was not followed to where it has grown.
    assert blocks <= 6


def test_nobody_waits_for_digests_that_nobody_wants(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"data")
    with pytest.raises(GivenUp):
        collect_now(str(tmp_path), ROOM, lambda: False)


def test_memory_is_bounded(tmp_path: Path) -> None:
    """Of a sparse file: nothing of its size is ever held."""
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(200_000_000)
    tracemalloc.start()
    try:
        collected(tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()


# ---- sending


class Far:
    """The other side of an upload, as the control plane behaves."""

    def __init__(self, root: Path) -> None:
        self.failures = list[str]()
        pace = UploadPace(Transfers(ManualClock()), "t", "j", lambda: None)
        self.upload = Upload(str(root), collected(root).found, self.failures.append, pace)
        self.kept: dict[str, bytes] = {}

    def carry(self, room: int = 1 << 20, *, limit: int = 10_000) -> int:
        """Sends until nothing more is to send; answers each piece. Returns how many there were."""
        for count in range(limit):
            piece = self.upload.piece(room)
            if piece is None:
                return count
            assert len(piece.data) <= min(room, CHUNK_BYTES_MAX)
            kept = self.kept.setdefault(piece.sha256, b"")
            if piece.offset <= len(kept):
                self.kept[piece.sha256] = kept = kept[: piece.offset] + piece.data
            self.answer(piece.sha256, len(kept), sealed=len(kept) == piece.size)
        return limit

    def answer(self, sha256: str, offset: int, *, sealed: bool = False, trouble: str = "") -> float | None:
        return self.upload.acked(
            OutputAck(ref=REF, rank=0, sha256=sha256, offset=offset, sealed=sealed, trouble=trouble)
        )


@pytest.fixture
def far(tmp_path: Path) -> Far:
    (tmp_path / "big").write_bytes(os.urandom(3 * CHUNK_BYTES_MAX + 7))
    for name in ("same", "same again"):
        (tmp_path / name).write_bytes(b"same")
    (tmp_path / "empty").touch()
    return Far(tmp_path)


def data_of(root: Path) -> dict[str, bytes]:
    found = {path.read_bytes() for path in root.iterdir()}
    return {hashlib.sha256(data).hexdigest(): data for data in found}


def test_every_file_is_sent_once_and_equal_ones_together(far: Far, tmp_path: Path) -> None:
    assert not far.upload.settled
    assert far.carry() == 4 + 1 + 1
    assert far.upload.settled
    assert far.kept == data_of(tmp_path)
    assert far.upload.in_flight == 0


def test_not_more_is_under_way_than_there_is_room_for(far: Far) -> None:
    taken = 0
    while (piece := far.upload.piece(CHUNK_BYTES_MAX + 100 - far.upload.in_flight)) is not None:
        taken += len(piece.data)
    assert taken == far.upload.in_flight == CHUNK_BYTES_MAX + 100


def test_a_new_session_goes_on_from_what_was_acknowledged(far: Far, tmp_path: Path) -> None:
    first = far.upload.piece(1000)
    assert first is not None
    lost = far.upload.piece(1000)
    assert lost is not None
    assert lost.offset == 1000
    far.kept[first.sha256] = first.data
    far.answer(first.sha256, 1000)
    far.upload.rewind()
    far.carry()
    assert far.kept == data_of(tmp_path)
    assert far.upload.settled


def test_the_other_side_may_have_more_or_less_than_was_thought(far: Far, tmp_path: Path) -> None:
    big = (tmp_path / "big").read_bytes()
    piece = far.upload.piece(1000)
    assert piece is not None
    # Another replica had kept more of it before.
    far.kept[piece.sha256] = big[:5000]
    far.answer(piece.sha256, 5000)
    following = far.upload.piece(10)
    assert following is not None
    assert following.offset == 5000
    # And now one that has nothing.
    far.kept.clear()
    far.answer(piece.sha256, 0)
    far.carry()
    assert far.kept == data_of(tmp_path)


def test_trouble_rests_then_sends_again_and_ends_some_time(far: Far) -> None:
    big = next(file for file in far.upload.files if file.path == "big")
    far.carry()
    pauses = list[float]()
    for _ in range(TRIES_MAX):
        pause = far.answer(big.sha256, 0, trouble="the disk is full")
        assert pause is not None
        pauses.append(pause)
        assert not far.upload.settled
        # While it rests, more of the same says nothing new, and nothing is sent.
        assert far.answer(big.sha256, 0, trouble="the disk is full") is None
        assert far.carry() == 0
        far.upload.again(big.sha256)
        assert far.carry() == 4
        assert far.upload.settled
    assert pauses == sorted(pauses)
    assert not far.failures
    assert far.answer(big.sha256, 0, trouble="the disk is full") is None
    assert far.failures == ["'big': the disk is full; it was sent 7 times"]


def _grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


CHANGES: dict[str, Callable[[Path], object]] = {
    "written": lambda path: path.write_bytes(b"other"),
    "cut": lambda path: os.truncate(path, 10),
    "removed": lambda path: path.unlink(),
    "linked": lambda path: (path.unlink(), os.symlink("/etc/passwd", path)),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "grown": _grow,
}


@pytest.mark.parametrize("pieces", [0, 2])
@pytest.mark.parametrize("what", CHANGES)
def test_a_file_that_changes_on_the_way_is_a_failure(far: Far, tmp_path: Path, what: str, pieces: int) -> None:
    far.carry(limit=pieces)
    CHANGES[what](tmp_path / "big")
    far.carry()
    assert len(far.failures) == 1
    assert far.failures[0].startswith("'big': ")
    assert not far.upload.settled
    far.upload.close()


def test_descriptors_are_closed(tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / str(number)).write_bytes(b"%d" % number)
    before = len(os.listdir("/proc/self/fd"))
    far = Far(tmp_path)
    far.carry()
    assert len(os.listdir("/proc/self/fd")) <= before + 3
    far.upload.close()
    assert len(os.listdir("/proc/self/fd")) == before
