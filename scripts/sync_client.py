#!/usr/bin/env python3
"""Writes the blocking client from the asynchronous one: the same text, word by word, without waiting.

python scripts/sync_client.py    after a change of src/ares/edge/client/aio.py; `make fmt` does it too
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CLIENT = ROOT / "src" / "ares" / "edge" / "client"
SOURCE, TARGET = CLIENT / "aio.py", CLIENT / "sync.py"

# What the asynchronous client says, and what the blocking one says in its place; the first that fits counts.
WORDS = {
    "The async client. The blocking one, sync.py, is written from this file by scripts/sync_client.py.": (
        "The blocking client, written from aio.py by scripts/sync_client.py: changes belong there."
    ),
    "answers, from one event loop": "answers; may be shared by threads",
    "async ": "",
    "await ": "",
    "asyncio": "time",
    "anext": "next",
    "aclose": "close",
    "aread": "read",
    "aiter_bytes": "iter_bytes",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    # AsyncIterator, httpx2.AsyncClient, AsyncAlertMethods and the class itself.
    "Async": "",
}
_ANY = re.compile(rf"\b({'|'.join(map(re.escape, WORDS))})")


def blocking(source: str) -> str:
    """The source of the blocking client, as `make fmt` would leave it."""
    return _ruff("format", _ruff("check", _ANY.sub(lambda found: WORDS[found[0]], source), "--select=I", "--fix-only"))


def _ruff(command: str, text: str, *options: str) -> str:
    ruff = [str(Path(sys.executable).parent / "ruff"), command, "--no-cache", "--quiet", *options]
    name = ["--stdin-filename", str(TARGET), "-"]
    return subprocess.run([*ruff, *name], cwd=ROOT, input=text, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    TARGET.write_text(blocking(SOURCE.read_text(encoding="utf-8")), encoding="utf-8")
