"""Schedules: a job that is made again and again, and what came of it."""

from typing import Annotated, Literal

from msgspec import Meta

from ares.model.access import Permission, Role
from ares.model.base import Line, Note, Record, Slug
from ares.model.job import JobSpec

CRONS_PER_TENANT_MAX = 100
CronText = Annotated[str, Meta(min_length=1, max_length=256, pattern=r"^[\x20-\x7e]+$(?!\n)")]
# A name of the time zone database: "Europe/Berlin", "UTC".
ZoneName = Annotated[
    str, Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*(/[A-Za-z0-9._+-]+)*$(?!\n)")
]
# What is done about moments at which no server was there: nothing, or one job for all of them.
MissedRuns = Literal["skip", "once"]
# What is done while a job of an earlier firing has not ended: another one, none, or another one in its place.
Overlap = Literal["allow", "forbid", "replace"]
FiringOutcome = Literal["fired", "missed", "overlap", "refused"]


class CronOwner(Record, frozen=True):
    """The principal that made the schedule: each job is submitted with what is left of its rights."""

    token_id: str
    role: Role
    user: str = ""
    user_id: str = ""
    permissions: tuple[Permission, ...] | None = None


class CronFiring(Record, frozen=True):
    """What came of one moment."""

    # The moment that the schedule names, and when it was seen to.
    at: float
    done_at: float
    outcome: FiringOutcome = "fired"
    # The job, or with an overlap the one that still ran.
    job: str = ""
    message: Line = ""


class CronRecord(Record, frozen=True):
    """A schedule, replaced whole by compare-and-swap."""

    tenant: Slug
    name: Slug
    schedule: CronText
    spec: JobSpec
    owner: CronOwner
    zone: ZoneName = "UTC"
    missed: MissedRuns = "skip"
    overlap: Overlap = "forbid"
    # Why it does not fire; empty while it does.
    paused: Note = ""
    created_at: float = 0.0
    created_by: str = ""
    # Moments up to this one were seen to.
    considered_at: float = 0.0
    history: tuple[CronFiring, ...] = ()
