"""`ares audit`: the audit chains of this machine, looked at without a server; and where a server keeps its own."""

import asyncio
import re
from pathlib import Path
from typing import Any

import msgspec

from ares.adapters.audit.files import FileAudit, FileHeads, read_heads
from ares.adapters.audit.signing import key_file, verify
from ares.adapters.clocks import SystemClock, SystemRng
from ares.adapters.store.open import take_snapshot
from ares.adapters.telemetry.null import NullTelemetry
from ares.app.config import Config
from ares.core import keys
from ares.core.audit.verify import ChainReport, check
from ares.model.audit import AuditDraft, AuditHead, AuditKey
from ares.ports.audit import AuditPorts
from ares.ports.clock import Rng
from ares.ports.snapshot import Progress
from ares.services.audit import Audit
from ares.services.ids import base32

_NAME_CHARS_MAX = 60


def directory(config: Config) -> Path:
    return config.home_path / "audit"


def ports_of(config: Config, rng: Rng) -> AuditPorts:
    """The chain that a server of this configuration goes on with, and the key that signs its heads."""
    copy = FileHeads(Path(config.audit.copy_to)) if config.audit.copy_to else None
    chain = FileAudit(directory(config), chain_name(config, rng))
    return AuditPorts(chain, key_file(config.home_path / "keys" / "audit.key"), copy)


def chain_name(config: Config, rng: Rng) -> str:
    """The replica's name. One that has none gets one for its chain, for good: the next start goes on with it."""
    if config.replica:
        return re.sub(r"[^a-z0-9_-]", "-", config.replica.lower())[:_NAME_CHARS_MAX].lstrip("-_") or "replica"
    path = directory(config) / "name"
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(f"replica-{base32(rng, 6)}")
    return path.read_text().strip()


def note(config: Config, draft: AuditDraft) -> None:
    """Records what is done on this machine without a server, in a chain of its own."""
    asyncio.run(_note(config, draft))


async def _note(config: Config, draft: AuditDraft) -> None:
    chain = FileAudit(directory(config), f"{chain_name(config, SystemRng())}-commands")
    audit = Audit(chain, SystemClock(), NullTelemetry(), replica="", required=config.audit.required)
    await audit.open()
    try:
        await audit.note(draft)
    finally:
        await audit.close()


def states(config: Config, heads_file: str | None, progress: Progress) -> list[dict[str, Any]]:
    """What `check_all` finds, as the API would say it."""
    return [msgspec.to_builtins(report) for report in check_all(config, heads_file, progress)]


def check_all(config: Config, heads_file: str | None, progress: Progress) -> list[ChainReport]:
    """Every chain that is on this disk or that a signed head names, against the store and a copy of heads."""
    with take_snapshot(config.store_url, SystemClock(), progress) as snapshot:
        heads = [msgspec.json.decode(kv.value, type=AuditHead) for kv in snapshot.rows(keys.AUDIT_HEADS)]
        public = [msgspec.json.decode(kv.value, type=AuditKey) for kv in snapshot.rows(keys.AUDIT_KEYS)]
    if heads_file is not None:
        heads += [head for head in read_heads(Path(heads_file)) if head not in heads]
    files = FileAudit(directory(config), "")
    here = files.chains()
    elsewhere = {head.chain for head in heads} - set(here)
    return [
        check(
            chain,
            (line for segment in files.segments(chain) for line in files.lines(segment)),
            [head for head in heads if head.chain == chain],
            {key.id: key for key in public},
            verify,
            files.stub(chain),
        )
        for chain in (*here, *sorted(elsewhere))
    ]
