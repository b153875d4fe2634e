"""A pod's output, written to the file that is sent to the control plane. It is resumed by time: a line that was written
before is known by its time, and by its place among lines of the same time."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
import structlog

from ares.ports.clock import Clock
from ares.ports.kubernetes import KubeRefused, KubeUnavailable, PodApi

_log = structlog.get_logger(__name__)

_AGAIN_S: Final = 0.3
_AGAIN_MAX_S: Final = 5.0
_MARK_EVERY_S: Final = 1.0
# So often a log that is complete is asked for before the rest is given up.
_TRIES: Final = 20
_GONE: Final = 404


class _LogMark(msgspec.Struct):
    """How far the log was read: the time of the last line, how many lines have that time, and the file's size then."""

    at: str = ""
    alike: int = 0
    size: int = 0


class PodLog:
    def __init__(
        self, path: Path, name: str, api: PodApi, clock: Clock, mask: Callable[[bytes], bytes] | None = None
    ) -> None:
        self._name, self._api, self._clock, self._mask = name, api, clock, mask
        self._mark_path = path.with_suffix(".mark")
        self._mark = self._resumed(path)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._marked = clock.monotonic()

    def _resumed(self, path: Path) -> _LogMark:
        """Where an earlier agent was. What it wrote after its last mark is asked for again."""
        try:
            mark = msgspec.json.decode(self._mark_path.read_bytes(), type=_LogMark)
            os.truncate(path, mark.size)
        except (OSError, msgspec.MsgspecError):
            path.unlink(missing_ok=True)
            return _LogMark()
        return mark

    async def follow(self, over: Callable[[], bool]) -> bool:
        """Until the pod is over and all of its log was read. False when the rest cannot be had."""
        tries, pause_s = _TRIES, _AGAIN_S
        while True:
            was_over = over()
            try:
                await self._read()
            except KubeUnavailable:
                tries -= was_over
            except KubeRefused as refusal:
                # Before its container runs there is no log; that of a pod that is gone never will be.
                tries -= was_over if refusal.code != _GONE else tries
            else:
                if was_over:
                    self._write_mark()
                    return True
                pause_s = _AGAIN_S
            if tries <= 0:
                _log.warning("kube.log_incomplete", pod=self._name)
                os.write(self._fd, b"\n[ares: the rest of the output cannot be had from Kubernetes]\n")
                return False
            await self._clock.sleep(pause_s)
            pause_s = _AGAIN_S if was_over else min(_AGAIN_MAX_S, pause_s * 1.5)

    async def _read(self) -> None:
        mark, known = self._mark, self._mark.alike
        # The server knows whole seconds only.
        since = f"{mark.at[:19]}Z" if mark.at else ""
        within = False
        async for line in self._api.log(self._name, since):
            if within:
                # The rest of a line that came in several pieces has no time of its own.
                self._write(line)
                within = not line.endswith(b"\n")
                continue
            stamp, _, text = line.partition(b" ")
            at = stamp.decode("ascii", "replace")
            if at < mark.at or (at == mark.at and known > 0):
                known -= at == mark.at
                continue
            mark.alike = mark.alike + 1 if at == mark.at else 1
            mark.at = at
            self._write(text)
            within = not line.endswith(b"\n")
            if self._clock.monotonic() - self._marked >= _MARK_EVERY_S:
                self._write_mark()

    def _write(self, text: bytes) -> None:
        os.write(self._fd, text if self._mask is None else self._mask(text))

    def _write_mark(self) -> None:
        self._mark.size = os.fstat(self._fd).st_size
        draft = self._mark_path.with_suffix(".new")
        draft.write_bytes(msgspec.json.encode(self._mark))
        draft.replace(self._mark_path)
        self._marked = self._clock.monotonic()

    def close(self) -> None:
        """Where it was is known to the next reader."""
        self._write_mark()
        os.close(self._fd)
