"""Limits of requests. Every adapter refuses by them, with the same messages, before it does anything."""

from collections import Counter
from collections.abc import Sequence

from ares.ports.store import (
    TXN_BYTES_MAX,
    TXN_OPS_MAX,
    VALUE_BYTES_MAX,
    Compare,
    Delete,
    Op,
    Put,
    StoreRefused,
)

_LAST_BEFORE_SURROGATES = "\ud7ff"
_FIRST_AFTER_SURROGATES = "\ue000"
_HIGHEST = "\U0010ffff"


def prefix_end(prefix: str) -> str | None:
    """The first key after every key under `prefix`; None when there is no such key.

    Code point order of `str` and byte order of UTF-8 are the same, so all adapters share this.
    """
    stem = prefix.rstrip(_HIGHEST)
    if not stem:
        return None
    last = stem[-1]
    after = _FIRST_AFTER_SURROGATES if last == _LAST_BEFORE_SURROGATES else chr(ord(last) + 1)
    return stem[:-1] + after


def check_key(key: str) -> None:
    if not key or "\0" in key or not (key.isascii() or _is_text(key)):
        raise StoreRefused(f"key {key!r} is refused: a key is UTF-8 text of at least one character, without NUL")


def _is_text(key: str) -> bool:
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_txn(compares: Sequence[Compare], then: Sequence[Op], otherwise: Sequence[Op]) -> int:
    """Raises StoreRefused for what no adapter accepts; returns the bytes of all keys and values."""
    if len(compares) > TXN_OPS_MAX or len(then) > TXN_OPS_MAX or len(otherwise) > TXN_OPS_MAX:
        raise StoreRefused(
            f"transaction refused: {len(compares)} compares, {len(then)} operations and {len(otherwise)} otherwise; "
            f"at most {TXN_OPS_MAX} of each: split it"
        )
    size = _check_keys([compare.key for compare in compares])
    for compare in compares:
        size += len(compare.equals) if isinstance(compare.equals, bytes) else 8
    size += _check_branch(then) + (_check_branch(otherwise) if otherwise else 0)
    if size > TXN_BYTES_MAX:
        raise StoreRefused(f"transaction refused: {size} bytes of keys and values, at most {TXN_BYTES_MAX}: split it")
    return size


def _check_keys(keys: list[str]) -> int:
    """The length of all keys together. Of hundreds in a wave the text is looked through once."""
    text = "".join(keys)
    if "" in keys or "\0" in text or not text.isascii():
        for key in keys:
            check_key(key)
    return len(text)


def _check_branch(ops: Sequence[Op]) -> int:
    keys: list[str] = []
    written: set[str] = set()
    deleted: list[Delete] = []
    size = puts = 0
    for op in ops:
        if isinstance(op, Put):
            puts += 1
            length = len(op.value)
            if length > VALUE_BYTES_MAX:
                raise StoreRefused(f"value of {op.key!r} refused: {length} bytes, at most {VALUE_BYTES_MAX}")
            size += length
            written.add(op.key)
        elif isinstance(op, Delete):
            deleted.append(op)
            # The empty prefix is that of all keys.
            if op.prefix and not op.key:
                continue
        keys.append(op.key)
    size += _check_keys(keys)
    if len(written) < puts:
        twice = next(key for key, times in Counter(op.key for op in ops if isinstance(op, Put)).items() if times > 1)
        raise StoreRefused(f"transaction refused: it writes {twice!r} twice")
    for op in deleted:
        if op.key in written or (op.prefix and any(key.startswith(op.key) for key in written)):
            raise StoreRefused(f"transaction refused: it writes and deletes {op.key!r}")
    return size
