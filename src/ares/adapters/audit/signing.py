"""Ed25519 keys that sign the heads of audit chains."""

import base64
import binascii
import hashlib
import hmac
import os
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_SEED_BYTES = 32


class Ed25519Signer:
    """`ports.audit.Signer`. The seed is the private key."""

    def __init__(self, seed: bytes) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        # A key of its own, so that a seal can never pass for a signature.
        self._sealing = hashlib.sha256(b"ares audit seal\n" + seed).digest()
        self.public = base64.b64encode(self._key.public_key().public_bytes_raw()).decode()

    def sign(self, message: bytes) -> str:
        return base64.b64encode(self._key.sign(message)).decode()

    def seal(self, message: bytes) -> str:
        """A keyed hash: a hundredth of a signature's cost, but only the holder of the key can check it."""
        return hmac.digest(self._sealing, message, "sha256").hex()

    def verify(self, public: str, message: bytes, signature: str) -> bool:
        return verify(public, message, signature)


def verify(public: str, message: bytes, signature: str) -> bool:
    try:
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public, validate=True))
        key.verify(base64.b64decode(signature, validate=True), message)
    except (InvalidSignature, ValueError, binascii.Error):
        return False
    return True


def key_file(path: Path) -> Ed25519Signer:
    """The key kept in a file that only its owner can read; made once."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        _make(path)
    return Ed25519Signer(base64.b64decode(path.read_bytes()))


def _make(path: Path) -> None:
    """Writes the file atomically and never replaces one: of two processes that start at once, one makes the key."""
    drafted = path.with_name(f"{path.name}.{os.getpid()}")
    fd = os.open(drafted, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, base64.b64encode(os.urandom(_SEED_BYTES)) + b"\n")
        os.fsync(fd)
    finally:
        os.close(fd)
    try:
        os.link(drafted, path)
    except FileExistsError:
        pass
    finally:
        drafted.unlink()
