"""Request ids against the jobs they made, both ways, in memory that does not grow with the store.

Jobs and request records come in different orders. Each side adds up digests of its pairs by buckets: equal sums mean
equal pairs. Only buckets that differ are looked at again, pair by pair.
"""

import hashlib
from collections.abc import Iterable, Iterator

import msgspec
from msgspec.structs import replace

from ares.check.store.findings import Findings
from ares.check.store.reading import JobRecords
from ares.model.job import JobSpec
from ares.model.state import RequestRecord

_BUCKETS = 4096
# So many of those that differ are looked at.
_LOOKED_AT = 16
_CANONICAL = msgspec.json.Encoder(order="deterministic")


class RequestClaim(msgspec.Struct, frozen=True, gc=False):
    """A request of a tenant ("TENANT/REQUEST") made this job from this payload."""

    request: str
    job: str
    payload: str

    def bucket(self) -> int:
        return int.from_bytes(_digest(self.request)[:2], "big") % _BUCKETS

    def number(self) -> int:
        return int.from_bytes(_digest(f"{self.request}\0{self.job}\0{self.payload}"), "big")


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def claim_of_job(job: JobRecords) -> RequestClaim | None:
    """What the job's own records say about the request it came by."""
    record, spec = job.the_array or job.the_state, job.the_spec
    if record is None or record.request_id is None or spec is None:
        return None
    return RequestClaim(f"{job.tenant}/{record.request_id}", job.id, payload_of(spec))


def payload_of(spec: JobSpec) -> str:
    """Of the job as it was asked for: the times that a class of service gave it were not in the request."""
    asked = spec if spec.sla is None else replace(spec, deadline_at=None, start_by_at=None)
    return hashlib.sha256(_CANONICAL.encode(asked)).hexdigest()


def claim_of_request(tail: str, record: RequestRecord) -> RequestClaim:
    return RequestClaim(tail, record.job, record.kept_sha256 or record.payload_sha256)


class RequestTable:
    def __init__(self) -> None:
        self._sums = [0] * _BUCKETS

    def made(self, claim: RequestClaim) -> None:
        self._sums[claim.bucket()] += claim.number()

    def kept(self, claim: RequestClaim) -> None:
        self._sums[claim.bucket()] -= claim.number()

    def differing(self) -> tuple[set[int], int]:
        """Some buckets that differ, and how many more there are."""
        found = [bucket for bucket, total in enumerate(self._sums) if total]
        return set(found[:_LOOKED_AT]), len(found[_LOOKED_AT:])


def explain(made: Iterable[RequestClaim], kept: Iterable[RequestClaim], buckets: set[int], findings: Findings) -> None:
    """Pair by pair, in the buckets given."""
    by_jobs = {claim.request: claim for claim in made if claim.bucket() in buckets}
    by_requests = {claim.request: claim for claim in kept if claim.bucket() in buckets}
    for request in sorted(by_jobs.keys() | by_requests.keys()):
        for what in compare(by_jobs.get(request), by_requests.get(request)):
            findings.wrong("requests", f"request {request}: {what}")


def compare(made: RequestClaim | None, kept: RequestClaim | None) -> Iterator[str]:
    if made is None and kept is not None:
        yield f"it is kept for job {kept.job}, which does not exist or came by no such request"
    elif kept is None and made is not None:
        yield f"job {made.job} came by it, and it is not kept: sent again it would make a second job"
    elif made is not None and kept is not None:
        if made.job != kept.job:
            yield f"it is kept for job {kept.job}, but job {made.job} says it came by it"
        elif made.payload != kept.payload:
            yield f"it is kept with another payload than job {made.job} has"
