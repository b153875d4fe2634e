"""Signs how far the audit chain has come and keeps that in the store; removes what is older than it must be."""

import asyncio
import base64
import hashlib
from collections.abc import Iterator
from itertools import pairwise

import msgspec
import structlog

from ares.api.audit import ChainReport
from ares.control.governance.alerts import Alerts
from ares.control.governance.audit import Audit
from ares.control.state.view import View
from ares.core import keys
from ares.core.audit.chain import Sealer, check, entry_of, signed_bytes, superfluous
from ares.model.audit import AuditDraft, AuditHead, AuditKey, AuditStub
from ares.ports.audit import AuditLog, AuditPorts, AuditUnavailable, Segment
from ares.ports.clock import Clock
from ares.ports.store import Committed, Compare, Delete, Op, Put, Store, StoreError, StoreUnavailable

log = structlog.get_logger()

ENTRIES_MAX = 1000
# What came after the newest head can be rewritten with access to files alone: a head is worth one small write.
SECONDS_MAX = 2.0
_LOOK_EVERY_S = 1.0
_HOUR_S = 3600.0
_DAY_S = 86_400.0
# The self-check goes over what came in this time.
_CHECKED_S = 2 * _DAY_S
# More than a clock that is being corrected gains.
_JUMP_S = 3600.0
# Of a key's digest: enough to know a key by its id alone.
_KEY_CHARS = 32
# How long the answer to whether all chains hold is good enough for many, and how much longer than it took.
_STALE_S = 10.0
_REST = 20.0
# Heads deleted with one that is written.
_DROPS_MAX = 20


