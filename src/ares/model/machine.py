"""Machines and the proof of their identity: certificates that the installation's own authority has signed."""

from typing import Literal

from ares.model.base import Record

MachineRole = Literal["node", "cluster"]


class Certificate(Record, frozen=True):
    """A signed certificate. Times are whole seconds, as certificates have them."""

    serial: str
    # The generation it was issued under, see `MachineRecord`. The serial begins with it.
    generation: int
    # The digest of its public key.
    key_sha256: str
    issued_at: int
    ends_at: int
    # The join token that was traded for it; empty when it renews an earlier one.
    token: str = ""


class MachineRecord(Record, frozen=True):
    """The certificates of one node or cluster. A certificate of an earlier generation is good for nothing."""

    role: MachineRole
    name: str
    certificates: tuple[Certificate, ...] = ()
    # Grows each time all certificates are revoked, to the time of that or beyond.
    generation: int = 0
    revoked_by: str = ""


class AuthorityRecord(Record, frozen=True):
    """The authority that signs for this installation: a replica that goes by another one would split it."""

    fingerprint: str
    certificate: str


class Presented(Record, frozen=True):
    """What a certificate says that was checked to be signed by the authority."""

    role: MachineRole
    name: str
    serial: str
    generation: int
    issued_at: int
    ends_at: int
