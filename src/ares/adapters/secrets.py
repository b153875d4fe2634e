"""Key rings, in a file that only its owner can read or in memory, and envelope encryption under their keys."""

import contextlib
import fcntl
import hashlib
import os
import stat
from collections.abc import Generator
from pathlib import Path
from typing import Final, Protocol

import msgspec

from ares.model.secret import Secret
from ares.ports.secrets import Sealed, Tampered, UnknownKey, VaultError

# ---- key rings


_KEY_BYTES: Final = 32
_ID_CHARS: Final = 16


class Ring(Protocol):
    @property
    def where(self) -> str:
        """The name of the ring in messages."""
        ...

    def key(self, key_id: str) -> bytes | None: ...

    def newest(self) -> str:
        """The newest key's id, empty when the ring has no key."""
        ...

    def add(self) -> str:
        """Makes a key, the newest from now on."""
        ...


class MemoryRing:
    """Keys in memory, lost with the process: for tests and simulations."""

    where = "this process"

    def __init__(self) -> None:
        self._keys: dict[str, bytes] = {}

    def key(self, key_id: str) -> bytes | None:
        return self._keys.get(key_id)

    def newest(self) -> str:
        return next(reversed(self._keys), "")

    def add(self) -> str:
        key = os.urandom(_KEY_BYTES)
        self._keys[_id_of(key)] = key
        return _id_of(key)


class _KeyFile(msgspec.Struct, frozen=True):
    """Oldest first. A key's id is made from it, so that a file that was put together wrongly is noticed."""

    keys: tuple[bytes, ...] = ()


class FileRing:
    """A file of keys, made when the first is needed. Servers that share a store share the file, or copies of it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._keys: dict[str, bytes] = {}
        self._read_as: tuple[int, int] = (0, 0)

    @property
    def where(self) -> str:
        return str(self._path)

    def key(self, key_id: str) -> bytes | None:
        if key_id not in self._keys:
            # Another server may have added it.
            self._look()
        return self._keys.get(key_id)

    def newest(self) -> str:
        self._look()
        return next(reversed(self._keys), "")

    def add(self) -> str:
        key = os.urandom(_KEY_BYTES)
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._locked():
            self._look()
            self._write(_KeyFile((*self._keys.values(), key)))
            self._look()
        return _id_of(key)

    @contextlib.contextmanager
    def _locked(self) -> Generator[None]:
        """A lock on the file, for servers that share it."""
        with open(os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _write(self, content: _KeyFile) -> None:
        """Writes the file atomically and syncs it, before any secret is encrypted with the new key."""
        draft = f"{self._path}.new"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(msgspec.json.encode(content))
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, self._path)
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _look(self) -> None:
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            self._keys, self._read_as = {}, (0, 0)
            return
        except OSError as error:
            raise VaultError(f"the key file {self._path} cannot be read: {error.strerror}") from error
        with open(fd, "rb") as file:
            seen = os.fstat(fd)
            if self._read_as == (stamp := (seen.st_ino, seen.st_mtime_ns)):
                return
            if seen.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise VaultError(f"others may read the key file {self._path}: `chmod 600` it")
            try:
                content = msgspec.json.decode(file.read(), type=_KeyFile)
            except msgspec.MsgspecError as error:
                raise VaultError(f"the key file {self._path} is damaged; restore it from your copy") from error
        if any(len(key) != _KEY_BYTES for key in content.keys):
            raise VaultError(f"the key file {self._path} is damaged: a key does not have {_KEY_BYTES} bytes")
        self._keys, self._read_as = {_id_of(key): key for key in content.keys}, stamp


def _id_of(key: bytes) -> str:
    return hashlib.sha256(key).hexdigest()[:_ID_CHARS]


# ---- the vault


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
