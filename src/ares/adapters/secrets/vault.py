"""Envelope encryption: AES-256-GCM under a key for each value, and that key under one of the ring's."""

import os
from typing import Final

from ares.adapters.secrets.rings import Ring
from ares.model.secret import Secret
from ares.ports.secrets import Sealed, Tampered, UnknownKey

_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12


class EnvelopeVault:
    """`ports.secrets.Vault` on any ring of keys."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring

    def seal(self, value: Secret, binding: bytes) -> Sealed:
        own, nonce = os.urandom(_KEY_BYTES), os.urandom(_NONCE_BYTES)
        key_id = self._ring.newest() or self._ring.add()
        ciphertext = _encrypt(own, nonce, value.reveal(), binding)
        return Sealed(ciphertext, nonce, self._wrap(own, binding, key_id), key_id)

    def open(self, sealed: Sealed, binding: bytes) -> Secret:
        return Secret(_decrypt(self._unwrap(sealed, binding), sealed.nonce, sealed.ciphertext, binding))

    def rewrap(self, sealed: Sealed, binding: bytes) -> Sealed:
        own, newest = self._unwrap(sealed, binding), self._ring.newest()
        return Sealed(sealed.ciphertext, sealed.nonce, self._wrap(own, binding, newest), newest)

    def holds(self, key_id: str) -> bool:
        return self._ring.key(key_id) is not None

    def newest(self) -> str:
        return self._ring.newest()

    def renew(self) -> str:
        return self._ring.add()

    def _wrap(self, own: bytes, binding: bytes, key_id: str) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + _encrypt(self._key(key_id), nonce, own, b"%s %s" % (key_id.encode(), binding))

    def _unwrap(self, sealed: Sealed, binding: bytes) -> bytes:
        nonce, wrapped = sealed.wrapped[:_NONCE_BYTES], sealed.wrapped[_NONCE_BYTES:]
        return _decrypt(self._key(sealed.key_id), nonce, wrapped, b"%s %s" % (sealed.key_id.encode(), binding))

    def _key(self, key_id: str) -> bytes:
        key = self._ring.key(key_id)
        if key is None:
            raise UnknownKey(key_id, self._ring.where)
        return key


def _encrypt(key: bytes, nonce: bytes, value: bytes, binding: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key).encrypt(nonce, value, binding)


def _decrypt(key: bytes, nonce: bytes, value: bytes, binding: bytes) -> bytes:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        return AESGCM(key).decrypt(nonce, value, binding)
    except (InvalidTag, ValueError):
        raise Tampered from None
