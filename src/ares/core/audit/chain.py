"""How entries hang together: each line ends with the hash of its own bytes, which name the hash of the line before."""

import hashlib
import hmac
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from ares.api.audit import ChainReport
from ares.model.audit import NO_HASH, AuditDraft, AuditEntry, AuditHead, AuditKey, AuditStub

# The most of any text that people supply: long enough to tell things apart.
TEXT_CHARS_MAX = 200
_HASH = b',"hash":"'
_END = b'"}\n'
# The hash's name, 64 hexadecimal digits, the end.
_TAIL = len(_HASH) + 64 + len(_END)
# What only the server's key can make of the bytes before it: at the end of the last line of each write.
Seal = Callable[[bytes], str]
_SEAL = b',"seal":"'
# Its name, 64 hexadecimal digits, a quotation mark.
_SEALED = len(_SEAL) + 64 + 1
# A clock corrected by less does not turn time back here; a clock that was wrong by more is believed again.
_SET_BACK_S = 3600.0
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(AuditEntry).decode
# The fields of an entry before the draft's: numbers, hashes, and the chain's name.
_IN_FRONT = '{"seq":%d,"prev":"%s","at":%.6f,"chain":%s,'


def clean(text: str) -> str:
    """The text on one line and of bounded length: what does not print is written as its number."""
    if len(text) > TEXT_CHARS_MAX:
        text = text[: TEXT_CHARS_MAX - 1] + "…"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


class ChainWriter:
    """Gives drafts their place in the chain. A failed write does not advance it: see `back`."""

    def __init__(
        self, chain: str, seq: int = 0, hash_: str = NO_HASH, at: float = 0.0, seal: Seal | None = None
    ) -> None:
        self._seal = seal
        self.seq = seq
        self.hash = hash_
        self.at = at
        self._chain = _encode(clean(chain)).decode()

    def line(self, draft: AuditDraft, at: float, *, last: bool = False) -> bytes:
        """The next line, with its line feed. The last one of a write has a seal, which covers all before it too."""
        self.seq += 1
        self.at = at if at < self.at - _SET_BACK_S else max(self.at, at)
        front = _IN_FRONT % (self.seq, self.hash, self.at, self._chain)
        body = front.encode() + _bytes(draft)[1:-1]
        if last and self._seal is not None:
            body += _SEAL + self._seal(body).encode() + b'"'
        self.hash = hashlib.sha256(body).hexdigest()
        return body + _HASH + self.hash.encode() + _END

    @property
    def place(self) -> tuple[int, str, float]:
        return self.seq, self.hash, self.at

    def back(self, place: tuple[int, str, float]) -> None:
        """Goes back to `place`, as if nothing had been added since."""
        self.seq, self.hash, self.at = place


def _bytes(draft: AuditDraft) -> bytes:
    try:
        return _encode(draft)
    except UnicodeEncodeError:
        # No text that came from outside may keep other entries from being recorded.
        return _encode(AuditDraft(operation="auditUnreadable", outcome=draft.outcome, status=draft.status))


def entry_of(line: bytes) -> AuditEntry | None:
    """The entry of a whole line whose hash is its own; None for any other."""
    body, tail = line[:-_TAIL], line[-_TAIL:]
    if tail[: len(_HASH)] != _HASH or tail[-len(_END) :] != _END:
        return None
    if hashlib.sha256(body).hexdigest().encode() != tail[len(_HASH) : -len(_END)]:
        return None
    try:
        return _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def seal_holds(line: bytes, seal: Seal) -> bool:
    """Whether the line has a seal made by this key."""
    body = line[:-_TAIL]
    before, said = body[:-_SEALED], body[-_SEALED:]
    return said.startswith(_SEAL) and hmac.compare_digest(said[len(_SEAL) : -1], seal(before).encode())


def signed_bytes(head: AuditHead) -> bytes:
    """The bytes that a head's signature covers. Whether it is a head or a stub is part of them."""
    kind = b"AuditStub\n" if isinstance(head, AuditStub) else b"AuditHead\n"
    return kind + _encode(msgspec.structs.replace(head, signature=""))


class ChainBreak(msgspec.Struct, frozen=True):
    """The first place where a chain does not hold."""

    chain: str
    # The number of the first entry that is not as it was written, or not there.
    seq: int
    why: str
    # How many entries are surely missing, where that is known.
    missing: int = 0


class Walk:
    """Follows a chain from its beginning. `broken` is the first broken link, once there is one."""

    def __init__(self, chain: str, stub: AuditHead | None = None) -> None:
        self.chain = chain
        self.begins = 1 if stub is None else stub.seq + 1
        self.seq = self.begins - 1
        self.hash: str = NO_HASH if stub is None else stub.hash
        self.at = 0.0
        self.broken: ChainBreak | None = None
        # Hashes of the entries that signed heads name, by number.
        self._marks: dict[int, str] = {self.seq: self.hash}
        self._wanted: Callable[[int], bool] = lambda seq: False

    def mark(self, seqs: frozenset[int]) -> None:
        """Remember the hashes of these entries."""
        self._wanted = seqs.__contains__

    def take(self, line: bytes) -> AuditEntry | None:
        """Takes one more line. After the first wrong line nothing is taken any more."""
        if self.broken is not None:
            return None
        entry = entry_of(line)
        expected = self.seq + 1
        if entry is None:
            self._break(expected, "its line is not as it was written")
        elif entry.seq != expected:
            missing = max(0, entry.seq - expected)
            self._break(expected, f"the entry in its place has number {entry.seq}", missing)
        elif entry.prev != self.hash:
            self._break(expected, "it does not follow the entry before it")
        else:
            self.seq, self.hash, self.at = entry.seq, entry.hash, entry.at
            if self._wanted(entry.seq):
                self._marks[entry.seq] = entry.hash
            return entry
        return None

    def compare(self, heads: list[AuditHead]) -> None:
        """At the end: whether every signed entry is here, as it was when it was signed."""
        for head in heads:
            if self.begins - 1 <= head.seq <= self.seq and self._marks.get(head.seq) != head.hash:
                self._break(head.seq, "a signed head names another entry with this number")
        newest = max((head.seq for head in heads), default=0)
        if newest > self.seq:
            why = f"the chain ends before it, but a signed head names entry {newest}"
            self._break(self.seq + 1, why, newest - self.seq)

    def _break(self, seq: int, why: str, missing: int = 0) -> None:
        if self.broken is None or seq < self.broken.seq:
            self.broken = ChainBreak(self.chain, seq, why, missing)


# ---- Signed heads that are kept: the newest ones, and the last one of each older day.


RECENT = 60
_DAY_S = 86_400.0


def superfluous(heads: Iterable[AuditHead], now: float, keep_s: float) -> list[AuditHead]:
    """The heads to drop. The newest always stays."""
    by_age = sorted(heads, key=lambda head: (head.at, head.seq), reverse=True)
    kept_days: set[int] = set()
    dropped: list[AuditHead] = []
    for place, head in enumerate(by_age):
        day = int(head.at // _DAY_S)
        if place < RECENT or (day not in kept_days and head.at >= now - keep_s):
            kept_days.add(day)
        else:
            dropped.append(head)
    return dropped


# ---- whether a chain is whole


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
