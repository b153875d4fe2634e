"""Certificates of machines: what they say, how long they are good, and when they are revoked."""

import re
from typing import Final, Literal

from msgspec.structs import replace

from ares.core.access.tokens import denied
from ares.core.refusal import Refusal
from ares.model.access import Principal, TokenRecord
from ares.model.node import Certificate, MachineRecord, MachineRole, Presented

LIFE_S: Final = 24 * 3600
# Clocks of machines differ: a certificate begins this long before it is issued.
SKEW_S: Final = 300
# A certificate is renewed when this much of its life is over.
RENEW_SHARE: Final = 2 / 3
# The name that control planes prove by a certificate of the same authority, whatever their address.
CONTROL_PLANE: Final = "control-plane.ares.internal"
_IDENTITY = re.compile(r"ares://(node|cluster)/([A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?)", re.ASCII)
_PLATFORM: Final = "system"
# Earlier certificates that are listed.
_LISTED_MAX: Final = 20


def identity(role: MachineRole, name: str) -> str:
    """The URI that a machine's certificate carries."""
    return f"ares://{role}/{name}"


def parse(text: str) -> tuple[MachineRole, str] | None:
    """The opposite of `identity`; None for anything else."""
    match = _IDENTITY.fullmatch(text)
    if match is None:
        return None
    role: Literal["node", "cluster"] = "node" if match[1] == "node" else "cluster"
    return role, match[2]


def verify(machine: MachineRecord | None, shown: Presented, now: float) -> Principal | Refusal:
    """The machine that presents it. The authority's signature is the proof: the record only takes it back, so that a
    store restored from a backup locks no machine out."""
    if machine is not None and shown.generation < machine.generation:
        return denied("revoked")
    if now >= shown.ends_at:
        return denied("expired")
    return Principal(
        token_id=shown.serial,
        tenant=_PLATFORM,
        role=shown.role,
        name=shown.name,
        proof="certificate",
        expires_at=float(shown.ends_at),
        node=shown.name if shown.role == "node" else None,
        cluster=shown.name if shown.role == "cluster" else None,
    )


def with_certificate(machine: MachineRecord, fresh: Certificate, presented: str, now: float) -> MachineRecord:
    """The machine with a new certificate, beside the presented one, which is good until it ends, and revoked ones."""
    kept = tuple(
        certificate
        for certificate in machine.certificates
        if certificate.ends_at > now
        and (certificate.serial == presented or certificate.generation < machine.generation)
    )
    return replace(machine, certificates=(*kept[-_LISTED_MAX:], fresh))


def in_use(machine: MachineRecord, now: float) -> bool:
    """Whether a certificate that proves to be this machine is still good."""
    return any(
        certificate.ends_at > now and certificate.generation >= machine.generation
        for certificate in machine.certificates
    )


def unwelcome(token: TokenRecord, machine: MachineRecord, key_sha256: str, now: float) -> str:
    """Why a join token does not make this machine's certificate for this key, in a word; empty when it does."""
    if parse(identity(machine.role, machine.name)) is None:
        return "malformed"
    bound = token.node if machine.role == "node" else token.cluster
    if bound not in (None, machine.name):
        return "name"
    if token.expires_at is not None and now >= token.expires_at:
        return "expired"
    if token.revoked:
        return "" if _traded(machine, token.id, key_sha256) else "revoked"
    return "taken" if bound is None and in_use(machine, now) else ""


def _traded(machine: MachineRecord, token: str, key_sha256: str) -> bool:
    """Whether the machine has this very key certified by this very join token, and it was not taken back."""
    return any(
        certificate.token == token
        and certificate.key_sha256 == key_sha256
        and certificate.generation >= machine.generation
        for certificate in machine.certificates
    )


def taken_back(machine: MachineRecord, by: str, now: float) -> MachineRecord:
    """Revokes all certificates issued so far, whatever the clocks of replicas say. Not just by one more: a record that
    was restored from a backup may have a lower number than certificates that were issued after it."""
    return replace(machine, generation=max(int(now), machine.generation + 1), revoked_by=by)


def renew_after_s(issued_at: int, ends_at: int, now: float) -> float:
    """How long to wait before asking for the next certificate."""
    return max(0.0, issued_at + RENEW_SHARE * (ends_at - issued_at) - now)
