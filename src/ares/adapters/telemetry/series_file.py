"""Series over time on disk: one file, replaced whole."""

import io
import json
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import structlog

from ares.core.series import RINGS, SERIES_KEPT_MAX, SeriesKey, SeriesRings

log = structlog.get_logger()

# Of a file that this version wrote; a larger one is not read at all.
_BYTES_MAX = 64 << 20


class SeriesFile:
    """What is lost when it cannot be written or read is the past of some graphs: that is logged, and nothing else."""

    def __init__(self, path: Path, take_room: Callable[[int], None]) -> None:
        """`take_room` raises OSError when so many bytes would touch what the disk keeps for the store."""
        self._path = path
        self._take_room = take_room

    def save(self, rings: SeriesRings) -> None:
        new = self._path.with_suffix(".new")
        try:
            # Of a process that was killed while it wrote.
            new.unlink(missing_ok=True)
            raw = encoded(rings)
            self._take_room(len(raw))
            with new.open("wb") as file:
                file.write(raw)
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._path)
        except OSError as error:
            log.warning("series.unsaved", path=str(self._path), error=str(error))
            with suppress(OSError):
                new.unlink(missing_ok=True)

    def load(self) -> SeriesRings | None:
        try:
            if self._path.stat().st_size > _BYTES_MAX:
                raise ValueError(f"it is larger than {_BYTES_MAX:,} bytes")
            return decoded(self._path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            log.warning("series.unreadable", path=str(self._path), error=str(error))
            return None


def encoded(rings: SeriesRings) -> bytes:
    arrays: dict[str, Any] = {f"ring{number}": ring.values for number, ring in enumerate(rings.rings)}
    names = json.dumps([[name, labels] for name, labels in rings.rows]).encode()
    newest = np.array([ring.newest for ring in rings.rings], np.int64)
    out = io.BytesIO()
    np.savez(out, newest=newest, names=np.frombuffer(names, np.uint8), **arrays)
    return out.getvalue()


def decoded(raw: bytes) -> SeriesRings:
    """Raises ValueError. Nothing in it is believed: names and sizes are checked."""
    try:
        with np.load(io.BytesIO(raw), allow_pickle=False) as kept:
            keys = list(_keys(json.loads(bytes(kept["names"]))))
            newest = [int(step) for step in kept["newest"]]
            values = [np.asarray(kept[f"ring{number}"], np.float32) for number in range(len(RINGS))]
    except Exception as error:
        # Of damaged bytes the libraries that read them say many things, down to errors of syntax.
        raise ValueError(f"{type(error).__name__}: {error}") from error
    shapes = [(len(keys), shape.steps) for shape in RINGS]
    if len(newest) != len(RINGS) or [array.shape for array in values] != shapes or len(keys) > SERIES_KEPT_MAX:
        raise ValueError("the rings are of other sizes")
    found = SeriesRings()
    found.rows = {key: row for row, key in enumerate(keys)}
    if len(found.rows) != len(keys):
        raise ValueError("two series have one name")
    for ring, array, step in zip(found.rings, values, newest, strict=True):
        ring.grow(len(keys))
        ring.values, ring.newest = array.copy(), max(0, step)
    return found


def _keys(names: Iterable[tuple[str, Iterable[tuple[str, str]]]]) -> Iterable[SeriesKey]:
    for name, labels in names:
        yield str(name), tuple((str(label), str(value)) for label, value in labels)
