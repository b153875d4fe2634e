"""Checkpoints for code that runs inside a job; `ares.job` has all of it.

Standard library only, so that it can be imported in any job's environment.
"""

import contextlib
import json
import os
import shutil
import tempfile
import threading
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# The file that bytes are saved as.
BYTES_NAME = "data"


class CheckpointLost(RuntimeError):
    """A checkpoint that was waited for could not be kept."""


def restore(*, merged: bool = False) -> Path | None:
    """The directory of the checkpoint to go on from, as it was saved; None: there is none, begin anew. Of a gang that
    has another number of ranks by now, or asks for `checkpoint: {allRanks: true}`, it holds `rank-0/`, `rank-1/` and so
    on; with `merged` the files of all ranks are in one directory, as formats want it that ranks write together."""
    folder = os.environ.get("ARES_RESTORE_DIR", "")
    if not folder or not merged or int(os.environ.get("ARES_RESTORE_RANKS", "1")) == 1:
        return Path(folder) if folder else None
    return _merged(folder)


def checkpoint_due() -> bool:
    """Whether it is time to save one: the interval is over, the job has to leave its place, or its time limit is near.
    It costs one look at a file, so ask in every step. Of a gang, ask on one rank and tell the others."""
    folder = os.environ.get("ARES_CHECKPOINT_DIR", "")
    return bool(folder) and os.path.exists(f"{folder}/.due")


def checkpoint_dir() -> Path:
    """A new directory to write a checkpoint in, on the disk where it is kept until it is uploaded: then `checkpoint`
    only renames it. Time from here on counts as the time the job stood still for it."""
    folder = os.environ.get("ARES_CHECKPOINT_DIR", "")
    if not folder:
        raise RuntimeError(
            "ARES_CHECKPOINT_DIR is not set: submit this with `ares submit --checkpoint -- ...`, "
            "or ask ares.job.in_job() first."
        )
    new = tempfile.mkdtemp(prefix=".new-", dir=folder)
    _began[new] = time.monotonic()
    return Path(new)


def checkpoint(
    saved: str | os.PathLike[str] | bytes,
    *,
    step: int | None = None,
    metrics: Mapping[str, float] | None = None,
    wait: bool = False,
) -> int | None:
    """Saves a checkpoint and returns its number; the job goes on while it is uploaded. `saved` is bytes, a file or a
    directory, which is moved: it is not where it was afterwards. With `wait` it returns when it is kept for good.

    Nothing may change it any more: copy tensors before you hand them to a thread that writes.

    A job that was submitted without --checkpoint is warned, nothing is saved, and None is returned."""
    folder, began = os.environ.get("ARES_CHECKPOINT_DIR", ""), time.monotonic()
    if not folder:
        warnings.warn("no checkpoint is saved: submit the job with `ares submit --checkpoint`", stacklevel=2)
        return None
    if step is not None and step < 0:
        raise ValueError(f"step is {step}, but has to be 0 or more")
    new = _moved_in(folder, saved)
    began = _began.pop(new, began)
    with _numbering:
        seq = _next_number(folder, step)
        told = {"step": step, "metrics": dict(metrics or {}), "takenAt": time.time()}
        told["stallS"] = time.monotonic() - began
        draft = f"{folder}/.note-{seq}"
        with open(draft, "w") as file:
            json.dump({key: value for key, value in told.items() if value is not None}, file, allow_nan=False)
        os.replace(draft, f"{folder}/{seq}.json")
        os.rename(new, f"{folder}/{seq}")
    if wait:
        _wait_until_kept(folder, seq)
    return seq


# By directory: when the job began to write there.
_began: dict[str, float] = {}
_numbering = threading.Lock()
# The newest number of this process.
_newest = [-1]
_LOOK_S = 0.05


def _merged(folder: str) -> Path:
    """Links to the files of all ranks. Processes of one rank may ask for it at once: the first one's is used."""
    ready = f"{folder}/merged"
    if os.path.isdir(ready):
        return Path(ready)
    ranks = [name for name in sorted(os.listdir(folder)) if name.startswith("rank-")]
    if not ranks:
        raise RuntimeError(
            "this rank has its own part of the checkpoint only: submit the job with `checkpoint: {allRanks: true}`."
        )
    draft = tempfile.mkdtemp(prefix=".merged-", dir=folder)
    for rank in ranks:
        for path, _, names in os.walk(f"{folder}/{rank}"):
            below = os.path.relpath(path, f"{folder}/{rank}")
            os.makedirs(f"{draft}/{below}", exist_ok=True)
            for name in names:
                try:
                    os.symlink(f"{path}/{name}", f"{draft}/{below}/{name}")
                except FileExistsError:
                    where = os.path.normpath(f"{below}/{name}")
                    raise RuntimeError(f"several ranks saved a file {where}: they cannot be merged.") from None
    with contextlib.suppress(OSError):
        os.rename(draft, ready)
    return Path(ready)


def _moved_in(folder: str, saved: str | os.PathLike[str] | bytes) -> str:
    """The directory that becomes the checkpoint."""
    if not isinstance(saved, bytes):
        path: str = os.path.abspath(os.fspath(saved))
        if os.path.isdir(path):
            if os.path.dirname(path) == folder:
                return path
            new = tempfile.mkdtemp(prefix=".new-", dir=folder)
            os.rmdir(new)
            shutil.move(path, new)
            return new
        new = tempfile.mkdtemp(prefix=".new-", dir=folder)
        shutil.move(path, new)
        return new
    new = tempfile.mkdtemp(prefix=".new-", dir=folder)
    with open(f"{new}/{BYTES_NAME}", "wb") as file:
        file.write(saved)
    return new


def _next_number(folder: str, step: int | None) -> int:
    """The step where it is given and goes up, so that ranks of a gang agree; else one more than the last."""
    there = [int(name) for name in os.listdir(folder) if name.isascii() and name.isdecimal()]
    last = max(*_newest, int(os.environ.get("ARES_RESTORE_SEQ", "-1")), *there, -1)
    _newest[0] = step if step is not None and step > last else last + 1
    return _newest[0]


def _wait_until_kept(folder: str, seq: int) -> None:
    while True:
        told: dict[str, Any] = {}
        with contextlib.suppress(OSError, ValueError), open(f"{folder}/.status", "rb") as file:
            told = json.load(file)
        if told.get("saved", -1) >= seq:
            return
        if told.get("failed", -1) >= seq:
            raise CheckpointLost(f"checkpoint {seq} could not be kept: {told.get('why', '')}")
        time.sleep(_LOOK_S)
