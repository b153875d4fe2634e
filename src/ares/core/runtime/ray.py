"""A Ray cluster for the time of the attempt: its head beside the program on the first rank, workers on the others."""

from ares.core.refusal import Refusal
from ares.core.runtime.kind import Runtime, RuntimePlan, refused
from ares.core.runtime.verdict import root_of
from ares.model.job import JobSpec, RuntimeWish
from ares.model.link import Start

_MEMORY_PART = 0.3
# Ray before it ignores RAY_AUTH_MODE: any process that reaches its port could run code as the job.
_TOKENS = (2, 52)


def _admit(spec: JobSpec, wish: RuntimeWish) -> Refusal | None:
    if wish.procs is not None:
        return refused("Ray starts its processes itself", "leave out runtime.procs")
    elastic = spec.gang is not None and spec.gang.min_ranks is not None
    if wish.elastic != elastic:
        message = "an elastic gang and runtime.elastic go together: workers then come and go while the program runs"
        return refused(message, "set both gang.minRanks and runtime.elastic: true, or neither")
    return None


def _plan(start: Start, wish: RuntimeWish) -> RuntimePlan:
    place, first = start.placement, wish.head_cpus is not None and start.placement.rank == 0
    cpus = wish.head_cpus if first else max(1, place.cpu_milli // 1000)
    # Only what the rank holds: Ray would count all of the machine. Its objects are in memory of the rank, too.
    store = int(place.memory_mib * _MEMORY_PART) << 20
    own = (
        "--disable-usage-stats", "--node-ip-address=@OWN@", "--node-manager-port=@PORT2@",
        "--object-manager-port=@PORT3@", "--metrics-export-port=@PORT4@", "--min-worker-port=0", "--max-worker-port=0",
        f"--num-cpus={cpus}", f"--num-gpus={len(place.gpus)}", f"--object-store-memory={store}",
    )  # fmt: skip
    return RuntimePlan(
        meets=True,
        service_first=(
            "ray", "start", "--head", "--port=@PORT1@", "--include-dashboard=false", "--no-monitor",
            # Short: names of sockets below it have 107 bytes at most.
            f"--temp-dir=/tmp/ares-{start.ref.job}.{start.ref.fence}", *own,
        ),
        service=("ray", "start", "--address=@ADDRESS@:@FIRST1@", *own),
        service_least=_TOKENS,
        service_port=2,
        service_joins=1,
        ports=4,
        elastic=wish.elastic,
        env={
            "RAY_ADDRESS": "@ADDRESS@:@FIRST1@",
            # Every process that would join shows the key of this attempt.
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": start.key,
        },
    )  # fmt: skip


RAY = Runtime(_admit, _plan, root_of)
