"""Secrets: values that jobs are given and that are never shown."""

import base64
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from ares.model.base import Record

SecretName = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$(?!\n)")]
SecretFile = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*$(?!\n)")]

SECRET_BYTES_MAX: Final = 64 * 1024
SECRETS_PER_TENANT_MAX: Final = 1000
# Every server has all secrets of a tenant in memory.
SECRETS_TENANT_BYTES_MAX: Final = 4 * 1024 * 1024
SECRETS_PER_JOB_MAX: Final = 32
# Bytes of all secrets that one job is given: they travel in one message.
SECRETS_BYTES_MAX: Final = 512 * 1024
SHOWN: Final = "***"


class Secret:
    """A plain value on its way. It prints as stars and no encoder takes it unless told how."""

    __slots__ = ("_value",)

    def __init__(self, value: bytes) -> None:
        self._value = value

    def reveal(self) -> bytes:
        """The one way to the value: the caller is answerable for where it goes."""
        return self._value

    def __repr__(self) -> str:
        return SHOWN

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return SHOWN

    def __len__(self) -> int:
        return len(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other.reveal() == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __reduce__(self) -> Any:
        raise TypeError("a secret is not written down")


class RegistryAccount(Struct, frozen=True):
    """By which images are fetched. It prints as stars, wherever it may come to be printed, and is never written."""

    user: str
    password: str

    def __repr__(self) -> str:
        return SHOWN

    @property
    def basic(self) -> str:
        """The value of an Authorization header."""
        return f"Basic {base64.b64encode(f'{self.user}:{self.password}'.encode()).decode()}"


class SecretRef(Record, frozen=True):
    """A secret of the tenant that a job is given: as a variable of its environment, or as a file. Or the account by
    which its image is fetched, which the job itself does not see."""

    name: SecretName
    env: Annotated[str, Meta(min_length=1, max_length=256, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$(?!\n)")] | None = None
    # A name below ARES_SECRETS_DIR.
    file: SecretFile | None = None
    # The registry of the job's image, as the image names it.
    registry: Annotated[str, Meta(min_length=1, max_length=260, pattern=r"^[A-Za-z0-9.:\[\]-]+$(?!\n)")] | None = None

    @property
    def target(self) -> str:
        return self.env or self.file or f"account at {self.registry}"


class SecretRecord(Record, frozen=True):
    """A secret at rest. The value is sealed with a key of its own, and that key with one the store never sees."""

    tenant: str
    name: SecretName
    # Grows with every new value.
    version: int
    ciphertext: bytes
    nonce: bytes
    # The value's own key, sealed.
    wrapped: bytes
    # Which key that was sealed with.
    key_id: str
    size: int = 0
    created_at: float = 0.0
    created_by: str = ""
    # The id of that user's record.
    created_id: str = ""
    updated_at: float = 0.0
    updated_by: str = ""


class SealedText(Record, frozen=True):
    """A text that is sealed as secrets are, within a record that is not."""

    ciphertext: bytes
    nonce: bytes
    wrapped: bytes
    key_id: str


class SecretGiven(Record, frozen=True):
    """A secret's value for one attempt. Only the agents' link knows how to encode it."""

    name: str
    version: int
    value: Secret
    env: str | None = None
    file: str | None = None
    registry: str | None = None


def encode_secret(value: Any) -> bytes:
    """For the one encoder that may reveal it. To msgspec, which calls it, NotImplementedError means: no such type."""
    if isinstance(value, Secret):
        return value.reveal()
    raise NotImplementedError(f"{type(value).__name__} cannot be encoded")


def decode_secret(wanted: type, value: Any) -> Any:
    """The other end of `encode_secret`, by the same convention."""
    if wanted is Secret and isinstance(value, bytes):
        return Secret(value)
    raise NotImplementedError(f"{wanted.__name__} cannot be decoded")
