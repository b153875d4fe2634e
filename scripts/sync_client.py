#!/usr/bin/env python3
"""Writes the blocking client from the asynchronous one: the same text, word by word, without waiting.

sync.py is written from aio.py. A group of methods beside the calls it makes, such as `AsyncQuotaMethods` in
calls/quotas.py, is followed by the blocking one.

python scripts/sync_client.py    after a change of src/ares/edge/client; `make fmt` does it too
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CLIENT = ROOT / "src" / "ares" / "edge" / "client"
SOURCE, TARGET = CLIENT / "aio.py", CLIENT / "sync.py"
GROUPS = sorted((CLIENT / "calls").glob("*.py"))

# What the asynchronous client says, and what the blocking one says in its place; the first that fits counts.
WORDS = {
    "The async client. The blocking one, sync.py, is written from this file by scripts/sync_client.py.": (
        "The blocking client, written from aio.py by scripts/sync_client.py: changes belong there."
    ),
    "answers, from one event loop": "answers; may be shared by threads",
    "of the asynchronous client": "of the blocking client, generated",
    "for entry in found.entries:\n                yield entry": "yield from found.entries",
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
# A class with all of its lines, at the top of a module.
_ASYNC_GROUP = re.compile(r"^class Async(\w+Methods)\(AsyncSends\):\n(?:(?: .*)?\n)*", re.MULTILINE)
_BLOCKING_GROUP = re.compile(r"^class \w+Methods\(Sends\):\n(?:(?: .*)?\n)*", re.MULTILINE)


def blocking(source: str) -> str:
    """The source of the blocking client, as `make fmt` would leave it."""
    return _ruff("format", _ruff("check", _blocking(source), "--select=I", "--fix-only"))


def grouped(source: str) -> str:
    """A module of calls with the blocking group behind each asynchronous one."""
    if _ASYNC_GROUP.search(source) is None:
        return source
    alone = _BLOCKING_GROUP.sub("", source)
    return _ruff("format", _ASYNC_GROUP.sub(lambda found: f"{found[0]}\n\n{_blocking(found[0])}\n\n", alone))


def _blocking(source: str) -> str:
    return _ANY.sub(lambda found: WORDS[found[0]], source)


def _ruff(command: str, text: str, *options: str) -> str:
    ruff = [str(Path(sys.executable).parent / "ruff"), command, "--no-cache", "--quiet", *options]
    name = ["--stdin-filename", str(TARGET), "-"]
    return subprocess.run([*ruff, *name], cwd=ROOT, input=text, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    TARGET.write_text(blocking(SOURCE.read_text(encoding="utf-8")), encoding="utf-8")
    for module in GROUPS:
        module.write_text(grouped(module.read_text(encoding="utf-8")), encoding="utf-8")
