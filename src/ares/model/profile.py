"""What scheduling goes by: the order of jobs, filters, weights, shares, pools and limits. Changed at run time."""

from typing import Annotated, Literal

from msgspec import Meta

from ares.model.base import Name, Note, Record, Slug
from ares.model.cluster import RoutingPolicy
from ares.model.job import GpuModel

Ratio = Annotated[float, Meta(ge=1.0, le=100.0)]
Price = Annotated[float, Meta(ge=0.0, le=1e6)]
Seconds = Annotated[float, Meta(ge=0.0, le=31_536_000.0)]
# "tenant", "tenant/team" or "tenant/team/user".
SharePath = Annotated[str, Meta(min_length=1, max_length=400, pattern=r"^[^\x00-\x1f\x7f]+$(?!\n)")]
ShareResource = Literal["cpu", "memory", "gpu"]
Watts = Annotated[float, Meta(ge=0.0, le=10_000.0)]
Amount = Annotated[int, Meta(ge=0, le=10**15)]
BackfillStrategy = Literal["greedy", "easy", "conservative", "aggressive", "deadline"]


class Weight(Record, frozen=True):
    """One named part of a sum: a scorer of nodes, or a factor of a job's rank."""

    name: str
    weight: Annotated[float, Meta(ge=0.0, le=1e6)]


class Share(Record, frozen=True):
    """What one tenant, team or user is entitled to. Units: thousandths of CPUs and GPUs, MiB of memory."""

    weight: Annotated[float, Meta(ge=0.001, le=1e6)] = 1.0
    # Its own: more is borrowed while no other account needs it, and taken back when one does.
    soft: dict[ShareResource, Amount] = {}
    # The account never gets more than this.
    hard: dict[ShareResource, Amount] = {}


class Pool(Record, frozen=True):
    """Nodes under one name: how far they are over-committed, and what they cost."""

    # Jobs below `guaranteed` QoS see this much more than there is.
    overcommit_cpu: Ratio = 1.0
    overcommit_memory: Ratio = 1.0
    # Prices, in any one currency.
    gpu_hour: Price = 0.0
    cpu_hour: Price = 0.0
    memory_gib_hour: Price = 0.0
    # Cheaper because it may be taken away: only for preemptible jobs. The factor is the part of the price that is due.
    spot: bool = False
    spot_factor: Annotated[float, Meta(ge=0.0, le=1.0)] = 1.0
    # How often in an hour one of its nodes is taken away, where it is spot: what an interruption may cost goes by it.
    interruptions_hour: Annotated[float, Meta(ge=0.0, le=3600.0)] = 0.0
    # Watts of one GPU at full load; 0: what its model is known for.
    gpu_watts: Watts = 0.0
    gpu_idle_watts: Watts | None = None
    # Watts of one CPU in use; None: as `energy.cpu_watts` says.
    cpu_watts: Watts | None = None
    # The scheduler places no job that would make its nodes together draw more; 0: no limit.
    power_cap_watts: Annotated[float, Meta(ge=0.0, le=1e9)] = 0.0


class EnergyPolicy(Record, frozen=True):
    """What machines draw where their pool does not say: an estimate, as nothing is measured."""

    # Watts of one logical CPU in use.
    cpu_watts: Watts = 3.0
    # Watts of one GPU at full load, by words of its model: "A100", "A100 PCIe". The most specific counts.
    gpu_watts: dict[GpuModel, Watts] = {}


class PreemptionPolicy(Record, frozen=True):
    # A job yields only to one this many priority levels above it.
    gap: Annotated[int, Meta(ge=1, le=5)] = 2
    # At most this many times the GPUs (without GPUs: the CPUs) asked for may be evicted. Victims just `gap` levels
    # below count in full, each further level down halves what they count, and BEST_EFFORT counts nothing for CRITICAL.
    disruption_max: Annotated[float, Meta(ge=1.0, le=1000.0)] = 2.0
    # A job that has run for less is left alone, and so is a job that was preempted this recently.
    min_runtime_s: Seconds = 60.0
    cooldown_s: Seconds = 300.0
    # How often one job can be preempted in its life.
    cap: Annotated[int, Meta(ge=0, le=1000)] = 3


