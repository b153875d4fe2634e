"""Directories of attempts: `attempts/<job>.<fence>.<rank>/` with the private `work/` and the files beside it."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from ares.model.link import AttemptRef


@dataclass(frozen=True, slots=True)
class Folder:
    """One attempt's directory."""

    path: str

    @property
    def work(self) -> str:
        return f"{self.path}/work"

    @property
    def log(self) -> str:
        return f"{self.path}/log"

    @property
    def result(self) -> str:
        return f"{self.path}/result.json"

    @property
    def progress(self) -> str:
        return f"{self.path}/progress.json"

    def create(self) -> None:
        os.mkdir(self.path, 0o700)
        os.mkdir(self.work, 0o700)

    def remove_small(self) -> bool:
        """The usual case, an empty working directory, without a walk. False when there is more."""
        try:
            os.rmdir(self.work)
            for name in os.listdir(self.path):
                os.unlink(f"{self.path}/{name}")
            os.rmdir(self.path)
        except OSError:
            return False
        return True

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


class Workspace:
    def __init__(self, state_dir: Path) -> None:
        self._root = state_dir / "attempts"

    def clear(self) -> None:
        """Whatever an earlier process left belongs to an older incarnation."""
        shutil.rmtree(self._root, ignore_errors=True)
        self._root.mkdir(parents=True, mode=0o700, exist_ok=True)

    def folder(self, ref: AttemptRef, rank: int) -> Folder:
        return Folder(f"{self._root}/{ref.job}.{ref.fence}.{rank}")
