"""The helper in a pod, a program of its own: it asks leave to start, stages the job's files, and hands outputs over.

It goes on trying while the agent is away: a pod that has no leave does not start, and outputs wait for their reader.
"""

import hashlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import grpc
import msgspec

from ares.agent.files.outputs import GivenUp, collect_now, opened
from ares.agent.staging.unpack import unpack
from ares.api.projects import ProjectManifest
from ares.core.project import read_manifest
from ares.ports.kubernetes import MESSAGE_BYTES_MAX, POD, SERVICE, TOKEN, PodFile, PodKept, PodLeave, PodPart, PodTask

T = TypeVar("T")
_AGAIN_S, _AGAIN_MAX_S = 0.2, 5.0
_CALL_S: Final = 60.0
_FILES_S: Final = 24 * 3600.0
_CHUNK: Final = 1 << 20
# The control plane has a bound of its own; this one only keeps sums small.
_PROJECT_BYTES_MAX: Final = 1 << 50
# The agent does not know the pod yet, or is away: it is asked again. Anything else is an answer.
_LATER: Final = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
_encode = msgspec.msgpack.Encoder().encode


class Denied(Exception):
    """The job may not start, or its files cannot be had; why, in words."""


class AgentDoor:
    """The agent of the cluster, as the helper reaches it. It is known by its certificate."""

    def __init__(self, env: Mapping[str, str]) -> None:
        trusted = grpc.ssl_channel_credentials(env["ARES_DOOR_CERTIFICATE"].encode())
        options = (
            ("grpc.ssl_target_name_override", "ares-door"),
            ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
            ("grpc.enable_http_proxy", 0),
        )
        self._channel: Any = grpc.secure_channel(env["ARES_DOOR"], trusted, options)
        self._proof = ((POD, env["ARES_POD"]), (TOKEN, env["ARES_POD_TOKEN"]))

    def ask(self, method: str, kind: type[T]) -> T:
        call = self._channel.unary_unary(f"/{SERVICE}/{method}", None, msgspec.msgpack.Decoder(kind).decode)
        return self._tried(lambda: call(b"", metadata=self._proof, timeout=_CALL_S))

    def parts(self) -> Iterator[PodPart]:
        call = self._channel.unary_stream(f"/{SERVICE}/Stage", None, msgspec.msgpack.Decoder(PodPart).decode)
        return iter(call(b"", metadata=self._proof, timeout=_FILES_S))

    def hand_over(self, pieces: Callable[[], Iterator[PodFile]]) -> None:
        call = self._channel.stream_unary(f"/{SERVICE}/HandOver", _encode, msgspec.msgpack.Decoder(PodKept).decode)
        self._tried(lambda: call(pieces(), metadata=self._proof, timeout=_FILES_S))

    @staticmethod
    def _tried(call: Callable[[], T]) -> T:
        pause_s = _AGAIN_S
        while True:
            try:
                return call()
            except grpc.RpcError as error:
                if error.code() not in _LATER:
                    raise Denied(error.details()) from None
            time.sleep(pause_s)
            pause_s = min(_AGAIN_MAX_S, pause_s * 1.5)


def stage(env: Mapping[str, str]) -> None:
    """Raises Denied."""
    door, root = AgentDoor(env), Path(env["ARES_FILES"])
    leave = door.ask("Leave", PodLeave)
    if not leave.granted:
        raise Denied(leave.why)
    for folder in (root / "work", root / "outputs"):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o777)
    if leave.project:
        _staged(door, root)


def _staged(door: AgentDoor, root: Path) -> None:
    while True:
        try:
            with tempfile.TemporaryDirectory(dir=root, prefix=".parts-") as cached:
                manifest = _fetched(door, Path(cached))
                unpack(manifest, Path(cached), str(root / "work"), None, lambda: True)
            return
        except grpc.RpcError as error:
            # Nothing is unpacked before all of it came.
            if error.code() not in _LATER:
                raise Denied(error.details()) from None
            time.sleep(_AGAIN_S)


def _fetched(door: AgentDoor, cached: Path) -> ProjectManifest:
    manifest: ProjectManifest | None = None
    for part in door.parts():
        if not part.sha256:
            manifest = _open_to_all(read_manifest(part.data, _PROJECT_BYTES_MAX))
        elif hashlib.sha256(part.data).hexdigest() != part.sha256:
            raise Denied(f"part {part.sha256[:12]} of its files came damaged")
        else:
            (cached / part.sha256).write_bytes(part.data)
    if manifest is None:
        raise Denied("its files came without a manifest")
    return manifest


def _open_to_all(manifest: ProjectManifest) -> ProjectManifest:
    """The job's own user is not known here: all have the rights that the owner is meant to have."""
    entries = (
        msgspec.structs.replace(entry, mode=entry.mode | (entry.mode & 0o700) >> 3 | (entry.mode & 0o700) >> 6)
        for entry in manifest.entries
    )
    return msgspec.structs.replace(manifest, entries=tuple(entries))


def collect(env: Mapping[str, str]) -> None:
    """Until nothing is left to do. Raises Denied."""
    door, root = AgentDoor(env), f"{env['ARES_FILES']}/outputs"
    while (task := door.ask("Next", PodTask)).todo != "leave":
        if task.todo == "hand-over":
            door.hand_over(lambda task=task: _pieces(root, task.bytes_max))


def _pieces(root: str, bytes_max: int) -> Iterator[PodFile]:
    try:
        found = collect_now(root, bytes_max, lambda: True)
    except GivenUp:
        return
    if found.trouble:
        yield PodFile(trouble=found.trouble[:4096])
        return
    for output in found.found:
        with opened(root, output.file.path) as fd:
            first, at = True, 0
            while (data := os.pread(fd, _CHUNK, at)) or first:
                yield PodFile(path=output.file.path, data=data, first=first)
                first, at = False, at + len(data)


def _ended(number: int, at: object) -> None:
    os._exit(0)


def main(what: str) -> int:
    # A pod that is deleted does not wait for its helper.
    signal.signal(signal.SIGTERM, _ended)
    try:
        (stage if what == "stage" else collect)(os.environ)
    except Denied as denied:
        sys.stderr.write(f"ares: {denied}\n")
        return 1
    return 0