class AuditHeads:
    """Of this replica's own chain."""

    def __init__(
        self,
        audit: Audit,
        ports: AuditPorts,
        store: Store,
        view: View,
        clock: Clock,
        alerts: Alerts,
        *,
        keep_s: float,
        keeping: Clock | None = None,
    ) -> None:
        self._keeping = keeping or clock
        self._audit = audit
        self._log, self._signer, self._copy = ports
        self._store = store
        self._view = view
        self._clock = clock
        self._alerts = alerts
        self._keep_s = keep_s
        self.key = key_id(self._signer.public)
        self._last: AuditHead | None = None
        self._verifying: asyncio.Task[tuple[ChainReport, ...]] | None = None
        # Until when the last answer is good enough for many.
        self._stale_at = 0.0
        self._signed_at = clock.monotonic()
        self._looked = (clock.wall(), clock.monotonic())

    async def open(self) -> None:
        """After the chain is open and the view has caught up: is all there that was signed?"""
        await self._keep_key()
        mine = self.known(self._log.chain)
        self._last = max(mine, key=lambda head: (head.at, head.seq), default=None)
        seq, hash_, _ = self._audit.place
        last = self._last
        if last is None or (seq, hash_) == (last.seq, last.hash):
            return
        if seq <= last.seq:
            self._audit.tell(
                AuditDraft(
                    operation="auditShort", outcome="ERROR", reason="chain", object=f"audit/{self._log.chain}",
                    counts={"missing": last.seq - seq},
                )
            )  # fmt: skip
            await self._broken(f"{last.seq - seq} entries that were signed are not on the disk", last.seq - seq)
        elif last.sealed and last.key == self.key and not self._audit.found_sealed:
            self._audit.tell(
                AuditDraft(
                    operation="auditUnsealed", outcome="ERROR", reason="chain", object=f"audit/{self._log.chain}",
                    counts={"after": last.seq},
                )
            )  # fmt: skip
            await self._broken(f"what follows entry {last.seq} was changed, or a crash cut a write short", 0)

    def known(self, chain: str) -> list[AuditHead]:
        prefix = f"{chain}/"
        return [head for name, head in self._view.kept.audit_heads.items() if name.startswith(prefix)]

    async def run(self) -> None:
        hour = day = self._clock.monotonic()
        while True:
            await self._clock.sleep(_LOOK_EVERY_S)
            now = self._clock.monotonic()
            try:
                if self._due(now):
                    await self.sign()
                if now - hour >= _HOUR_S:
                    hour = now
                    await self.expire()
                if now - day >= _DAY_S:
                    day = now
                    await self.check_recent()
            except (StoreError, AuditUnavailable, OSError) as error:
                log.warning("audit.heads_delayed", error=str(error))

    async def close(self) -> None:
        """The last head, if the store takes it."""
        try:
            await self.sign()
        except (StoreError, OSError) as error:
            log.warning("audit.heads_delayed", error=str(error))

    # ---- heads

    def _due(self, now: float) -> bool:
        since = self._audit.place[0] - (0 if self._last is None else self._last.seq)
        return since >= ENTRIES_MAX or (since != 0 and now - self._signed_at >= SECONDS_MAX)

    async def sign(self) -> AuditHead | None:
        """Signs and keeps the head as it is now; None when that was done before."""
        seq, hash_, at = self._audit.place
        last = self._last
        if seq == 0 or (last is not None and (last.seq, last.hash) == (seq, hash_)):
            return None
        drafted = AuditHead(
            chain=self._log.chain, seq=seq, hash=hash_, at=max(at, self._clock.wall()),
            previous=0 if last is None else last.seq, key=self.key,
            sealed=self._audit.sealed,
        )  # fmt: skip
        head = msgspec.structs.replace(drafted, signature=self._signer.sign(signed_bytes(drafted)))
        key = keys.audit_head(head.chain, head.seq)
        drops = superfluous(self.known(head.chain), head.at, self._keep_s)[:_DROPS_MAX]
        ops: list[Op] = [
            Put(key, msgspec.json.encode(head)), *(Delete(keys.audit_head(old.chain, old.seq)) for old in drops)
        ]  # fmt: skip
        # Never over another with its number: that one says that entries are missing.
        written = await self._store.txn([Compare(key, "mod_revision", 0)], ops)
        if not isinstance(written, Committed):
            raise StoreUnavailable("the store did not confirm the head of the audit chain")
        self._signed_at = self._clock.monotonic()
        self._last = head
        if self._copy is not None:
            await asyncio.to_thread(self._copy.keep, head)
        return head

    async def _keep_key(self) -> None:
        record = AuditKey(
            id=self.key, chain=self._log.chain, public=self._signer.public, created_at=self._clock.wall()
        )  # fmt: skip
        name = keys.audit_key(self.key)
        written = await self._store.txn([Compare(name, "mod_revision", 0)], [Put(name, msgspec.json.encode(record))])
        if not isinstance(written, Committed):
            raise StoreUnavailable("the store did not confirm the key of the audit chain")

    # ---- retention

    async def expire(self) -> int:
        """Removes whole segments that are older than they must be; the stub says where the chain begins then."""
        if not self._plausible():
            return 0
        before = self._keeping.wall() - self._keep_s
        segments = self._log.segments(self._log.chain)
        old = [segment for segment, after in pairwise(segments) if after.at < before]
        if not old:
            return 0
        end = await asyncio.to_thread(_last_of, self._log, old[-1])
        if end is None:
            return 0
        drafted = AuditStub(
            chain=self._log.chain, seq=end.seq, hash=end.hash, at=self._clock.wall(), key=self.key
        )  # fmt: skip
        stub = msgspec.structs.replace(drafted, signature=self._signer.sign(signed_bytes(drafted)))
        await self._audit.note(
            AuditDraft(operation="auditExpire", outcome="ALLOW", object=f"audit/{stub.chain}", counts={"to": stub.seq})
        )
        return await self._log.cut(stub)

    def _plausible(self) -> bool:
        """Whether the wall clock went on as time did since the last look: a wrong one would remove everything."""
        (wall, monotonic), self._looked = self._looked, (self._clock.wall(), self._clock.monotonic())
        jumped_s = (self._looked[0] - wall) - (self._looked[1] - monotonic)
        if jumped_s > _JUMP_S:
            log.warning("audit.clock_jumped", ahead_s=round(jumped_s))
        return jumped_s <= _JUMP_S

    # ---- verification

    async def verify_all(self, *, fresh: bool = True) -> tuple[ChainReport, ...]:
        """Verifies all chains on this disk. Calls while it is under way share its answer. A call that is not `fresh`
        also takes a recent answer; the longer the verification took, the longer its answer is valid."""
        under_way = self._verifying is not None and not self._verifying.done()
        good = not fresh and self._clock.monotonic() < self._stale_at
        if self._verifying is None or not (under_way or good):
            self._verifying = asyncio.create_task(self._verify_all(), name="audit verify")
        return await asyncio.shield(self._verifying)

    async def _verify_all(self) -> tuple[ChainReport, ...]:
        began = self._clock.monotonic()
        reports = tuple([await self.verify(chain) for chain in self._log.chains()])
        took_s = self._clock.monotonic() - began
        self._stale_at = began + took_s + max(_STALE_S, _REST * took_s)
        return reports

    async def verify(self, chain: str, *, since: float = 0.0) -> ChainReport:
        """Walks a chain that is on this disk, or only its segments of some time."""
        found = await asyncio.to_thread(self._verify, chain, since)
        # A write that was under way may have been seen by halves.
        return found if found.whole else await asyncio.to_thread(self._verify, chain, since)

    def _verify(self, chain: str, since: float) -> ChainReport:
        segments = self._log.segments(chain)
        recent = [
            segment for place, segment in enumerate(segments)
            if place + 1 == len(segments) or segments[place + 1].at >= since
        ]  # fmt: skip
        # Its own word for where it begins is taken, unless that is the beginning of all.
        first = recent[0] if len(recent) < len(segments) else None
        begins = None if first is None else _before(self._log, first)
        # Read before the lines: what is signed later is no business of this walk.
        heads = [head for head in self.known(chain) if begins is None or head.seq > begins.seq]
        keys_ = dict(self._view.kept.audit_keys)
        lines = _all_lines(self._log, recent)
        sealer = Sealer(self.key, self._signer.seal)
        return check(chain, lines, heads, keys_, self._signer.verify, self._log.stub(chain), begins, sealer)

    async def check_recent(self) -> None:
        """The daily look at what came lately."""
        for chain in self._log.chains():
            found = await self.verify(chain, since=self._clock.wall() - _CHECKED_S)
            if not found.whole:
                await self._broken(f"chain {chain} does not hold at entry {found.broken}: {found.why}", found.missing)

    async def _broken(self, text: str, missing: int) -> None:
        await self._alerts.raise_(
            "audit-chain",
            "",
            self._log.chain,
            f"{text}; look with `ares audit verify`",
            {"missing": missing},
            "critical",
        )


def key_id(public: str) -> str:
    return hashlib.sha256(base64.b64decode(public)).hexdigest()[:_KEY_CHARS]


def _all_lines(chain: AuditLog, segments: list[Segment]) -> Iterator[bytes]:
    for segment in segments:
        yield from chain.lines(segment)


def _last_of(chain: AuditLog, segment: Segment) -> AuditHead | None:
    """The segment's last entry, as the place where something ends."""
    lines = list(chain.lines(segment))
    entry = entry_of(lines[-1]) if lines else None
    return None if entry is None else AuditHead(chain=segment.chain, seq=entry.seq, hash=entry.hash, at=entry.at)


def _before(chain: AuditLog, segment: Segment) -> AuditHead | None:
    line = next(chain.lines(segment), b"")
    entry = entry_of(line)
    return None if entry is None else AuditHead(chain=segment.chain, seq=entry.seq - 1, hash=entry.prev, at=0.0)
