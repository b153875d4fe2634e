"""Whether a chain is whole: its links, the signatures of its heads, and that nothing is missing that was signed."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from ares.core.audit.chain import Broken, Walk, signed_bytes
from ares.model.audit import AuditHead, AuditKey, AuditStub
from ares.model.base import Record

# Public key, message, signature.
Verify = Callable[[str, bytes, str], bool]


class ChainReport(Record, frozen=True, omit_defaults=False):
    """What was found. The chain is whole if `broken` is empty and every head is signed."""

    chain: str
    # Numbers of the first and the last entry that hold.
    begins: int
    ends: int
    ends_at: float
    # Of the newest signed head; 0 when there is none. What comes after it could be cut off unnoticed.
    signed: int
    heads: int
    # The first broken link, and why; 0 and nothing for none.
    broken: int = 0
    why: str = ""
    missing: int = 0
    # Numbers of heads whose signature does not hold.
    unsigned: tuple[int, ...] = ()
    keys: tuple[str, ...] = ()
    # Bytes after the last whole line: of an entry that was never finished, and so never answered.
    torn: int = 0

    @property
    def whole(self) -> bool:
        return not self.broken and not self.unsigned


def check(
    chain: str,
    lines: Iterable[bytes],
    heads: Sequence[AuditHead],
    keys: Mapping[str, AuditKey],
    verify: Verify,
    stub: AuditStub | None = None,
    begins: AuditHead | None = None,
) -> ChainReport:
    """`begins` starts in the middle: after that entry. Otherwise the stub or the first entry is the beginning."""

    def holds(head: AuditHead) -> bool:
        key = keys.get(head.key)
        return key is not None and head.chain == chain and verify(key.public, signed_bytes(head), head.signature)

    walk = Walk(chain, begins or stub)
    signed = [head for head in heads if holds(head)]
    walk.mark(frozenset(head.seq for head in signed))
    torn = 0
    for line in lines:
        # What follows an unfinished line makes it a broken one.
        if torn:
            walk.take(b"")
        torn = 0 if line.endswith(b"\n") else len(line)
        if not torn:
            walk.take(line)
    walk.compare(signed)
    broken = walk.broken
    if begins is None and stub is not None and not holds(stub):
        broken = Broken(chain, walk.begins, "the chain begins here, and nobody signed that what was before may be gone")
    return ChainReport(
        chain=chain,
        begins=walk.begins,
        ends=walk.seq,
        ends_at=walk.at,
        signed=max((head.seq for head in signed), default=0),
        heads=len(heads),
        broken=0 if broken is None else broken.seq,
        why="" if broken is None else broken.why,
        missing=0 if broken is None else broken.missing,
        unsigned=tuple(sorted(head.seq for head in heads if head not in signed)),
        keys=tuple(sorted({head.key for head in heads})),
        torn=torn,
    )
