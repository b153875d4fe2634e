"""Whether a chain is whole: its links, the signatures of its heads, and that nothing is missing that was signed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from ares.api.audit import ChainReport
from ares.core.audit.chain import ChainBreak, Seal, Walk, seal_holds, signed_bytes
from ares.model.audit import AuditHead, AuditKey, AuditStub

# Public key, message, signature.
Verify = Callable[[str, bytes, str], bool]


class Sealer(NamedTuple):
    """A key that is at hand: its id, and the seals it makes."""

    key: str
    seal: Seal


def _unsealed(walk: Walk, last: bytes, signed: Sequence[AuditHead], sealer: Sealer | None) -> ChainBreak | None:
    """The links of the chain hold. A forger of its tail makes them hold too, but not the seal at its end."""
    newest = max(signed, key=lambda head: head.seq, default=None)
    if newest is None or sealer is None or not newest.sealed or newest.key != sealer.key or walk.seq <= newest.seq:
        return None
    if seal_holds(last, sealer.seal):
        return None
    why = "what follows the newest head has no seal by the server's key: it was changed, or a crash cut a write short"
    return ChainBreak(walk.chain, newest.seq + 1, why)


def check(
    chain: str,
    lines: Iterable[bytes],
    heads: Sequence[AuditHead],
    keys: Mapping[str, AuditKey],
    verify: Verify,
    stub: AuditStub | None = None,
    begins: AuditHead | None = None,
    sealer: Sealer | None = None,
) -> ChainReport:
    """`begins` starts in the middle: after that entry. Otherwise the stub or the first entry is the beginning. With the
    key at hand what follows the newest head is looked at too."""

    def holds(head: AuditHead) -> bool:
        key = keys.get(head.key)
        return key is not None and head.chain == chain and verify(key.public, signed_bytes(head), head.signature)

    walk = Walk(chain, begins or stub)
    signed = [head for head in heads if holds(head)]
    walk.mark(frozenset(head.seq for head in signed))
    torn, last = 0, b""
    for line in lines:
        # What follows an unfinished line makes it a broken one.
        if torn:
            walk.take(b"")
        torn = 0 if line.endswith(b"\n") else len(line)
        if not torn:
            walk.take(line)
            last = line
    walk.compare(signed)
    broken = walk.broken or _unsealed(walk, last, signed, sealer)
    if begins is None and stub is not None and not holds(stub):
        broken = ChainBreak(
            chain, walk.begins, "the chain begins here, and nobody signed that what was before may be gone"
        )
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
