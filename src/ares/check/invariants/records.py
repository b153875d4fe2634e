"""What the checkers read of the store: keys, and of each record only the fields that a promise speaks of.

Written apart from `ares.core.keys` and `ares.model`, so that a mistake there is not repeated here, and lenient, so that
records of other versions can be read: unknown fields are skipped, missing ones have the value they always had.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

ENDED = frozenset({"SUCCEEDED", "FAILED", "CANCELLED", "UNKNOWN", "SKIPPED"})
BOUND = frozenset({"STAGING", "RUNNING"})

# Job ids are nine random characters and seven of time; keys have the time first.
_RANDOM, _TIME = 9, 7


class Fence(msgspec.Struct, frozen=True, order=True, gc=False):
    epoch: int = 1
    counter: int = 0

    def __str__(self) -> str:
        return f"{self.epoch}.{self.counter}"


NO_FENCE = Fence(0, 0)
FIRST_FENCE = Fence()


@lru_cache(maxsize=65_536)
def fence_of(text: str) -> Fence:
    """`text` is "epoch.counter"; anything else is no fence, lower than all."""
    epoch, _, counter = text.partition(".")
    return Fence(int(epoch), int(counter)) if epoch.isdigit() and counter.isdigit() else NO_FENCE


class _Record(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    pass


class Place(_Record, frozen=True):
    """What one rank holds on a node."""

    node: str
    incarnation: int = 0
    cpu_milli: int = 0
    memory_mib: int = 0
    gpus: tuple[int, ...] = ()
    rank: int = 0
    gpu_milli: int = 1000
    devices: dict[str, tuple[str, ...]] = {}


class Resources(_Record, frozen=True):
    cpu_milli: int = 1000
    memory_mib: int = 256
    gpus: int = 0

    def __str__(self) -> str:
        return f"{self.cpu_milli} milli-CPUs, {self.memory_mib} MiB and {self.gpus} GPUs"


class Update(_Record, frozen=True):
    """Of what a job asks for instead of what its specification says."""

    resources: Resources | None = None


class Maker(_Record, frozen=True):
    """The attempt that submitted a job, and by which of its calls."""

    job: str
    call: int
    fence: Fence = FIRST_FENCE
    depth: int = 1


class Checkpoint(_Record, frozen=True):
    """The newest checkpoint of a job."""

    fence: Fence = FIRST_FENCE
    seq: int = 0
    manifest: str = ""
    step: int = 0
    nth: int = 0

    def __str__(self) -> str:
        return f"{self.fence}/{self.seq}/{self.manifest}"


class State(_Record, frozen=True):
    id: str
    tenant: str
    phase: str = "PENDING"
    seq: int = 0
    fence: Fence = FIRST_FENCE
    attempt: int = 0
    placements: tuple[Place, ...] = ()
    lingering: bool = False
    started_ranks: tuple[int, ...] = ()
    ended_ranks: tuple[int, ...] = ()
    leaving: tuple[Place, ...] = ()
    hold: tuple[Place, ...] = ()
    evicting: tuple[str, ...] = ()
    retries: dict[str, int] = {}
    restarts: int = 0
    manual_retries: int = 0
    array: str | None = None
    retry_of: str | None = None
    request_id: str | None = None
    submitted_by: str = ""
    team: str | None = None
    alternative: int = 0
    update: Update | None = None
    updates: int = 0
    index: int | None = None
    held_by: str = ""
    needs_met: bool = False
    flow: str | None = None
    is_finally: bool = False
    child_of: Maker | None = None
    checkpoint: Checkpoint | None = None


class Lost(_Record, frozen=True):
    rank: int


class Data(_Record, frozen=True):
    """Of a ledger entry's data, what says which ranks are gone, how, and by which rule a job left."""

    rank: int | None = None
    # A list of ranks, or of a resize how many.
    ranks: Any = None
    lost: tuple[Lost, ...] = ()
    rule: str = ""
    failure: str | None = None


class Entry(_Record, frozen=True):
    """One entry of a job's ledger."""

    job: str
    tenant: str
    seq: int
    kind: str
    phase: str
    attempt: int = 0
    fence: str = ""
    by: str = ""
    data: Data = Data()


class Exit(_Record, frozen=True):
    failure: str | None = None


class Output(_Record, frozen=True):
    path: str
    sha256: str


class Result(_Record, frozen=True):
    job: str
    fence: Fence = FIRST_FENCE
    exit: Exit = Exit()
    value: Any = None
    outputs: tuple[Output, ...] = ()


class Request(_Record, frozen=True):
    job: str
    payload_sha256: str = msgspec.field(name="payloadSha256", default="")


class Array(_Record, frozen=True):
    id: str
    tenant: str
    tasks: int = 0
    request_id: str | None = None
    expanded: bool = False
    throttle: int | None = None


class Firing(_Record, frozen=True):
    at: float
    outcome: str = "fired"
    job: str = ""


