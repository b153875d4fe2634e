"""A job as a cluster is offered it: without what the global plane has seen to already."""

import hashlib
from typing import Any

import msgspec

from ares.control.state.view import View
from ares.model.cluster_link import Offered
from ares.model.job import JobSpec
from ares.model.state import JobState
from ares.model.uplink import OfferedJob

# Needs are met, its time has come, notices are sent here, and a task of an array is a job there.
_SEEN_TO: dict[str, Any] = {
    "needs": (), "needs_timeout": None, "held": False, "begin_at": None, "array": None, "finally_": False,
    "notify": (), "reservation": None,
}  # fmt: skip


def offer_of(view: View, state: JobState) -> Offered | None:
    """None when the job's specification is not here."""
    spec = view.spec(state)
    if spec is None or state.owner is None:
        return None
    encoded = msgspec.json.encode(msgspec.structs.replace(spec, **_SEEN_TO))
    offer = OfferedJob(
        job=state.id, tenant=state.tenant, name=state.name, spec=encoded, fence=state.fence,
        submitted_by=state.submitted_by, submitter_id=state.submitter_id, trace=state.trace,
        submitted_at=state.submitted_at, cost_estimate=state.cost_estimate, estimated_s=state.estimated_s,
    )  # fmt: skip
    return Offered(epoch=state.owner.epoch, spec_sha256=hashlib.sha256(encoded).hexdigest(), offer=offer)


def spec_of(offer: OfferedJob) -> JobSpec:
    """Raises msgspec.ValidationError for what is no specification of this version."""
    return msgspec.json.decode(offer.spec, type=JobSpec)
