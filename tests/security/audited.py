"""What the audit chain of a world in this process says."""

import asyncio

from ares.adapters.audit.memory import MemoryAudit
from ares.core.audit.chain import entry_of
from ares.model.audit import AuditEntry
from tests.integration.api.world import World


def entries(world: World) -> list[AuditEntry]:
    """All of them, the oldest first."""
    chain: MemoryAudit = world.chain
    lines = [line for segment in chain.segments(chain.chain) for line in chain.lines(segment)]
    found = [entry_of(line) for line in lines]
    assert None not in found, "a line that is no entry"
    return [entry for entry in found if entry is not None]


async def last_entry(world: World) -> AuditEntry:
    """The newest entry. Those of strangers are written without the stranger waiting: they get their turn first."""
    await asyncio.sleep(0)
    while (writing := world.services.audit.writing) is not None:
        await writing
    return entries(world)[-1]
