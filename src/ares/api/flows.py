"""Workflows: what is sent, and what became of their jobs."""

from typing import Annotated

from msgspec import Meta

from ares.model.base import Name, Record, RequestId, Shown
from ares.model.job import JobSpec, NeedCondition, ParentName
from ares.model.state import Phase


class FlowBody(Record, frozen=True):
    """Jobs by name, up to 10,000. What they wait for are names of the workflow, or ids of jobs that exist."""

    jobs: Annotated[dict[ParentName, JobSpec], Meta(min_length=1, max_length=10_000)]
    name: Name = "flow"
    # The same id with the same payload gives the same workflow.
    request_id: RequestId | None = None


class FlowRetryBody(Record, frozen=True):
    """Which jobs run again, with all that come after them; without names, all that did not succeed."""

    jobs: Annotated[tuple[ParentName, ...], Meta(max_length=1000)] = ()


class FlowCreated(Shown, frozen=True):
    """An accepted workflow. `ids` are those of its jobs, by name."""

    id: str
    name: str
    replayed: bool
    jobs: int
    tasks: int
    ids: dict[str, str]
    links: dict[str, str] = {}


class FlowEdge(Shown, frozen=True):
    """A job of the same workflow by its name, or another job by its id."""

    job: str
    on: NeedCondition


class FlowJob(Shown, frozen=True):
    """A job of a workflow; an array is one job with several tasks."""

    name: str
    id: str
    phase: Phase
    tasks: int = 1
    needs: tuple[FlowEdge, ...] = ()
    is_finally: bool = False
    reason: str = ""
    started_at: float | None = None
    ended_at: float | None = None
    # How many jobs it submitted while it ran, by phase.
    child_counts: dict[Phase, int] = {}


class FlowDetail(Shown, frozen=True):
    """A workflow with all its jobs. `whole`: all of it was accepted."""

    id: str
    name: str
    submitted_by: str
    submitted_at: float
    whole: bool
    retry_of: str | None = None
    counts: dict[Phase, int] = {}
    jobs: tuple[FlowJob, ...] = ()
