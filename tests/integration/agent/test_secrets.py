"""Secrets on a node: the process has them, and nothing else does."""

import contextlib
import json
import os
from pathlib import Path

import msgspec
import pytest

from ares.adapters.clocks import SystemClock
from ares.agent.attempts.secret_store import Shelter
from ares.agent.attempts.workspace import Folder
from ares.model.link import Exited, Progress, Start, Started, Stop
from ares.model.secret import Secret, SecretGiven, SecretRef
from tests import needs
from tests.integration.agent.conftest import Running
from tests.integration.agent.scripted import ScriptedPlane

CANARY = "c4n4ry-hunter2/+&"
REFS = (SecretRef(name="pw", env="PW"), SecretRef(name="key", file="key.pem"))
GIVEN = (
    SecretGiven(name="pw", version=3, value=Secret(CANARY.encode()), env="PW"),
    SecretGiven(name="key", version=1, value=Secret(b"first-canary\nsecond-canary\n"), file="key.pem"),
)


def start(plane: ScriptedPlane, script: str, **changes: object) -> Start:
    told = plane.start("j1", "sh", "-c", script, secrets=REFS)
    return msgspec.structs.replace(told, **{"secrets": GIVEN, **changes})


def holds(folder: Path, *words: bytes) -> list[str]:
    """Files below a directory with any of the words in them."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return [str(path) for path in files if any(word in _read(path) for word in words)]


def arguments() -> bytes:
    """Of every process of this machine."""
    return b" ".join(_read(pid / "cmdline") for pid in Path("/proc").glob("[0-9]*"))


def rooms() -> list[str]:
    """What agents of this user have in memory."""
    return [path.name for path in Path("/dev/shm").glob(f"ares-{os.getuid()}-*/*")]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


async def test_the_process_has_them_and_its_output_does_not(running: Running, plane: ScriptedPlane) -> None:
    """N27: as a variable, as a file, in base64, line by line, in the result and in errors."""
    script = """
        printf '%s' "$PW" | wc -c; echo "pw=$PW;"; printf '%s' "$PW" | base64; echo "err $PW" >&2
        cat "$ARES_SECRETS_DIR/key.pem"; stat -L -c '%a' "$ARES_SECRETS_DIR" "$ARES_SECRETS_DIR/key.pem"
        tail -n 1 "$ARES_SECRETS_DIR/key.pem"
        printf '{"pw": "%s", "n": 1}' "$PW" > "$ARES_RESULT_FILE"
    """
    plane.say(start(plane, script))
    started, exited = await plane.first(Started, "j1"), await plane.first(Exited, "j1")
    assert started.secrets == {"pw": 3, "key": 1}
    assert exited.exit.failure is None
    assert json.loads(exited.value) == {"pw": "***", "n": 1}
    lines = plane.logs[(exited.ref, 0)].decode().splitlines()
    # Each stream has a pipe of its own, so what is written to the other at about the same time may come before it.
    assert lines.count("err ***") == 1
    said = " ".join(line for line in lines if line != "err ***").split()
    assert said == [str(len(CANARY)), "pw=***;", "***", "***", "700", "600", "***"]


async def test_nothing_of_them_is_left_or_was_on_the_disk(running: Running, plane: ScriptedPlane) -> None:
    """N26: while it runs and after its end; also in the arguments of any process."""
    words = (CANARY.encode(), b"first-canary", b"second-canary")
    script = 'mkfifo wait; echo "$PW"; cat "$ARES_SECRETS_DIR/key.pem"; echo at $ARES_SECRETS_DIR; read line < wait'
    plane.say(start(plane, script))
    ref = (await plane.first(Started, "j1")).ref
    await plane.until(lambda: b"at /" in plane.logs.get((ref, 0), b""))
    assert plane.logs[(ref, 0)].startswith(b"***\n***\nat ")
    folder = running.state_dir / "attempts" / "j1.1.1.0"
    room = os.readlink(folder / "secrets")
    assert _read(Path(room) / "key.pem") == b"first-canary\nsecond-canary\n"
    assert holds(running.state_dir, *words) == []
    assert CANARY.encode() not in arguments()
    plane.say(Stop(ref=ref, grace_s=0.0, reason="enough"))
    await plane.until(lambda: os.path.basename(room) not in rooms())
    assert holds(running.state_dir, *words) == []


async def test_pieces_of_a_secret_are_put_together_and_what_is_none_comes_through(
    running: Running, plane: ScriptedPlane
) -> None:
    """N27: cut by the job, by the pipe and by the end; bytes that only begin like one are shown."""
    script = f"""
        for c in $(printf '%s' "$PW" | fold -w1); do printf '%s' "$c"; done; echo
        head -c 150000 /dev/zero | tr '\\0' x; echo "$PW"; printf '%s' '{CANARY[:7]}'
    """
    plane.say(start(plane, script))
    exited = await plane.first(Exited, "j1")
    log = bytes(plane.logs[(exited.ref, 0)])
    assert log == b"***\n" + b"x" * 150_000 + b"***\n" + CANARY[:7].encode()


async def test_output_beyond_the_cap_is_dropped_all_the_same(running: Running, plane: ScriptedPlane) -> None:
    plane.say(start(plane, "head -c 5000000 /dev/zero | tr '\\0' x; echo done"))
    exited = await plane.first(Exited, "j1")
    await plane.until(lambda: b"was dropped" in plane.logs[(exited.ref, 0)])
    assert len(plane.logs[(exited.ref, 0)]) < 300_000


async def test_progress_is_masked_too(running: Running, plane: ScriptedPlane) -> None:
    told = """printf '{"fraction": 0.5, "message": "at %s"}' "$PW" > p; mv p "$ARES_PROGRESS_FILE"; read line < wait"""
    plane.say(start(plane, f"mkfifo wait; {told}"))
    progress = await plane.first(Progress, "j1")
    assert progress.message == "at ***"
    plane.say(Stop(ref=progress.ref, grace_s=0.0, reason="enough"))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"secrets": (), "secrets_trouble": "the secret pw does not exist any more"}, "does not exist any more"),
        ({"secrets": GIVEN[:1]}, "did not send the secret key"),
    ],
)
async def test_without_its_secrets_it_does_not_start(
    running: Running, plane: ScriptedPlane, changes: dict[str, object], why: str
) -> None:
    marker = running.state_dir / "started"
    plane.say(start(plane, f"touch {marker}", **changes))
    exited = await plane.first(Exited, "j1")
    assert exited.exit.failure == "staging"
    assert why in exited.exit.message
    assert not marker.exists()


async def test_an_agent_that_starts_removes_what_a_killed_one_left(tmp_path: Path, plane: ScriptedPlane) -> None:
    folder = Folder(str(tmp_path / "attempts" / "old.1.1.0"))
    os.makedirs(folder.path)
    told = msgspec.structs.replace(plane.start("old", "true", secrets=REFS), secrets=GIVEN)
    cover = Shelter(tmp_path / "attempts").cover(told, folder, SystemClock())
    assert cover is not None
    room = os.readlink(folder.secrets)
    assert os.listdir(room) == ["key.pem"]
    Shelter(tmp_path / "attempts").clear()
    assert not os.access(room, os.F_OK)
    cover.finish()


async def test_a_place_that_somebody_else_took_is_not_used(tmp_path: Path, plane: ScriptedPlane) -> None:
    """N28: anybody may write below /dev/shm."""
    shelter = Shelter(tmp_path / "attempts")
    os.makedirs(tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", shelter.root)
    folder = Folder(str(tmp_path / "attempts" / "j.1.1.0"))
    os.makedirs(folder.path)
    told = msgspec.structs.replace(plane.start("j", "true", secrets=REFS), secrets=GIVEN)
    try:
        cover = shelter.cover(told, folder, SystemClock())
        assert cover is not None
        assert os.listdir(tmp_path / "elsewhere") == []
        assert os.listdir(folder.secrets) == ["key.pem"]
        cover.finish()
        assert sorted(os.listdir(folder.path)) == ["log", "log.err"]
    finally:
        os.unlink(shelter.root)


async def test_a_process_that_goes_on_writing_does_not_hold_the_agent_up(
    tmp_path: Path, plane: ScriptedPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process of the tenant may have the pipe open after the attempt's end."""
    folder = Folder(str(tmp_path / "attempts" / "j.1.1.0"))
    os.makedirs(folder.path)
    told = msgspec.structs.replace(plane.start("j", "true", secrets=REFS), secrets=GIVEN)
    cover = Shelter(tmp_path / "attempts").cover(told, folder, SystemClock())
    assert cover is not None
    full, reads = b"o" * 1024 * 1024, 0
    writer, genuine = os.open(folder.pipe, os.O_WRONLY | os.O_NONBLOCK), os.read
    written = os.write(writer, full)

    def read(fd: int, size: int) -> bytes:
        """Whatever is read is written again at once."""
        nonlocal reads
        reads += 1
        assert reads <= 1000
        data = genuine(fd, size)
        with contextlib.suppress(BlockingIOError):
            os.write(writer, full[: len(data)])
        return data

    monkeypatch.setattr(os, "read", read)
    cover.finish()
    monkeypatch.undo()
    os.close(writer)
    Shelter(tmp_path / "attempts").clear()
    # What was there when the attempt ended is kept.
    assert os.stat(folder.log).st_size >= written


async def test_in_a_sandbox_they_are_there_too(running: Running, plane: ScriptedPlane) -> None:
    """N28: its own secrets and nobody else's, where /dev/shm is its own."""
    script = 'cat "$ARES_SECRETS_DIR/key.pem" | wc -l; echo "$PW"; find /dev/shm -type f -o -type l | wc -l'
    told = plane.start("j1", "sh", "-c", script, secrets=REFS, isolation="sandbox")
    plane.say(msgspec.structs.replace(told, secrets=GIVEN))
    exited = await plane.first(Exited, "j1")
    if "kept apart" in exited.exit.message:
        pytest.skip(needs.PID_NAMESPACES)
    assert plane.log(exited.ref).split() == [b"2", b"***", b"1"]
