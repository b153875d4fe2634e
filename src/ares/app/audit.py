"""`ares audit`: reads the audit chains of this machine without a server, and opens the chain of a server."""

import asyncio
import os
import re
from pathlib import Path
from typing import Any

import msgspec

from ares.adapters.audit.files import FileAudit, FileHeads, read_heads
from ares.adapters.audit.signing import key_file, verify
from ares.adapters.clocks import SystemClock, SystemRng
from ares.adapters.store.open import take_snapshot
from ares.adapters.telemetry.null import NullTelemetry
from ares.api.audit import ChainReport
from ares.app.config import Config
from ares.control.governance.audit import Audit
from ares.control.governance.audit_heads import key_id
from ares.control.state.ids import base32
from ares.core import keys
from ares.core.audit.chain import Sealer, check
from ares.model.audit import AuditDraft, AuditHead, AuditKey, AuditOutcome
from ares.ports.audit import AuditPorts
from ares.ports.clock import Rng
from ares.ports.store import Progress

_NAME_CHARS_MAX = 60


def directory(config: Config) -> Path:
    return config.home_path / "audit"


def ports_of(config: Config, rng: Rng) -> AuditPorts:
    """The chain that a server of this configuration goes on with, and the key that signs its heads."""
    copy = FileHeads(Path(config.audit.copy_to)) if config.audit.copy_to else None
    chain = FileAudit(directory(config), chain_name(config, rng))
    return AuditPorts(chain, key_file(key_path(config)), copy)


def key_path(config: Config) -> Path:
    return config.home_path / "keys" / "audit.key"


def chain_name(config: Config, rng: Rng) -> str:
    """The name of the replica's chain. A replica without a name gets one at its first start, and keeps it."""
    if config.replica:
        return named(config)
    path = directory(config) / "name"
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(f"replica-{base32(rng, 6)}")
    return path.read_text().strip()


def named(config: Config) -> str:
    """What a replica's own name makes of its chain; empty when it has none."""
    return re.sub(r"[^a-z0-9_-]", "-", config.replica.lower())[:_NAME_CHARS_MAX].lstrip("-_")


def note(config: Config, operation: str, *, outcome: AuditOutcome = "ALLOW", reason: str = "") -> None:
    """Records an action on this machine without a server, in a chain of its own. The action is done already, so an
    error of the disk is only logged."""
    who = f"uid:{os.getuid()}"
    asyncio.run(_note(config, AuditDraft(operation=operation, outcome=outcome, reason=reason, user=who)))


async def _note(config: Config, draft: AuditDraft) -> None:
    chain = FileAudit(directory(config), f"{chain_name(config, SystemRng())}-commands")
    audit = Audit(chain, SystemClock(), NullTelemetry(), required=False)
    await audit.open()
    await audit.note(draft)
    await audit.close()


def states(
    config: Config, heads_file: str | None, key: str | None, progress: Progress
) -> tuple[list[dict[str, Any]], list[str]]:
    """What `check_all` finds, as the API would say it."""
    reports, elsewhere = check_all(config, heads_file, key, progress)
    return [msgspec.to_builtins(report) for report in reports], elsewhere


def check_all(
    config: Config, heads_file: str | None, key: str | None, progress: Progress
) -> tuple[list[ChainReport], list[str]]:
    """Every chain that is on this disk, or should be by a signed head, against the store and a copy of heads; and the
    names of chains that are on other machines. With `key`, only what that one signed counts as signed."""
    with take_snapshot(config.store_url, SystemClock(), progress) as snapshot:
        heads = [msgspec.json.decode(kv.value, type=AuditHead) for kv in snapshot.rows(keys.AUDIT_HEADS)]
        public = [msgspec.json.decode(kv.value, type=AuditKey) for kv in snapshot.rows(keys.AUDIT_KEYS)]
    if heads_file is not None:
        heads += [head for head in read_heads(Path(heads_file)) if head not in heads]
    files = FileAudit(directory(config), "")
    here = files.chains()
    gone = {head.chain for head in heads} - set(here)
    sealer = _sealer(config)
    mine = {head.chain for head in heads if sealer is not None and head.key == sealer.key}
    missing = gone if not config.store_url.startswith("etcd:") else gone & (mine | {named(config)})
    trusted = {public_key.id: public_key for public_key in public if key in (None, public_key.id)}

    def look(chain: str) -> ChainReport:
        lines = (line for segment in files.segments(chain) for line in files.lines(segment))
        mine = [head for head in heads if head.chain == chain]
        return check(chain, lines, mine, trusted, verify, files.stub(chain), sealer=sealer)

    # A write of a running server may have been read half-way: a chain with an error is read again.
    reports = [found if (found := look(chain)).whole else look(chain) for chain in (*here, *sorted(missing))]
    return reports, sorted(gone - missing)


def _sealer(config: Config) -> Sealer | None:
    """The key of a server of this configuration, where it may be read."""
    path = key_path(config)
    try:
        own = key_file(path) if path.exists() else None
    except PermissionError:
        return None
    return None if own is None else Sealer(key_id(own.public), own.seal)
