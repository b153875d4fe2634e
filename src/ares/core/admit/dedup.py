"""Idempotent submission: the same request id with the same payload is the same job; with another, a conflict."""

import hashlib

import msgspec

from ares.core.refusal import Refusal
from ares.model.base import Record
from ares.model.job import JobSpec
from ares.model.state import RequestRecord

# Sorted keys make the order in which a client wrote its maps irrelevant.
_CANONICAL = msgspec.json.Encoder(order="deterministic")


class New(Record, frozen=True):
    """Not seen before."""


class Replayed(Record, frozen=True):
    """The same request again: the answer is the job it made."""

    job: str


def payload_sha256(spec: JobSpec) -> str:
    """The digest of the job as it was asked for, before admission fills anything in."""
    return hashlib.sha256(_CANONICAL.encode(spec)).hexdigest()


def resolve(seen: RequestRecord | None, digest: str) -> New | Replayed | Refusal:
    """What a request with this payload digest means, given the record stored under its request id."""
    if seen is None:
        return New()
    if seen.payload_sha256 == digest:
        return Replayed(job=seen.job)
    return Refusal(
        code="request-conflict",
        message="this request id was already used with a different payload",
        fix="use a new request id for a new job, or send the first payload again",
    )
