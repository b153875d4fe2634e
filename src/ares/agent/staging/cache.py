"""Parts of files that this node has fetched before: `cache/<tenant>/parts/<sha256>`, bounded, the longest unused
removed first.

Tenants share nothing, not even parts of equal content: how soon a file is there would tell of another tenant's files.
"""

import contextlib
import os
import shutil
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

_PARTS: Final = "parts"
_DRAFT: Final = ".draft-"
# After a removal this share of the bound is in use: not every new part needs one.
_LEFT_SHARE: Final = 0.9


class NodeCache:
    """Several threads read at once, and one at a time adds; what is pinned is changed by the agent's loop alone."""

    def __init__(self, root: Path, bytes_max: int) -> None:
        self._root = root
        self._bytes_max = bytes_max
        self._pinned: Counter[str] = Counter()
        # None until what an earlier agent left was counted.
        self._used: int | None = None

    def open(self) -> None:
        """Removes what an agent that was killed had not finished."""
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in self._root.glob(f"*/{_PARTS}/{_DRAFT}*"):
            path.unlink(missing_ok=True)

    def _folder(self, tenant: str) -> Path:
        path = self._root / tenant / _PARTS
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return path

    @contextlib.contextmanager
    def pinned(self, tenant: str, names: Iterable[str]) -> Generator[Path]:
        """The folder of the tenant's parts. Those named are not removed during the block."""
        folder = self._folder(tenant)
        paths = [f"{folder}/{name}" for name in names]
        self._pinned.update(paths)
        try:
            yield folder
        finally:
            self._pinned = self._pinned - Counter(paths)

    def read(self, tenant: str, name: str) -> bytes | None:
        path = self._folder(tenant) / name
        try:
            os.utime(path)
            return path.read_bytes()
        except FileNotFoundError:
            return None

    def lacking(self, tenant: str, parts: Mapping[str, int]) -> dict[str, int]:
        """The parts that are not here, or with another size: adding those replaces them. The others are used now."""
        folder, lacking = self._folder(tenant), dict[str, int]()
        for name, size in parts.items():
            try:
                path = f"{folder}/{name}"
                os.utime(path)
                if os.stat(path).st_size == size:
                    continue
            except FileNotFoundError:
                pass
            lacking[name] = size
        return lacking

    def add(self, tenant: str, name: str, data: bytes) -> None:
        """Keeps a part, whole or not at all. One of that name is replaced, for attempts that open it from now on."""
        self._make_room(len(data))
        folder = self._folder(tenant)
        with contextlib.suppress(FileNotFoundError):
            self._used = max(0, (self._used or 0) - (folder / name).stat().st_size)
        draft = folder / f"{_DRAFT}{name}"
        try:
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o400), "wb") as file:
                file.write(data)
            os.rename(draft, folder / name)
        except BaseException:
            draft.unlink(missing_ok=True)
            self._used = max(0, (self._used or 0) - len(data))
            raise

    def _make_room(self, size: int) -> None:
        if self._used is None:
            self._used = sum(seen.st_size for _, seen in self._all())
        self._used += size
        if self._used <= self._bytes_max:
            return
        for path, seen in sorted(self._all(), key=lambda found: found[1].st_mtime_ns):
            if self._used <= self._bytes_max * _LEFT_SHARE:
                break
            if not self._pinned[path]:
                os.unlink(path)
                self._used -= seen.st_size

    def _all(self) -> Iterator[tuple[str, os.stat_result]]:
        for path in self._root.glob(f"*/{_PARTS}/*"):
            with contextlib.suppress(FileNotFoundError):
                yield str(path), path.stat()

    def free_bytes(self) -> int:
        return shutil.disk_usage(self._root).free
