"""The node's own credential, traded once for a join token."""

import os
from pathlib import Path

from ares.model.link import JoinRequest
from ares.ports.link import Link

_FILE = "credential"
_BOOT_FILE = "boot"


class DamagedCredential(Exception):
    """The file holds what no control plane has issued."""

    fix = "remove it, make a join token with `ares token join` and start the agent with it"

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is damaged: it is no credential")


def load(state_dir: Path) -> str | None:
    """The saved credential, None when this node has not joined yet."""
    path = state_dir / _FILE
    try:
        saved = path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise DamagedCredential(path) from None
    if not saved.isprintable() or " " in saved:
        raise DamagedCredential(path)
    return saved or None


def begin_boot(state_dir: Path, wall_s: float) -> int:
    """A number greater than that of every earlier agent of this node. Time carries on where the file was lost."""
    path = state_dir / _BOOT_FILE
    try:
        before = int(path.read_text())
    except (FileNotFoundError, ValueError):
        before = 0
    boot = max(before + 1, int(wall_s * 1000))
    _write_private(path, f"{boot}\n")
    return boot


async def join(link: Link, *, token: str, node: str, state_dir: Path) -> str:
    """Trades the token and saves what came back, readable by the agent's user alone."""
    reply = await link.join(JoinRequest(token=token, node=node))
    save(reply.credential, state_dir)
    return reply.credential


def save(credential: str, state_dir: Path) -> None:
    state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    _write_private(state_dir / _FILE, credential + "\n")


def _write_private(path: Path, text: str) -> None:
    """Whole or not at all, readable by the agent's user alone."""
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
