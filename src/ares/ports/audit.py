"""Where audit entries are kept: one chain of lines per replica, in segments, appended to and never changed."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from ares.model.audit import AuditHead, AuditStub


class AuditUnavailable(Exception):
    """Nothing can be recorded now: the disk is full or failing. Nothing of the call that raised this was kept."""

    def __init__(self, why: str, *, full: bool = False) -> None:
        super().__init__(why)
        self.full = full


class Segment(NamedTuple):
    """A run of entries of one chain: the first one's number, and when it was begun."""

    chain: str
    seq: int
    at: float


class AuditLog(Protocol):
    """Only `append` and `cut` are about the replica's own chain; the rest reads any chain that is here."""

    chain: str

    async def open(self) -> int:
        """Makes the chain ready for appending. A last line that is not whole is cut off: returns its bytes."""
        ...

    async def append(self, first: int, at: float, lines: Sequence[bytes]) -> None:
        """Adds lines, numbered from `first` on; they are durable when this returns. Raises AuditUnavailable."""
        ...

    def chains(self) -> Sequence[str]: ...

    def segments(self, chain: str) -> Sequence[Segment]:
        """The segments of a chain, in order."""
        ...

    def lines(self, segment: Segment) -> Iterator[bytes]:
        """The segment's lines in order, with their line feeds, which a line that was never finished has not. None
        when the segment is gone meanwhile."""
        ...

    def has_room(self) -> bool:
        """Whether the disk has room for more than a few entries."""
        ...

    def stub(self, chain: str) -> AuditStub | None:
        """Where the chain begins, if its older entries were removed after their time."""
        ...

    async def cut(self, stub: AuditStub) -> int:
        """Removes the segments that end with the stub's entry or before, and says where the chain begins now; returns
        how many were removed. The newest segment stays."""
        ...

    async def close(self) -> None: ...


class Signer(Protocol):
    """Signs heads, and checks signatures of any key."""

    public: str

    def sign(self, message: bytes) -> str: ...

    def seal(self, message: bytes) -> str:
        """64 hexadecimal digits that cannot be made without the key: for what is written often."""
        ...

    def verify(self, public: str, message: bytes, signature: str) -> bool: ...


class HeadCopy(Protocol):
    """A further place for heads, beside the store of record."""

    def keep(self, head: AuditHead) -> None: ...


class AuditPorts(NamedTuple):
    """All ports that recording needs."""

    chain: AuditLog
    signer: Signer
    copy: HeadCopy | None = None
