"""The file that gives clients on the machine the server's address and a token: mode 0600, JSON."""

import contextlib
import json
import os
from pathlib import Path
from typing import Any, cast

_FILE = "client.json"
# A token that is about to become valid. Clients do not read it.
DRAFT = "draft"


def read(home: Path) -> dict[str, Any]:
    """What the server left, empty when it has left nothing."""
    with contextlib.suppress(OSError, ValueError):
        known = json.loads((home / _FILE).read_text())
        if isinstance(known, dict):
            return cast("dict[str, Any]", known)
    return {}


def connection(home: Path) -> tuple[str, str] | None:
    """The URL and token for clients on this machine, once the server has left them."""
    known = read(home)
    return (known["url"], known["token"]) if "url" in known and "token" in known else None


def write(home: Path, **values: str) -> None:
    """Adds or replaces values, or with an empty one removes it, atomically; only the owner may read them."""
    path = home / _FILE
    known = read(home)
    wanted = {name: value for name, value in {**known, **values}.items() if value}
    if known == wanted:
        return
    replace(path, json.dumps(wanted).encode())


def replace(path: Path, data: bytes, mode: int = 0o600) -> None:
    """All of the file or none of it, also after a power cut; only the owner may read it, unless `mode` says more."""
    fresh = path.with_suffix(f".{os.getpid()}.tmp")
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
