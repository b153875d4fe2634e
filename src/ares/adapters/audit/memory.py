"""An audit chain in memory: for tests and simulations."""

from collections.abc import Iterator, Sequence

from ares.model.audit import AuditStub
from ares.ports.audit import AuditUnavailable, Segment

SEGMENT_LINES = 1000


class MemoryAudit:
    """`ports.audit.AuditLog`. `failing` makes it a disk that takes nothing."""

    def __init__(self, chain: str = "memory", segment_lines: int = SEGMENT_LINES) -> None:
        self.chain = chain
        self.failing: AuditUnavailable | None = None
        self._segment_lines = segment_lines
        self.kept: dict[Segment, list[bytes]] = {}
        self._stub: AuditStub | None = None
        self._newest: Segment | None = None

    async def open(self) -> int:
        # As with files, each process begins a segment.
        self._newest = None
        return 0

    async def append(self, first: int, at: float, lines: Sequence[bytes]) -> None:
        if self.failing is not None:
            raise self.failing
        newest = self._newest
        if newest is None or len(self.kept[newest]) >= self._segment_lines:
            self._newest = newest = Segment(self.chain, first, at)
            self.kept[newest] = []
        self.kept[newest].extend(lines)

    def chains(self) -> Sequence[str]:
        return (self.chain,) if self.kept or self._stub else ()

    def segments(self, chain: str) -> Sequence[Segment]:
        return [segment for segment in self.kept if segment.chain == chain]

    def lines(self, segment: Segment) -> Iterator[bytes]:
        return iter(tuple(self.kept.get(segment, ())))

    def has_room(self) -> bool:
        return self.failing is None

    def stub(self, chain: str) -> AuditStub | None:
        return self._stub if chain == self.chain else None

    async def cut(self, stub: AuditStub) -> int:
        self._stub = stub
        gone = [
            segment for segment, lines in self.kept.items()
            if segment.seq + len(lines) - 1 <= stub.seq and segment != max(self.kept)
        ]  # fmt: skip
        for segment in gone:
            del self.kept[segment]
        return len(gone)

    async def close(self) -> None:
        self._newest = None
