"""Certificates of machines: signed by the installation's authority, asked for by agents."""

from typing import Protocol

from ares.model.base import Record
from ares.model.node import MachineRole, Presented


class Signed(Record, frozen=True):
    """A certificate in PEM, and its number."""

    serial: str
    certificate: str


class Issuer(Protocol):
    """The authority's key. Texts are PEM."""

    # The fingerprint of the certificate that goes with the key.
    fingerprint: str
    # That certificate, then others that are still trusted.
    authorities: str
    # The fingerprints of all of these.
    fingerprints: tuple[str, ...]

    def key_of(self, request: str) -> str | None:
        """The digest of the public key that a request for a certificate is about; None when it is no such request."""
        ...

    def sign(self, request: str, role: MachineRole, name: str, generation: int, life: tuple[int, int]) -> Signed:
        """Signs the key of the request; what else the request says does not matter. `life`: issued and ends at."""
        ...

    def read(self, certificate: bytes) -> Presented | None:
        """What the certificate of a verified chain says; None when it is no machine's."""
        ...


class Requests(Protocol):
    """What an agent needs: keys, and requests for certificates."""

    def new_key(self) -> str: ...

    def request(self, key: str) -> str: ...

    def life(self, certificate: str) -> tuple[int, int]:
        """When a certificate was issued and when it ends."""
        ...
