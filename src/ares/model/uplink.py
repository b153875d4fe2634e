"""What a cluster keeps of the global plane it belongs to, and what either side keeps of the other."""

from typing import Annotated, Literal

from msgspec import Meta

from ares.model.base import Fence, Instant, Line, Number, Record, Slug, Words
from ares.model.cluster import Possession
from ares.model.secret import SealedText

# With its global plane, cut off from it, or back and settling what happened meanwhile.
ClusterMode = Literal["FEDERATED", "AUTONOMOUS", "RECONCILING"]
JobId = Annotated[str, Meta(max_length=40, pattern=r"^[0-9a-z]{1,24}(_[0-9]{1,6})?$(?!\n)")]


class OfferedJob(Record, frozen=True):
    """A job as a cluster is offered it: what to run, for whom, and the fence that its attempts begin after."""

    job: JobId
    tenant: Slug
    name: Line
    # The specification, as JSON.
    spec: Annotated[bytes, Meta(max_length=1_000_000)]
    fence: Fence = Fence()
    submitted_by: Line = ""
    submitter_id: Line = ""
    trace: Line = ""
    submitted_at: Instant = 0.0
    cost_estimate: Annotated[float, Meta(ge=0.0, le=1e15)] = 0.0
    estimated_s: Instant = 0.0


class TakenJob(Record, frozen=True):
    """A job of the global plane in its cluster: one record, changed in the transaction that changes the job."""

    job: str
    tenant: str
    possession: Possession
    # Until the job is confirmed, which is when its own records are written.
    offer: OfferedJob | None = None
    # Its end is durable at the global plane.
    settled: bool = False
    # Made here before the job was accepted this time.
    attempts: Number = 0
    at: float = 0.0


class UplinkRecord(Record, frozen=True):
    """The global plane that this cluster belongs to, and what proves the cluster's identity there, sealed."""

    name: Slug
    # Where the global plane takes links, "host:port", and its API.
    servers: Annotated[tuple[Line, ...], Meta(min_length=1, max_length=16)]
    api: Line
    sealed: SealedText
    # The certificate has to be renewed before then; None for a token, which lasts.
    renew_at: float | None = None
    # Given by the global plane when the cluster is first there: local jobs' ids begin with it.
    code: str = ""
    generation: int = 0
    region: str = ""
    joined_at: float = 0.0
    by: str = ""
    # Grows whenever a leader of this cluster connects: tells a late report from a newer one.
    incarnation: int = 0
    mode: ClusterMode = "AUTONOMOUS"
    # Since when, and why, for people.
    mode_since: float = 0.0
    mode_why: str = ""
    # The epoch of this cluster's own store in which all that differed was last settled; 0: in none yet.
    healed_in: Number = 0


class UplinkProof(Record, frozen=True):
    """What is sealed: a certificate with its key and the authorities to trust, or on one machine a token."""

    credential: Words = ""
    authorities: Words = ""
    certificate: Words = ""
    key: Words = ""


# Within what a price, a rate or a wait can be, and never NaN.
_Amount = Annotated[float, Meta(ge=0.0, le=1e9)]
# Of one kind of machine: groups of machines with the same room, and sizes of jobs with the time of their start.
ROOMS_MAX, ETAS_MAX = 8, 32
LABELS_MAX, DATASETS_MAX = 512, 512


class ReportedRoom(Record, frozen=True):
    """So many machines on each of which at least this much is free."""

    machines: Number
    cpu_milli: Number = 0
    memory_mib: Number = 0
    gpus: Number = 0


class ReportedEta(Record, frozen=True):
    """A job of this size, and that runs no longer, would start within so many seconds, in four of five cases: by the
    cluster's own estimate."""

    cpu_milli: Number
    memory_mib: Number
    gpus: Number = 0
    ranks: Number = 1
    run_s: _Amount = 1e9
    eta80_s: _Amount = 0.0


class ReportedShape(Record, frozen=True):
    """Nodes that are alike: what one of them has, how many there are, and what is free on all of them together."""

    cpu_milli: Number
    memory_mib: Number
    gpus: Number = 0
    gpu_model: Line = ""
    gpu_memory_mib: Number = 0
    pool: Line = ""
    arch: Line = ""
    nodes: Number = 1
    free_cpu_milli: Number = 0
    free_memory_mib: Number = 0
    free_gpus: Number = 0
    # Where it is free. Without any, the sums above are all that is known.
    rooms: Annotated[tuple[ReportedRoom, ...], Meta(max_length=ROOMS_MAX)] = ()
    etas: Annotated[tuple[ReportedEta, ...], Meta(max_length=ETAS_MAX)] = ()
    # Whole machines of this kind that running jobs give back in an hour.
    drain_hour: _Amount = 0.0
    # Prices of an hour, as the cluster charges them; spot machines may be taken away, so often in an hour.
    gpu_hour: _Amount = 0.0
    cpu_hour: _Amount = 0.0
    memory_gib_hour: _Amount = 0.0
    spot: bool = False
    interruptions_hour: _Amount = 0.0
    # How long a machine takes to begin: of those that can be bought, and are not there yet.
    boot_s: _Amount = 0.0


class ClusterReport(Record, frozen=True):
    """What a cluster says of itself. Of two, the greater (incarnation, seq) is the newer one, whatever clocks say."""

    cluster: Slug
    incarnation: Number
    seq: Number
    shapes: Annotated[tuple[ReportedShape, ...], Meta(max_length=256)] = ()
    nodes: Number = 0
    ready_nodes: Number = 0
    # Jobs that wait there, and that run.
    pending: Number = 0
    running: Number = 0
    # How long the link takes to answer, as the cluster measured it.
    rtt_ms: Number = 0
    # Labels of its nodes, "key=value", and data that is on one of them; `more_labels`: there are others.
    labels: Annotated[tuple[Annotated[str, Meta(max_length=512)], ...], Meta(max_length=LABELS_MAX)] = ()
    more_labels: bool = False
    datasets: Annotated[tuple[Line, ...], Meta(max_length=DATASETS_MAX)] = ()
    # Local jobs that the global plane does not know yet.
    local: Number = 0
    version: Line = ""
    mode: Line = ""