class Cron(_Record, frozen=True):
    tenant: str
    name: str
    history: tuple[Firing, ...] = ()


class Retry(_Record, frozen=True):
    limit: int = 3
    class_limits: dict[str, int] = {}


class Gang(_Record, frozen=True):
    ranks: int
    min_ranks: int | None = None


class Preemption(_Record, frozen=True):
    wait_s: float = 30.0


class NeededJob(_Record, frozen=True):
    job: str


class Condition(_Record, frozen=True):
    """One of a job's needs."""

    job: str | None = None
    of: tuple[NeededJob, ...] = ()
    k: int | None = None
    on: str = "success"
    each: bool = False
    at_step: int | None = None


class WaitLimit(_Record, frozen=True):
    after_s: float = 0.0
    then: str = "fail"


class Flow(_Record, frozen=True):
    id: str
    tenant: str
    jobs: int = 0
    whole: bool = False
    abandoned: bool = False


class GivenInput(_Record, frozen=True):
    name: str
    from_: str = msgspec.field(name="from", default="")

    @property
    def digest(self) -> str:
        return self.from_.partition("@sha256:")[2]


class Spec(_Record, frozen=True):
    resources: Resources = Resources()
    alternatives: tuple[Resources, ...] = ()
    needs: tuple[Condition, ...] = ()
    needs_timeout: WaitLimit | None = None
    on_impossible: str = "skip"
    retry: Retry = Retry()
    effects: str = "staged"
    restart: str = "on-failure"
    grace_s: float = 30.0
    lease_s: float = 0.0
    gang: Gang | None = None
    qos: str = "guaranteed"
    licences: dict[str, int] = {}
    preemption: Preemption = Preemption()
    inputs: tuple[GivenInput, ...] = ()


class Gpu(_Record, frozen=True):
    index: int


class Machine(_Record, frozen=True):
    name: str
    cpu_milli: int = 0
    memory_mib: int = 0
    gpus: tuple[Gpu, ...] = ()
    devices: dict[str, tuple[str, ...]] = {}
    pool: str = "default"


class Node(_Record, frozen=True):
    info: Machine
    incarnation: int = 0


class Share(_Record, frozen=True):
    soft: dict[str, int] = {}
    hard: dict[str, int] = {}


class Pool(_Record, frozen=True):
    overcommit_cpu: float = 1.0
    overcommit_memory: float = 1.0


class Preempting(_Record, frozen=True):
    cap: int = 3


class Profile(_Record, frozen=True):
    shares: dict[str, Share] = {}
    pools: dict[str, Pool] = {}
    licences: dict[str, int] = {}
    preemption: Preempting = Preempting()


class ProfileVersion(_Record, frozen=True):
    version: int
    profile: Profile = Profile()


class Limit(_Record, frozen=True):
    hard: float | None = None


class Limits(_Record, frozen=True):
    amounts: dict[str, Limit] = {}


class Limited(_Record, frozen=True):
    own: Limits = Limits()
    threshold: float = 0.9


class TenantQuota(_Record, frozen=True):
    tenant: str
    quota: Limited = Limited()


class Leader(_Record, frozen=True):
    replica: str


class Lease(_Record, frozen=True):
    node: str
    renewed_at: float = 0.0


class RetryBudget(_Record, frozen=True):
    root: str
    jobs: tuple[str, ...] = ()


class Epoch(_Record, frozen=True):
    epoch: int


# Of every kind of key that a promise speaks of: its record.
KINDS: dict[str, type[msgspec.Struct]] = {
    "/state/": State, "/events/": Entry, "/results/": Result, "/requests/": Request, "/jobs/": Spec,
    "/arrays/": Array, "/nodes/": Node, "/profiles/": ProfileVersion, "/leader/": Leader, "/retry/": RetryBudget,
    "/epoch": Epoch, "/leases/": Lease,
    "/quotas/": TenantQuota, "/crons/": Cron, "/flows/": Flow,
}  # fmt: skip
# By kind; what each gives is the record of that kind.
DECODERS: dict[str, Callable[[str], Any]] = {
    kind: msgspec.json.Decoder(record).decode for kind, record in KINDS.items()
}


def kind_of(key: str) -> str:
    end = key.find("/", 1)
    return key if end < 0 else key[: end + 1]


def tenant_of(key: str) -> str:
    return key.split("/", 3)[2]


def job_of(key: str) -> str:
    """The job that a key of /state/, /jobs/, /results/, /arrays/ or /retry/ is about."""
    return _turned(key.rsplit("/", 1)[1])


def entry_of(key: str) -> tuple[str, int]:
    """The job and the number that the key of a ledger entry names."""
    _, job, seq = key.rsplit("/", 2)
    return _turned(job), int(seq)


@lru_cache(maxsize=65_536)
def _turned(name: str) -> str:
    base, mark, task = name.partition("_")
    if len(base) == _RANDOM + _TIME:
        base = base[_TIME:] + base[:_TIME]
    return f"{base}{mark}{task}"
