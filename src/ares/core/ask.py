"""What one alternative of a job asks of the cluster: all that filters and scorers look at, and nothing else.

Jobs with equal asks are placed alike, so everything computed for one of them serves them all.
"""

from typing import NamedTuple

from ares.core.dataset import cached_name
from ares.core.forecast.estimate import Runs, runs_by_model
from ares.core.lifecycle.ranks import leaving_s, why_not_preemptible
from ares.model.isolation import LEVELS
from ares.model.job import (
    VERSION_MARK,
    DataInput,
    JobSpec,
    JobTerm,
    NodeTerm,
    NumaPolicy,
    Qos,
    Resources,
    TopologyLevel,
)

Pairs = tuple[tuple[str, str], ...]
# So many of a job's input references count for where it goes.
_REFS_MAX = 64


class Near(NamedTuple):
    """A `JobTerm` that can be a key."""

    labels: Pairs
    level: str
    away: bool
    required: bool
    weight: int
    # The job itself carries these labels.
    own: bool = False
    # Not the job's own term: jobs that have it run there, and it means this job.
    theirs: bool = False


class Ask(NamedTuple):
    """What one rank asks for, with what the whole gang needs beside it."""

    cpu_milli: int = 1000
    memory_mib: int = 256
    gpus: int = 0
    gpu_milli: int = 1000
    gpu_model: str | None = None
    gpu_memory_mib: int = 0
    devices: tuple[tuple[str, int], ...] = ()
    ranks: int = 1
    min_ranks: int = 1
    # 0: no limit.
    per_node: int = 0
    level: TopologyLevel | None = None
    level_required: bool = False
    numa: NumaPolicy = "none"
    qos: Qos = "guaranteed"
    selector: Pairs = ()
    terms: tuple[NodeTerm, ...] = ()
    near: tuple[Near, ...] = ()
    # The tenant of the jobs that `near` is about; empty without it, so that tenants share what is computed.
    tenant: str = ""
    tolerations: tuple[tuple[str, str | None], ...] = ()
    residency: tuple[str, ...] = ()
    inputs: tuple[tuple[str, int], ...] = ()
    # Run times by GPU model, where they differ.
    runs: Runs = ()
    # The reservation whose room the job uses: that and no other.
    reservation: str = ""
    # May not be preempted: kept off nodes that may be taken away.
    firm: bool = False
    # With a reservation: how long before its end the job is told to leave.
    leave_s: float = 0.0
    # The isolation level as an index of `LEVELS`; whether the job runs without a network, and in a container image.
    isolation: int = 0
    offline: bool = False
    image: bool = False
    # What the job starts with comes by an agent on its own machine: no pod of Kubernetes will do.
    staged: bool = False
    # It has files of a project, which only some pods can have.
    project: bool = False
    # Nodes where the job failed before: the last to be chosen.
    avoid: tuple[str, ...] = ()

    @property
    def gpus_milli(self) -> int:
        """GPU thousandths of one rank."""
        return self.gpus * self.gpu_milli


def asks_of(spec: JobSpec, tenant: str) -> tuple[Ask, ...]:
    """One ask for each alternative, in the job's order of preference."""
    first = _ask(spec, spec.resources, tenant)
    if not spec.alternatives:
        return (first,)
    runs = runs_by_model(spec)
    return (first, *(_with(first, wants, runs) for wants in spec.alternatives))


def _ask(spec: JobSpec, wants: Resources, tenant: str) -> Ask:
    gang, wish = spec.gang, spec.topology
    return Ask(
        wants.cpu_milli,
        wants.memory_mib,
        wants.gpus,
        wants.gpu_milli if wants.gpus else 1000,
        wants.gpu_model,
        wants.gpu_memory_mib,
        tuple(sorted(wants.devices.items())) if wants.devices else (),
        1 if gang is None else gang.ranks,
        1 if gang is None else (gang.min_ranks or gang.ranks),
        0 if gang is None else (gang.per_node or 0),
        None if wish is None else wish.level,
        wish is not None and wish.required,
        spec.numa,
        spec.qos,
        tuple(sorted(spec.selector.items())) if spec.selector else (),
        spec.affinity,
        nears_of(spec) if spec.job_affinity else (),
        tenant if spec.job_affinity else "",
        tuple((toleration.key, toleration.value) for toleration in spec.tolerations) if spec.tolerations else (),
        tuple(sorted(spec.residency)) if spec.residency else (),
        _inputs(spec, tenant) if spec.inputs or spec.input_refs else (),
        runs_by_model(spec) if wants.gpus else (),
        spec.reservation or "",
        bool(why_not_preemptible(spec)),
        leaving_s(spec) if spec.reservation else 0.0,
        LEVELS.index(spec.isolation),
        spec.network == "none",
        spec.image is not None,
        needs_machine(spec),
        spec.project is not None,
    )


def needs_machine(spec: JobSpec) -> bool:
    """Whether the job needs what only an agent on its own machine gives: files, environments, launchers, checkpoints,
    jobs of its own, a memory domain, a share of a GPU, an image that is fetched by an account."""
    given = spec.python or spec.runtime or spec.checkpoint or spec.restore_from
    image = spec.image is not None and not spec.image.ref.startswith("docker://")
    shared = spec.resources.gpus > 0 and spec.resources.gpu_milli < 1000
    wired = spec.children > 0 or spec.numa == "required" or any(data.from_ is not None for data in spec.inputs)
    wired = wired or any(ref.registry is not None for ref in spec.secrets)
    return bool(given) or image or shared or wired or bool(spec.resources.devices)


def _inputs(spec: JobSpec, tenant: str) -> tuple[tuple[str, int], ...]:
    """Data that nodes may have, by name with its size. A reference has no size: it counts as the smallest."""
    sized = {_known_as(given, tenant): given.size_mib for given in spec.inputs}
    return tuple(sorted((dict.fromkeys(spec.input_refs[:_REFS_MAX], 1) | sized).items()))


def _known_as(given: DataInput, tenant: str) -> str:
    """What is staged goes by what it comes from, a version of the tenant's: its name in the job says nothing to
    nodes."""
    _, mark, sha256 = (given.from_ or "").rpartition(VERSION_MARK)
    return cached_name(tenant, sha256) if mark else given.from_ or given.name


def _with(first: Ask, wants: Resources, runs: Runs) -> Ask:
    return first._replace(
        cpu_milli=wants.cpu_milli,
        memory_mib=wants.memory_mib,
        gpus=wants.gpus,
        gpu_milli=wants.gpu_milli if wants.gpus else 1000,
        gpu_model=wants.gpu_model,
        gpu_memory_mib=wants.gpu_memory_mib,
        devices=tuple(sorted(wants.devices.items())),
        runs=runs if wants.gpus else (),
    )


def nears_of(spec: JobSpec) -> tuple[Near, ...]:
    return tuple(_near(term, spec.labels) for term in spec.job_affinity)


def _near(term: JobTerm, labels: dict[str, str]) -> Near:
    own = all(labels.get(key) == value for key, value in term.labels.items())
    return Near(tuple(sorted(term.labels.items())), term.level, term.away, term.required, term.weight, own)


def away_of(nears: tuple[Near, ...]) -> tuple[Near, ...]:
    """The job's own terms that keep other jobs off as well."""
    return tuple(near for near in nears if near.away and near.required and near.labels and not near.theirs)
