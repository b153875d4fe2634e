"""Routes that change jobs which wait or run."""

from ares.api.updates import BulkAnswer, BulkBody, BulkUpdateBody, JobUpdate
from ares.edge.rest.answers import JSON
from ares.edge.rest.bodies import NoQuery, ReasonBody
from ares.edge.rest.handlers import steering
from ares.edge.rest.http.operation import Body, Operation
from ares.edge.rest.http.problems import ADMISSION_CODES, QUOTA_CODES
from ares.model.state import JobState

_STEER = ("job-finished", "not-allowed")

STEERING_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "updateJob", "PATCH", "/jobs/{id}", "jobs:update",
        "Change what a job asks for: all of it while it waits, priority and time limit while it runs.",
        steering.update_job, {200: (JSON, JobState)}, NoQuery, Body(JobUpdate),
        (*_STEER, *QUOTA_CODES, *ADMISSION_CODES),
    ),
    Operation(
        "requeueJob", "POST", "/jobs/{id}/requeue", "jobs:retry",
        "Send a running job back to the queue. It may save its work first, and no retry is used up.",
        steering.requeue_job, {200: (JSON, JobState)}, NoQuery, Body(ReasonBody, required=False), _STEER,
    ),
    Operation(
        "cancelJobs", "POST", "/jobs/cancel", "jobs:cancel", "Cancel all jobs that fit a filter, a page at a time.",
        steering.cancel_jobs, {200: (JSON, BulkAnswer)}, NoQuery, Body(BulkBody), ("bad-cursor",),
    ),
    Operation(
        "requeueJobs", "POST", "/jobs/requeue", "jobs:retry",
        "Send all running jobs that fit a filter back to the queue, a page at a time.",
        steering.requeue_jobs, {200: (JSON, BulkAnswer)}, NoQuery, Body(BulkBody), ("bad-cursor",),
    ),
    Operation(
        "holdJobs", "POST", "/jobs/hold", "jobs:hold", "Hold all jobs that fit a filter, a page at a time.",
        steering.hold_jobs, {200: (JSON, BulkAnswer)}, NoQuery, Body(BulkBody), ("bad-cursor",),
    ),
    Operation(
        "releaseJobs", "POST", "/jobs/release", "jobs:hold", "Release all jobs that fit a filter, a page at a time.",
        steering.release_jobs, {200: (JSON, BulkAnswer)}, NoQuery, Body(BulkBody), ("bad-cursor",),
    ),
    Operation(
        "updateJobs", "POST", "/jobs/update", "jobs:update", "Change all jobs that fit a filter, a page at a time.",
        steering.update_jobs, {200: (JSON, BulkAnswer)}, NoQuery, Body(BulkUpdateBody), ("bad-cursor",),
    ),
)  # fmt: skip
