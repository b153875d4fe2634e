"""Checkpoints as agents save them."""

import hashlib
from typing import Any

from ares.model.checkpoint import Checkpointed
from ares.model.link import OutputChunk, Start
from tests.agents import ScriptedAgent, output


def save(agent: ScriptedAgent, start: Start, seq: int, **more: Any) -> Checkpointed:
    """Sends the file of a rank's checkpoint. Returns the report of it, to be sent when the file is kept."""
    rank = start.placement.rank
    data = f"{rank} {seq}".encode()
    sha256 = hashlib.sha256(data).hexdigest()
    agent.send(OutputChunk(ref=start.ref, rank=rank, sha256=sha256, size=len(data), offset=0, data=data, seq=seq))
    told: dict[str, Any] = {"step": seq, "taken_at": 1.0, **more}
    return Checkpointed(number=agent.number(), ref=start.ref, rank=rank, seq=seq, files=(output("w", data),), **told)
