"""What routing goes by: the job, and each cluster as its last report has it."""

from ares.model.base import Record
from ares.model.cluster import ClusterState


class RouteAsk(Record, frozen=True):
    """A job, as far as it matters for which cluster it goes to: jobs with equal ones are routed alike. `run_s` is its
    expected time on hardware that `runs` does not name."""

    cpu_milli: int = 1000
    memory_mib: int = 0
    gpus: int = 0
    gpu_model: str = ""
    gpu_memory_mib: int = 0
    arch: str = ""
    ranks: int = 1
    # At most so many ranks on one machine; 0: as many as fit.
    per_node: int = 0
    # Of so many ranks it starts at the least.
    min_ranks: int = 1
    run_s: float = 0.0
    # Run times by GPU model, where the job tells them apart.
    runs: tuple[tuple[str, float], ...] = ()
    # Labels that its machines must have, "key=value".
    selector: tuple[str, ...] = ()
    # May its machines be taken away?
    preemptible: bool = True
    # Regions it may run in; none: anywhere.
    residency: tuple[str, ...] = ()
    # Clusters that policies allow; None: all.
    allowed: frozenset[str] | None = None
    # What it may cost at most, and by when it must have ended, counted from now.
    budget: float | None = None
    deadline_s: float | None = None
    # GiB of each of its datasets, by name, and of its image.
    inputs: tuple[tuple[str, float], ...] = ()
    image: str = ""
    image_gib: float = 0.0
    # What is lost when it is interrupted: the time between its checkpoints, or all of it without any.
    checkpoint_s: float | None = None
    # Seconds that a unit of money is worth to it.
    money_s: float = 60.0


class ShapeRoom(Record, frozen=True):
    """One kind of machine in a cluster, as a job meets it."""

    cpu_milli: int
    memory_mib: int
    gpus: int = 0
    gpu_model: str = ""
    gpu_memory_mib: int = 0
    arch: str = ""
    pool: str = ""
    # Ranks like this one that fit now by the report, that offers since then have taken, and that would fit if nothing
    # ran; within how many seconds the next does with 80 % certainty.
    free: int = 0
    offered: int = 0
    holds: int | None = None
    eta80_s: float = 0.0
    # Jobs wait there, for room of this kind or behind others: then what is free may be kept for them.
    queued: bool = False
    # Ranks that become free in a second, while there is a queue.
    drain_per_s: float = 0.0
    # Of one rank.
    price_per_hour: float = 0.0
    boot_s: float = 0.0
    # Interruptions in an hour: of machines that their provider may take back.
    spot: bool = False
    interruptions_per_hour: float = 0.0
    # How fast the job's model runs on it.
    speed: float = 1.0

    @property
    def words(self) -> str:
        gpus = f"{self.gpus} x {self.gpu_model or 'GPU'}, " if self.gpus else ""
        where = f" in pool {self.pool}" if self.pool else ""
        return f"{gpus}{self.cpu_milli / 1000:g} cores, {self.memory_mib / 1024:.3g} GiB{where}"


class DataRoute(Record, frozen=True):
    """How data comes to a cluster from elsewhere: GiB in a second, and money for each GiB."""

    gib_per_s: float = 1.0
    egress_per_gib: float = 0.0


class RouteOption(Record, frozen=True):
    """A cluster that a job could go to. `report_age_s` by the global plane's own clock; None: it has not reported."""

    cluster: str
    state: ClusterState = "ACTIVE"
    region: str = ""
    shapes: tuple[ShapeRoom, ...] = ()
    # The report's version.
    incarnation: int = 0
    seq: int = 0
    report_age_s: float | None = 0.0
    rtt_s: float = 0.0
    # What it said when it was last asked to take this very job, a moment ago.
    declined: str = ""
    # Labels of its machines, "key=value"; None: more than a report has room for.
    labels: frozenset[str] | None = None
    # What is there already, and how the rest comes: by the name of the data, else in general.
    datasets: frozenset[str] = frozenset()
    images: frozenset[str] = frozenset()
    routes: dict[str, DataRoute] = {}
    route: DataRoute = DataRoute()
