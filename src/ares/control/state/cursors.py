"""Opaque, tamper-evident cursors: a list position bound to the tenant that was given it."""

import base64
import hashlib
import hmac

import msgspec

from ares.core.refusal import Refusal

_MAC_BYTES = 12


# Not made by this installation for this tenant.
BAD_CURSOR = Refusal(code="bad-cursor")


class Cursors:
    """`key` is the installation's own secret, the same on every replica."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def make(self, tenant: str, place: tuple[int, str]) -> str:
        payload = msgspec.json.encode(place)
        return base64.urlsafe_b64encode(self._mac(tenant, payload) + payload).decode("ascii").rstrip("=")

    def read(self, tenant: str, cursor: str) -> tuple[int, str] | Refusal | None:
        """The position; None for the beginning."""
        if cursor == "":
            return None
        try:
            raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        except ValueError:
            return BAD_CURSOR
        mac, payload = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
        if not hmac.compare_digest(mac, self._mac(tenant, payload)):
            return BAD_CURSOR
        return msgspec.json.decode(payload, type=tuple[int, str])

    def _mac(self, tenant: str, payload: bytes) -> bytes:
        return hmac.new(self._key, tenant.encode() + b"\0" + payload, hashlib.sha256).digest()[:_MAC_BYTES]