class BackfillPolicy(Record, frozen=True):
    """Who may start before a job that waits for room. Without the action "backfill" nobody may."""

    # greedy: any job that fits. easy: jobs that do not delay the first `reservations` waiting jobs. conservative:
    # jobs that delay no waiting job. aggressive: as easy, but each may be delayed by `delay_max_s` in all.
    # deadline: jobs that delay neither the first waiting job nor a job with a deadline behind it.
    strategy: BackfillStrategy = "easy"
    reservations: Annotated[int, Meta(ge=1, le=10_000)] = 1
    # In which order jobs behind are tried: by rank, or the shortest first.
    order: Literal["rank", "shortest"] = "rank"
    # How many jobs behind the first that waits are looked at in one cycle; 0: all.
    depth: Annotated[int, Meta(ge=0, le=1_000_000)] = 1000
    delay_max_s: Seconds = 600.0
    # Whether the room of a promise that slipped is kept as it comes free. Without it, EASY as it was published: jobs
    # that end before the new start may enter, again and again, and nothing bounds the wait where jobs run too long.
    drain: bool = True
    # Room is held, and starts are promised, by the longest run time that is known, or by the likely one. Likely holds
    # fill gaps better, and promises are guesses: once the first in line has waited for `guard_s` as the first, plans
    # go by time limits until it has started.
    hold: Literal["longest", "likely"] = "longest"
    guard_s: Seconds = 43_200.0


class Sla(Record, frozen=True):
    """A class of service: how soon after its submission a job that names it should have started or ended."""

    start_within_s: Annotated[float, Meta(ge=1.0, le=31_536_000.0)] | None = None
    end_within_s: Annotated[float, Meta(ge=1.0, le=31_536_000.0)] | None = None
    # How many of its jobs should meet that. What may miss it is the class's error budget.
    target_percent: Annotated[float, Meta(ge=0.0, le=100.0)] = 95.0


class PredictionPolicy(Record, frozen=True):
    """How long jobs are taken to run."""

    # stated: what the job says, else its time limit. history: what like jobs took. best: what the job says, until the
    # history of its account has proven nearer to the truth; in place of a bare time limit, history at once.
    source: Literal["best", "stated", "history"] = "best"
    # How many runs of a kind it takes to go by them.
    min_samples: Annotated[int, Meta(ge=1, le=16)] = 1
    # A job that outlives its estimate is planned by its time limit, or in steps: a minute more, then five, and so on.
    correction: Literal["limit", "steps"] = "limit"


class IdlePolicy(Record, frozen=True):
    """When a job is taken not to use the GPUs it holds, and what is done about it: it is told."""

    # Busy less than this, with less of their memory in use: all of its GPUs, for so long, and not at its beginning.
    busy_below: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.05
    memory_below: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.8
    after_s: Annotated[float, Meta(ge=60.0, le=31_536_000.0)] = 900.0
    grace_s: Seconds = 600.0
    # So long after it was told it is cancelled; 0: never.
    stop_after_s: Seconds = 0.0
    # At most so many, by each replica.
    stops_per_hour: Annotated[int, Meta(ge=0, le=1000)] = 4


class OrderPolicy(Record, frozen=True):
    """A job's rank is the sum of the primary factors; between equal ranks the sum of the secondary ones decides."""

    primary: tuple[Weight, ...] = (
        Weight(name="priority", weight=1000.0),
        Weight(name="age", weight=1000.0),
        Weight(name="deadline", weight=800.0),
        Weight(name="drf", weight=900.0),
        Weight(name="fair-share", weight=400.0),
        # More than drf and fair-share: in the end no share keeps a wide job behind narrow ones that came later.
        Weight(name="size", weight=2000.0),
        # An hour of service counts as 64 hours of waiting, against jobs that save their work.
        Weight(name="served", weight=64000.0),
    )
    secondary: tuple[Weight, ...] = ()
    # Waiting this long is worth one priority level.
    ageing_s: Annotated[float, Meta(ge=1.0, le=31_536_000.0)] = 21_600.0
    # After this long, use counts half.
    half_life_s: Annotated[float, Meta(ge=1.0, le=31_536_000.0)] = 604_800.0
    # A deadline begins to count when this much slack is left.
    horizon_s: Annotated[float, Meta(ge=1.0, le=31_536_000.0)] = 86_400.0


