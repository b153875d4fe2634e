"""The record of every action and its actor: entries of a chain, its signed heads, and where the chain begins."""

from typing import Literal

from ares.model.base import Record

AuditOutcome = Literal["ALLOW", "DENY", "ERROR"]
# What the first entry of a chain names as the one before it.
NO_HASH = "0" * 64


class AuditDraft(Record, frozen=True):
    """What is to be recorded. Names and numbers only: never a body, a header, an environment or a query string."""

    # The operation's id, such as "submitJob".
    operation: str
    outcome: AuditOutcome
    # A word, such as "role", "cross_tenant" or "quota".
    reason: str = ""
    # The actor: the token's id, the user, their role and by what they proved it.
    token: str = ""
    user: str = ""
    role: str = ""
    proof: str = ""
    # The tenant acted in, and the actor's own where that is another.
    tenant: str = ""
    home: str = ""
    # For a denial: the tenant it was aimed at, where that is another. Told to that tenant, and never to the actor's.
    target: str = ""
    # The reason given for a look at what is another tenant's.
    glass: str = ""
    method: str = ""
    # The route's template, never the address itself.
    path: str = ""
    status: int = 0
    # The object of the operation and what was made, as "jobs/ID".
    object: str = ""
    made: tuple[str, ...] = ()
    # How many of each, where one request did many things: created, replayed, rejected.
    counts: dict[str, int] = {}
    trace: str = ""
    remote: str = ""
    # The number of equal requests that this entry stands for.
    count: int = 1


class AuditEntry(AuditDraft, frozen=True, kw_only=True):
    """A draft in its place in the chain. `hash` is over the line's bytes before it, which name the one before."""

    seq: int
    prev: str
    # Not before the entry ahead of it, unless a clock that was far ahead was set right.
    at: float
    # The replica that recorded it.
    chain: str = ""
    hash: str = ""


class AuditHead(Record, frozen=True):
    """How far a chain had come, signed: what is kept in a second place."""

    chain: str
    seq: int
    hash: str
    at: float
    # The head before, by its number; 0 for the first.
    previous: int = 0
    # The signing key: the id of an AuditKey.
    key: str = ""
    # What comes after it is sealed by the same key.
    sealed: bool = False
    signature: str = ""


class AuditStub(AuditHead, frozen=True):
    """Where a chain begins whose older entries were removed after their time: the last one that is gone."""


class AuditKey(Record, frozen=True):
    """The public half of what heads are signed by."""

    id: str
    chain: str
    public: str
    created_at: float = 0.0
