"""The node's own credential, traded once for a join token."""

import os
from pathlib import Path

from ares.model.link import JoinRequest
from ares.ports.link import Link

_FILE = "credential"


def load(state_dir: Path) -> str | None:
    """The saved credential, None when this node has not joined yet."""
    try:
        return (state_dir / _FILE).read_text().strip() or None
    except FileNotFoundError:
        return None


async def join(link: Link, *, token: str, node: str, state_dir: Path) -> str:
    """Trades the token and saves what came back, readable by the agent's user alone."""
    reply = await link.join(JoinRequest(token=token, node=node))
    save(reply.credential, state_dir)
    return reply.credential


def save(credential: str, state_dir: Path) -> None:
    state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = state_dir / f"{_FILE}.new"
    draft.unlink(missing_ok=True)
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w") as file:
        file.write(credential + "\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(state_dir / _FILE)
