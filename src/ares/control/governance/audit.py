"""Records who did what, in a chain on this replica's disk. Many writers share one write to the disk."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import structlog

from ares.core.audit.chain import ChainWriter, Seal, entry_of, seal_holds
from ares.core.audit.crowd import Crowd
from ares.model.audit import NO_HASH, AuditDraft
from ares.ports.audit import AuditLog, AuditUnavailable
from ares.ports.clock import Clock
from ares.ports.telemetry import Telemetry

log = structlog.get_logger()

# Lines made and written at a time, so that others get their turn on the loop.
_BATCH_MAX = 500
# Kept for a disk that comes back. What was done is recorded late rather than never.
_OWED_MAX = 10_000
_AGAIN_S = 1.0
# The time between disk writes that entries share. A single entry does not wait.
_PACE_S = 0.008


_LOW = AuditUnavailable("the disk of the audit chain is nearly full", full=True)


def _nobody(draft: AuditDraft) -> None:
    pass


class _PendingEntry(NamedTuple):
    draft: AuditDraft
    at: float
    written: asyncio.Future[None] | None


class Audit:
    """Without a log nothing is recorded, as in simulations. If not `required`, failures are only logged."""

    def __init__(
        self,
        chain: AuditLog | None,
        clock: Clock,
        telemetry: Telemetry,
        *,
        required: bool = True,
        seal: Seal | None = None,
    ) -> None:
        self._log = chain
        self._seal = seal
        # Whether the chain that was found ended with a seal of this key.
        self.found_sealed = True
        self._clock = clock
        self._telemetry = telemetry
        self._required = required
        self._writer = ChainWriter("")
        self._opened = False
        self._began = -_PACE_S
        self._company = False
        self._durable: tuple[int, str, float] = (0, NO_HASH, 0.0)
        self._waiting: list[_PendingEntry] = []
        self._writing: asyncio.Task[None] | None = None
        self._failing: AuditUnavailable | None = None
        self._low: AuditUnavailable | None = None
        self._crowd = Crowd()
        # Told of everything that is noted.
        self.heed: Callable[[AuditDraft], None] = _nobody

    @property
    def refusing(self) -> AuditUnavailable | None:
        """Why nothing that needs a record may be done now."""
        return (self._failing or self._low) if self._required else None

    @property
    def sealed(self) -> bool:
        return self._seal is not None

    @property
    def place(self) -> tuple[int, str, float]:
        """The number, hash and time of the last durable entry."""
        return self._durable

    @property
    def writing(self) -> asyncio.Task[None] | None:
        """What is being written now, if anything is."""
        return None if self._writing is None or self._writing.done() else self._writing

    async def open(self) -> None:
        """Goes on where the chain ends. To be called once, before anything else."""
        if self._log is None:
            return
        try:
            await self._open(self._log)
        except AuditUnavailable as error:
            self._failed([], error)

    async def _open(self, chain: AuditLog) -> None:
        torn = await chain.open()
        self._opened = True
        line, seq, hash_, at = await asyncio.to_thread(_end_of, chain)
        self.found_sealed = self._seal is None or not line or seal_holds(line, self._seal)
        self._writer = ChainWriter(chain.chain, seq, hash_, at, self._seal)
        self._durable = self._writer.place
        if torn:
            self.tell(AuditDraft(operation="auditTorn", outcome="ERROR", reason="torn", counts={"bytes": torn}))

    async def note(self, draft: AuditDraft) -> None:
        """Returns when the entry is durable. Raises AuditUnavailable where recording is required and impossible."""
        if not self._taken(draft):
            return
        written = asyncio.get_running_loop().create_future()
        self._add(draft, written)
        try:
            await written
        except AuditUnavailable:
            if self._required:
                raise

    def tell(self, draft: AuditDraft) -> None:
        """Records without waiting: nothing was done that would have to be undone."""
        if self._taken(draft):
            self._add(draft, None)

    def _taken(self, draft: AuditDraft) -> bool:
        """Whether it is to be written now."""
        if self._log is None:
            return False
        self.heed(draft)
        return draft.outcome != "DENY" or self._crowd.admit(draft)

    async def run(self) -> None:
        """Writes what was only counted, and tries a failing disk again."""
        while True:
            await self._clock.sleep(_AGAIN_S)
            for draft in self._crowd.over(self._clock.monotonic()):
                self._add(draft, None)
            self._low = None if self._log is None or self._log.has_room() else _LOW
            self._go_on()

    async def settle(self) -> None:
        """Returns when everything is written that can be."""
        for draft in self._crowd.over(self._clock.monotonic(), end=True):
            self._add(draft, None)
        self._go_on()
        if self._writing is not None:
            await asyncio.wait([self._writing])

    async def close(self) -> None:
        await self.settle()
        if self._log is not None:
            await self._log.close()

    # ---- writing

    def _add(self, draft: AuditDraft, written: asyncio.Future[None] | None) -> None:
        self._waiting.append(_PendingEntry(draft, self._clock.wall(), written))
        if self._failing is None:
            self._go_on()
        elif written is not None:
            written.set_exception(self._failing)

    def _go_on(self) -> None:
        if self._waiting and (self._writing is None or self._writing.done()):
            self._writing = asyncio.create_task(self._write(), name="audit")

    async def _write(self) -> None:
        assert self._log is not None
        while self._waiting:
            await self._pace()
            batch, self._waiting = self._waiting[:_BATCH_MAX], self._waiting[_BATCH_MAX:]
            self._company = len(batch) > 1
            try:
                if not self._opened:
                    await self._open(self._log)
                await self._append(self._log, batch)
            except AuditUnavailable as error:
                self._failed(batch, error)
                return
            except Exception as error:
                # A caller must not wait for ever.
                log.exception("audit.failed")
                self._failed(batch, AuditUnavailable(repr(error)))
                return
            self._written(batch)

    async def _pace(self) -> None:
        """Where many come, a write waits for company: each costs the disk the same, however many it is for."""
        early_s = self._began + _PACE_S - self._clock.monotonic()
        if self._company and early_s > 0:
            await self._clock.sleep(early_s)
        self._began = self._clock.monotonic()

    async def _append(self, chain: AuditLog, batch: list[_PendingEntry]) -> None:
        place = seq, _, at = self._writer.place
        last = len(batch) - 1
        lines = [self._writer.line(draft, at, last=n == last) for n, (draft, at, _) in enumerate(batch)]
        try:
            await chain.append(seq + 1, max(at, batch[0].at), lines)
        except BaseException:
            self._writer.back(place)
            raise

    def _written(self, batch: list[_PendingEntry]) -> None:
        if self._failing is not None:
            log.info("audit.resumed", entries=len(batch))
            self._failing = None
        self._durable = self._writer.place
        self._telemetry.count("ares_audit_entries_total", len(batch))
        for _, _, written in batch:
            if written is not None and not written.done():
                written.set_result(None)

    def _failed(self, batch: list[_PendingEntry], error: AuditUnavailable) -> None:
        if self._failing is None:
            log.error("audit.unavailable", error=str(error), required=self._required)
        self._failing = error
        # Something to try again with.
        nothing = _PendingEntry(
            AuditDraft(operation="auditResume", outcome="ERROR", reason="audit"), self._clock.wall(), None
        )
        owed = [*batch, *self._waiting] or [nothing]
        for _, _, written in owed:
            if written is not None and not written.done():
                written.set_exception(error)
        if (lost := len(owed) - _OWED_MAX) > 0:
            self._telemetry.count("ares_audit_lost_total", lost)
            # Denials are dropped first: a flood of denied requests must not push out entries about real actions.
            owed.sort(key=lambda waiting: waiting.draft.outcome == "DENY")
        self._waiting = owed[:_OWED_MAX]


def _end_of(chain: AuditLog) -> tuple[bytes, int, str, float]:
    """The last whole entry's line, and its place."""
    for segment in reversed(chain.segments(chain.chain)):
        for line in reversed(list(chain.lines(segment))):
            if (entry := entry_of(line)) is not None:
                return line, entry.seq, entry.hash, entry.at
    stub = chain.stub(chain.chain)
    return (b"", 0, NO_HASH, 0.0) if stub is None else (b"", stub.seq, stub.hash, stub.at)
