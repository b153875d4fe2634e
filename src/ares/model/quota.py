"""What a tenant, its teams and its users may have at most, and which of their bytes are on their way."""

from typing import Annotated, Literal

from msgspec import Meta

from ares.model.base import Line, Note, Number, Record, Slug
from ares.model.job import Priority

Amount = Annotated[float, Meta(ge=0.0, le=1e12)]
# Cores, GiB, GPUs, GPUs of one model, GPU-hours in a month, jobs that have not ended, jobs that wait, GiB of outputs
# kept, GiB of outputs downloaded in a month, MB of bulk bytes per second on all nodes together, and what may be spent
# in a month in the currency of the price list.
Measure = Annotated[
    str,
    Meta(
        max_length=80,
        pattern=r"^(cpu|memory|gpus(\.[A-Za-z0-9 ._-]+)?|gpu-hours|jobs(-queued)?|storage|egress|transfer|budget)"
        r"$(?!\n)",
    ),
]
# A user's name, or the id of a token of no user.
Subject = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._@+-]*$(?!\n)")]
OverBudget = Literal["warn", "stop"]
LevelName = Literal["tenant", "team", "user"]


class Limit(Record, frozen=True):
    """Of one measure. Beyond `soft` there is a warning, beyond `hard` nothing."""

    hard: Amount | None = None
    soft: Amount | None = None


class Limits(Record, frozen=True):
    """Of one level; what is not named is not limited."""

    amounts: Annotated[dict[Measure, Limit], Meta(max_length=64)] = {}
    # The highest priority its jobs may have.
    priority: Priority | None = None


class Quota(Record, frozen=True):
    """All limits of a tenant. A job counts for its tenant, its team and its user, and must fit into all three."""

    own: Limits = Limits()
    teams: Annotated[dict[Slug, Limits], Meta(max_length=1000)] = {}
    users: Annotated[dict[Subject, Limits], Meta(max_length=10_000)] = {}
    # For every team and every user that is not named.
    team_default: Limits = Limits()
    user_default: Limits = Limits()
    # A job is refused when use with it would reach this part of a limit; at 1, when it would be beyond the limit.
    threshold: Annotated[float, Meta(ge=0.1, le=1.0)] = 0.9
    # What becomes of jobs that cost something when jobs outlived their estimates and the budget is exceeded.
    over_budget: OverBudget = "warn"
    # The part of each limit that every cluster of a federation is lent ahead, for jobs that are submitted there.
    lend: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.1


class QuotaRecord(Record, frozen=True):
    """A tenant's quota as it is kept."""

    tenant: Slug
    quota: Quota
    by: str = ""
    at: float = 0.0
    note: Note = ""


class AdmissionRecord(Record, frozen=True):
    """Written with every job of a tenant that has a quota: of two admissions at once, one looks again. No two have the
    same `by`."""

    by: str = ""


class SpentRecord(Record, frozen=True):
    """What jobs used in a month that were forgotten before it was over, by level: "tenant", "team/x", "user/y"."""

    tenant: Slug
    month: str
    levels: dict[str, dict[str, int]] = {}


class MeterRecord(Record, frozen=True):
    """Bytes of outputs that one replica has served for a tenant in a month."""

    tenant: Slug
    month: str
    replica: str
    egress_bytes: int = 0


# ---- bytes on their way

# "fetch": files of projects; "image": images; "output": what attempts hand over; "data": datasets; "checkpoint".
TransferKind = Literal["fetch", "image", "output", "data", "checkpoint"]
BreakerPhase = Literal["closed", "open", "probing", "ramping"]
_MOVES_MAX = 2000


class TenantMoves(Record, frozen=True):
    """Of one tenant and kind on one node: bytes that passed in a second, and bytes that wait for their turn."""

    tenant: Line
    kind: TransferKind
    moved: Number = 0
    waiting: Number = 0


class BreakerState(Record, frozen=True):
    """An endpoint that a tenant's requests from one node stay away from."""

    endpoint: Line
    tenant: Line
    phase: BreakerPhase


class NodeMoves(Record, frozen=True):
    """What passes the door for bulk bytes of one node."""

    flows: Annotated[tuple[TenantMoves, ...], Meta(max_length=_MOVES_MAX)] = ()
    breakers: Annotated[tuple[BreakerState, ...], Meta(max_length=_MOVES_MAX)] = ()
    # Jobs that wait for an endpoint which is left alone.
    paused: Annotated[dict[Line, Line], Meta(max_length=_MOVES_MAX)] = {}


class TransferRecord(Record, frozen=True):
    """What nodes that are connected to one replica move, written again and again while they do."""

    replica: str
    nodes: dict[str, NodeMoves] = {}
    # How often: once a second where rates go by it.
    every_s: Annotated[float, Meta(ge=1.0, le=60.0)] = 1.0
