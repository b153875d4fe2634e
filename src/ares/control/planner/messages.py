"""Messages between the serving process and the planner. Both are of one version: no message is ever stored."""

import msgspec

from ares.api.decisions import Promise
from ares.api.reasons import Reason
from ares.core.capacity.typical import TypicalData
from ares.core.forecast.estimate import Estimate
from ares.core.queue.usage import UsageData
from ares.core.schedule.plan import Plan
from ares.model.isolation import Isolation
from ares.model.node import NodeRecord
from ares.model.profile import Profile
from ares.model.reservation import Reservation
from ares.model.state import JobState


class _Message(msgspec.Struct, frozen=True, array_like=True, gc=False):
    pass


class JobNews(_Message, frozen=True):
    """A job's record, with how long it is expected to run while it waits: the planner itself learns nothing."""

    state: JobState
    estimate: Estimate | None = None
    # It waits with another planner: only what it holds, or what is kept for it, matters.
    foreign: bool = False


class PlannerRules(_Message, frozen=True):
    """What changes seldom, all of it: the planner begins anew with it."""

    profile: Profile
    # Of tenants that ask for any.
    isolation: dict[str, Isolation] = {}
    # Plugins, "kind name", that are not to be entered, with what happened.
    cut: dict[str, str] = {}
    # Which planner this is, and of how many.
    planner: int = 0
    planners: int = 1


class News(_Message, frozen=True):
    """What changed since the planner was last told. Every part may be repeated."""

    now: float
    rules: PlannerRules | None = None
    nodes: tuple[NodeRecord, ...] = ()
    nodes_gone: tuple[str, ...] = ()
    ready: dict[str, bool] = {}
    # By job, or by array.
    specs: dict[str, bytes] = {}
    jobs: tuple[JobNews, ...] = ()
    jobs_gone: tuple[str, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    reservations_gone: tuple[str, ...] = ()
    promises: tuple[Promise, ...] | None = None
    # What was told to jobs that the latest plan promised nothing: not forgotten.
    told: tuple[Promise, ...] = ()
    # Arrays that are throttled, or not any more.
    throttles: dict[str, int | None] = {}
    # With several planners: which of them a node is the home of, for the nodes of these news.
    homes: dict[str, int] = {}
    # Starts that other planners promised, or not any more.
    claimed: dict[str, Promise | None] = {}
    # Everything that is known about use, instead of what the planner made of the records.
    used: UsageData | None = None
    # And about the common shapes of jobs.
    typical: TypicalData | None = None


class PlanRequest(_Message, frozen=True):
    """A plan, as of now. `budget_s` is how long it may take; so many decisions are kept whole."""

    now: float
    budget_s: float
    keep: int = 0
    gentle: bool = False


class Question(_Message, frozen=True):
    news: News
    plan: PlanRequest | None = None


class PluginFailure(_Message, frozen=True):
    """A third party's code raised, or answered with what is no answer."""

    plugin: str
    error: str


class PlannerAnswer(_Message, frozen=True):
    plan: Plan | None = None
    # Of each job that the plan names, the number of the record it was planned by.
    seqs: dict[str, int] = {}
    took_s: float = 0.0
    failures: tuple[PluginFailure, ...] = ()
    # By job, where only the planner can say: third parties' filters.
    reasons: dict[str, Reason] = {}
