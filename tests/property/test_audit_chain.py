"""Whatever is done to a chain's bytes after they were written, it is found, and at the right place."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ares.adapters.audit.signing import Ed25519Signer, verify
from ares.api.audit import ChainReport
from ares.core.audit.chain import ChainWriter, check, clean, entry_of, signed_bytes
from ares.model.audit import AuditDraft, AuditHead, AuditKey, AuditStub

SIGNER = Ed25519Signer(bytes(32))
KEYS = {"k": AuditKey(id="k", chain="c", public=SIGNER.public)}
ENTRIES = 8


def chain(entries: int = ENTRIES) -> list[bytes]:
    writer = ChainWriter("r1")
    return [
        writer.line(AuditDraft(operation="submitJob", outcome="ALLOW", object=f"jobs/{n}", tenant="acme"), 1e9 + n)
        for n in range(entries)
    ]


LINES = chain()


def head(seq: int, lines: list[bytes] = LINES) -> AuditHead:
    entry = entry_of(lines[seq - 1])
    assert entry is not None
    return signed(AuditHead(chain="c", seq=seq, hash=entry.hash, at=entry.at, key="k"))


def signed(what: AuditHead) -> AuditHead:
    return replace(what, signature=SIGNER.sign(signed_bytes(what)))


def look(data: bytes, *heads: AuditHead, stub: AuditStub | None = None) -> ChainReport:
    return check("c", data.splitlines(keepends=True), heads, KEYS, verify, stub)


def number_of(at: int) -> int:
    """Of the entry that has the byte at this place."""
    end = 0
    for number, line in enumerate(LINES, 1):
        end += len(line)
        if at < end:
            return number
    raise AssertionError(at)


WHOLE = b"".join(LINES)


def test_an_untouched_chain_holds() -> None:
    found = look(WHOLE, head(3), head(ENTRIES))
    assert found.whole
    assert (found.begins, found.ends, found.signed, found.broken) == (1, ENTRIES, ENTRIES, 0)


@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
def test_a_changed_byte_is_found_at_its_entry(at: int, by: int) -> None:
    data = bytearray(WHOLE)
    data[at] ^= by
    found = look(bytes(data), head(ENTRIES))
    assert found.broken == number_of(at)


@given(st.integers(1, ENTRIES), st.integers(1, ENTRIES))
def test_deleted_entries_are_found_and_counted(first: int, count: int) -> None:
    rest = [*LINES[: first - 1], *LINES[first - 1 + count :]]
    found = look(b"".join(rest), head(ENTRIES))
    assert found.broken == first
    assert found.missing == min(count, ENTRIES + 1 - first)


@given(st.permutations(range(ENTRIES)))
def test_a_new_order_is_found_where_it_begins(order: list[int]) -> None:
    found = look(b"".join(LINES[place] for place in order), head(ENTRIES))
    wrong = [place + 1 for place, one in enumerate(order) if place != one]
    assert found.broken == (wrong[0] if wrong else 0)


@given(st.integers(0, ENTRIES), st.integers(1, ENTRIES))
def test_an_entry_put_in_is_found(at: int, like: int) -> None:
    data = b"".join([*LINES[:at], LINES[like - 1], *LINES[at:]])
    found = look(data, head(ENTRIES))
    # Put in before itself it only looks doubled: the second one is wrong.
    assert found.broken == (at + 2 if like == at + 1 else at + 1)


@given(st.integers(0, len(WHOLE) - 1))
def test_a_cut_after_a_signed_head_is_a_missing_tail(size: int) -> None:
    found = look(WHOLE[:size], head(3), head(ENTRIES))
    whole_lines = WHOLE[:size].count(b"\n")
    assert (found.broken, found.missing) == (whole_lines + 1, ENTRIES - whole_lines)


@given(st.integers(1, ENTRIES - 1))
def test_a_chain_written_anew_from_some_entry_contradicts_its_heads(at: int) -> None:
    """Who can compute hashes, but not sign: the links hold, the heads do not."""
    before = entry_of(LINES[at - 1])
    assert before is not None
    writer = ChainWriter("r1", before.seq, before.hash, before.at)
    forged = [writer.line(AuditDraft(operation="other", outcome="ALLOW"), 1e9 + ENTRIES) for _ in range(ENTRIES)]
    data = b"".join([*LINES[:at], *forged])
    assert look(data).whole
    assert look(data, head(ENTRIES)).broken == ENTRIES
    assert look(data, head(at)).whole


@given(st.integers(0, ENTRIES))
def test_a_chain_begins_after_its_stub_only_if_that_is_signed(seq: int) -> None:
    last = entry_of(LINES[seq - 1]) if seq else None
    stub = AuditStub(chain="c", seq=seq, hash=last.hash if last else "0" * 64, at=2e9, key="k")
    good = replace(stub, signature=SIGNER.sign(signed_bytes(stub)))
    rest = b"".join(LINES[seq:])
    found = look(rest, stub=good)
    assert (found.whole, found.begins, found.ends) == (True, seq + 1, ENTRIES)
    assert look(rest, stub=stub).broken == seq + 1
    if last is not None:
        # A head is no stub, though both are signed: it would let everything before it be deleted.
        taken = AuditStub(**{name: getattr(head(seq), name) for name in AuditHead.__struct_fields__})
        assert look(rest, stub=taken).broken == seq + 1


def test_what_is_signed_does_not_depend_on_what_classes_are_called() -> None:
    """Signatures are kept for years: these bytes are for ever."""
    values = {"chain": "c", "seq": 3, "hash": "0a", "at": 2.0, "previous": 1, "key": "k", "signature": "left out"}
    signed = b'{"chain":"c","seq":3,"hash":"0a","at":2.0,"previous":1,"key":"k"}'
    assert signed_bytes(AuditHead(**values)) == b"AuditHead\n" + signed
    assert signed_bytes(AuditStub(**values)) == b"AuditStub\n" + signed


def test_without_any_line_the_heads_say_what_is_missing() -> None:
    found = look(b"", head(5))
    assert (found.broken, found.missing) == (1, 5)


def test_a_head_that_nobody_signed_counts_for_nothing_and_is_named() -> None:
    forged = replace(head(ENTRIES), seq=3)
    found = look(WHOLE, forged)
    assert (found.unsigned, found.signed, found.whole) == ((3,), 0, False)


@given(st.text())
def test_what_people_supply_stays_on_one_line_and_prints(text: str) -> None:
    safe = clean(text)
    assert safe.isprintable()
    line = ChainWriter("r").line(AuditDraft(operation="x", outcome="DENY", object=safe), 1.0)
    assert line.count(b"\n") == 1
    entry = entry_of(line)
    assert entry is not None
    assert entry.object == safe


def test_text_that_is_none_keeps_nobody_from_being_recorded() -> None:
    line = ChainWriter("r").line(AuditDraft(operation="\ud800", outcome="DENY", status=403), 1.0)
    entry = entry_of(line)
    assert entry is not None
    assert (entry.operation, entry.outcome, entry.status) == ("auditUnreadable", "DENY", 403)


def test_time_is_not_turned_back_by_a_little_but_a_wrong_clock_is_believed_once_it_is_right() -> None:
    writer = ChainWriter("c")
    lines = [writer.line(AuditDraft(operation="x", outcome="ALLOW"), at) for at in (1e9, 1e9 - 5, 2e9, 1e9 + 1)]
    entries = [entry_of(line) for line in lines]
    assert [entry and entry.at for entry in entries] == [1e9, 1e9, 2e9, 1e9 + 1]
    assert look(b"".join(lines)).whole
