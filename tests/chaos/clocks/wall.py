"""A wall clock of its own for a process: jumps while it runs, and no other clock moves with it."""

import importlib.util
from pathlib import Path

_LIBRARY = "vendor/libfaketime/src/libfaketime.so.1"


class Wall:
    """The wall clock of whoever runs with `env`. Children, such as jobs, see it too."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.set(0)

    @property
    def env(self) -> dict[str, str]:
        found = importlib.util.find_spec("libfaketime")
        assert found is not None, "libfaketime is missing; `scripts/setup test` installs it"
        assert found.origin is not None
        return {
            "LD_PRELOAD": str(Path(found.origin).parent / _LIBRARY),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def set(self, offset_s: float) -> None:
        """How far it is ahead. Whole at every moment: who reads it sees the old or the new."""
        draft = self._file.with_suffix(".new")
        draft.write_text(f"{offset_s:+.3f}\n")
        draft.replace(self._file)
