"""The file by which a server tells clients on its machine where it is and who they are: 0600, JSON."""

import contextlib
import json
import os
from pathlib import Path
from typing import Any

_FILE = "client.json"


def read(home: Path) -> dict[str, Any]:
    """What the server left, empty when it has left nothing."""
    with contextlib.suppress(OSError, ValueError):
        return json.loads((home / _FILE).read_text())
    return {}


def connection(home: Path) -> tuple[str, str] | None:
    """The URL and token for clients on this machine, once the server has left them."""
    known = read(home)
    return (known["url"], known["token"]) if "url" in known and "token" in known else None


def write(home: Path, **values: str) -> None:
    """Adds or replaces values, atomically; only the owner may read them."""
    path = home / _FILE
    known = read(home)
    if known == {**known, **values}:
        return
    fresh = path.with_suffix(f".{os.getpid()}.tmp")
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump({**known, **values}, file)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