class Profile(Record, frozen=True):
    """Names are those of built-in filters, scorers, order factors and actions, or of installed plugins."""

    # The last filter that some node reached gives the reason: filters that look at lasting facts come first.
    filters: tuple[str, ...] = (
        "selector", "affinity", "residency", "taints", "gpus-declared", "devices-declared",
        "health", "job-affinity", "gpus", "devices", "cpu", "memory", "numa",
    )  # fmt: skip
    # Fit and balance decide between nodes that the others find alike: what fragmentation finds out is what they guess.
    scorers: tuple[Weight, ...] = (
        Weight(name="fit", weight=0.3),
        Weight(name="affinity", weight=20.0),
        Weight(name="balance", weight=0.2),
        Weight(name="locality", weight=20.0),
        Weight(name="cost", weight=10.0),
        Weight(name="fragmentation", weight=100.0),
        Weight(name="bandwidth", weight=5.0),
        Weight(name="energy", weight=0.0),
        Weight(name="speed", weight=200.0),
    )
    # Least disruptive first.
    actions: tuple[str, ...] = (
        "claim", "pace", "allocate", "backfill", "shrink", "reclaim", "preempt", "rotate", "grow",
    )  # fmt: skip
    order: OrderPolicy = OrderPolicy()
    preemption: PreemptionPolicy = PreemptionPolicy()
    backfill: BackfillPolicy = BackfillPolicy()
    prediction: PredictionPolicy = PredictionPolicy()
    shares: dict[SharePath, Share] = {}
    pools: dict[Name, Pool] = {}
    # Of all prices, by its ISO 4217 code such as EUR; empty: not said.
    currency: Annotated[str, Meta(max_length=3, pattern=r"^([A-Z]{3})?$(?!\n)")] = ""
    # Which cluster a job goes to, where this control plane is a global plane.
    routing: RoutingPolicy = RoutingPolicy()
    energy: EnergyPolicy = EnergyPolicy()
    idle: IdlePolicy = IdlePolicy()
    slas: dict[Slug, Sla] = {}
    # Cluster-wide resources: how many there are.
    licences: dict[Name, Annotated[int, Meta(ge=0, le=1_000_000)]] = {}
    # Keeps one cycle short, so that the loop around it stays responsive.
    max_placements_per_cycle: Annotated[int, Meta(ge=1, le=100_000)] = 512


class ProfileRecord(Record, frozen=True):
    """One version of the profile. The highest version is in force; reverting writes an old one anew."""

    version: int
    profile: Profile
    by: str = ""
    at: float = 0.0
    note: Note = ""


# ---- a profile that is tried without being in force


ShadowObjective = Literal["slowdown", "wait", "jct"]
ShadowPolicy = Literal["by-hand", "when-better"]
# held: only judged. promoted: in force, and judged on. reverted: it was worse, and what was before is in force again.
# superseded: another version came into force after it.
ShadowPhase = Literal["held", "promoted", "reverted", "superseded"]
# waits-longer: the longest wait would be beyond what is bearable, whatever is won. too-few: nothing can be said yet.
ShadowVerdict = Literal["better", "worse", "waits-longer", "no-difference", "too-few"]


class ShadowFigures(Record, frozen=True):
    """Of the jobs that count, under one of the two profiles."""

    bounded_slowdown: float
    mean_wait_s: float
    mean_jct_s: float
    p95_wait_s: float
    p999_wait_s: float
    longest_wait_s: float
    # Jobs that would never have started or ended.
    unfinished: int = 0


class ShadowJudgement(Record, frozen=True):
    """The same jobs, replayed under the profile it is compared with and under the shadow."""

    at: float
    # The version it was compared with.
    version: int
    # Jobs that count, by when they came; `others` only held room.
    jobs: int
    others: int
    since: float
    until: float
    base: ShadowFigures
    shadow: ShadowFigures
    verdict: ShadowVerdict
    # By which part the objective is better; below 0: worse. That it is within low and high is wrong by `chance`.
    gain: float
    chance: float
    low: float | None = None
    high: float | None = None
    blocks: int = 0
    # What was compared block by block: weeks, days, or parts of equal length.
    of: str = ""


class ShadowRecord(Record, frozen=True):
    """The profile that is tried on the jobs that come, and what was found. There is one at most."""

    profile: Profile
    objective: ShadowObjective = "slowdown"
    promotes: ShadowPolicy = "by-hand"
    by: str = ""
    at: float = 0.0
    note: Note = ""
    phase: ShadowPhase = "held"
    # Only jobs submitted from then on count: none that it may have been made from.
    since: float = 0.0
    # Once promoted: the version that it became, and what was in force before.
    version: int = 0
    former_version: int = 0
    former: Profile | None = None
    # How often it was judged in this phase: each look makes a verdict by chance likelier, so each asks for more.
    looks: int = 0
    judgement: ShadowJudgement | None = None
    # The last thing that happened to it, for people.
    told: str = ""
