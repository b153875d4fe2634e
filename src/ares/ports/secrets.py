"""Seals secrets with keys that the store of record never sees."""

from typing import Protocol

import msgspec

from ares.model.secret import Secret


class Sealed(msgspec.Struct, frozen=True, gc=False):
    """A value under a key of its own, and that key under the vault's."""

    ciphertext: bytes
    nonce: bytes
    wrapped: bytes
    key_id: str


class VaultError(Exception):
    """The vault cannot do it; the message says why, and never what the value was."""


class UnknownKey(VaultError):
    """The value was sealed with a key that this vault does not have."""

    def __init__(self, key_id: str, where: str) -> None:
        super().__init__(f"it is sealed with the key {key_id}, which {where} does not hold")
        self.key_id = key_id


class Tampered(VaultError):
    """The bytes are not what was sealed, or not under that name."""

    def __init__(self) -> None:
        super().__init__("its sealed value does not belong to this name and version, or was changed")


class Vault(Protocol):
    """`binding` names the owner of a value: sealed for one, it does not open for another."""

    def seal(self, value: Secret, binding: bytes) -> Sealed:
        """Seals with the newest key; the first key is made when there is none."""
        ...

    def open(self, sealed: Sealed, binding: bytes) -> Secret:
        """Raises UnknownKey or Tampered."""
        ...

    def rewrap(self, sealed: Sealed, binding: bytes) -> Sealed:
        """The same value, its key sealed with the newest one. Raises as `open` does."""
        ...

    def holds(self, key_id: str) -> bool: ...

    def newest(self) -> str:
        """The id of the newest key; empty before there is one."""
        ...

    def renew(self) -> str:
        """Makes a new key the newest; older keys stay, for what is not rewrapped yet. Durable when it returns."""
        ...
