"""What the global plane and a cluster say to each other about jobs.

Each message is derived from a record and names the epoch it is about: a message that is repeated, late or out of order
changes nothing that the record does not allow.
"""

from typing import Literal

from ares.model.base import Fence, Record
from ares.model.state import Phase

# ---- down: from the global plane


class JobOffer(Record, frozen=True):
    """May this cluster have the job? It starts nothing."""

    job: str
    epoch: int
    spec_sha256: str = ""


class JobConfirm(Record, frozen=True):
    """The job is the cluster's: from here on it may start."""

    job: str
    epoch: int


class JobWithdraw(Record, frozen=True):
    """The offer of this epoch is over: it is never to be accepted, nor started."""

    job: str
    epoch: int


class JobVerdict(Record, frozen=True):
    """How healing settled one job. "stop": everything up to `epoch` is to end, and counts no more; "ended":
    its end is durable at the global plane."""

    job: str
    epoch: int
    do: Literal["keep", "stop", "ended"]


class EscrowGrant(Record, frozen=True):
    """All that a tenant's escrow was ever granted here, and until when it may be used."""

    tenant: str
    granted: dict[str, int]
    until: float


# ---- up: from a cluster


class OfferAccepted(Record, frozen=True):
    """Durable in the cluster: it starts the job as soon as that is confirmed, and not before."""

    job: str
    cluster: str
    epoch: int


class OfferDeclined(Record, frozen=True):
    """Nothing up to this epoch is accepted any more. `code` says why, from a closed list."""

    job: str
    cluster: str
    epoch: int
    code: str = ""


class OfferWithdrawn(Record, frozen=True):
    """The answer to a withdrawal: nothing of this epoch is there, nor will be."""

    job: str
    cluster: str
    epoch: int


class JobReleased(Record, frozen=True):
    """The cluster gives a confirmed job back: nothing of it runs there any more."""

    job: str
    cluster: str
    epoch: int


class OwnedState(Record, frozen=True):
    """How far a job has come in its cluster."""

    job: str
    cluster: str
    epoch: int
    fence: Fence
    seq: int
    phase: Phase


class EscrowReleased(Record, frozen=True):
    """All that a cluster ever gave back of a tenant's escrow."""

    tenant: str
    cluster: str
    released: dict[str, int]


Downward = JobOffer | JobConfirm | JobWithdraw | JobVerdict | EscrowGrant
Upward = OfferAccepted | OfferDeclined | OfferWithdrawn | JobReleased | OwnedState | EscrowReleased
