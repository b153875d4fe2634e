"""The request to the executor: the job's command, environment, limits and CPUs."""

from typing import Final

import msgspec

from ares.agent.attempts.environment import job_environment
from ares.agent.attempts.workspace import Folder
from ares.agent.settings import AgentSettings
from ares.agent.staging.tenant_cache import cache_variables
from ares.model.job import MEMORY_BURST, Qos
from ares.model.link import Start
from ares.model.node import NodeInfo
from ares.ports.executor import Launch, Pin


class _Hold(msgspec.Struct, frozen=True):
    """What a QoS class means on the node: CPU weight, CPU limit and OOM score."""

    # Whether the CPU weight is the requested CPU, or the least weight there is.
    weighs: bool
    # Whether the requested CPU is also the limit.
    capped: bool
    oom_score_adj: int


_HOLDS: Final[dict[Qos, _Hold]] = {
    "guaranteed": _Hold(weighs=True, capped=True, oom_score_adj=0),
    "burstable": _Hold(weighs=True, capped=False, oom_score_adj=300),
    "best-effort": _Hold(weighs=False, capped=False, oom_score_adj=1000),
}
_LEAST_WEIGHT: Final = 1


def _memory_mib(qos: Qos, asked: int, node: int) -> int:
    return max(asked, min(MEMORY_BURST[qos] * asked, node))


def launch_of(start: Start, folder: Folder, info: NodeInfo, settings: AgentSettings, deadline: float) -> Launch:
    """Raises NoUidLeft or OSError when the tenant needs a user of its own and cannot have one."""
    placement, hold = start.placement, _HOLDS[start.spec.qos]
    uid = None if settings.owners is None else settings.owners.of(start.ref.tenant)
    # An image has no such directory.
    caches = None if start.spec.image is not None else settings.caches
    cache = None if caches is None else caches.of(start.ref.tenant, uid)
    base = (
        settings.environment
        if cache is None
        else {**settings.environment, **cache_variables(cache.path, start.spec.env)}
    )
    if settings.span_desk is not None:
        base = {**base, **settings.span_desk.variables(start)}
    return Launch(
        argv=start.spec.command,
        env=job_environment(base, start, folder, info),
        cwd=start.spec.workdir or folder.work,
        log_path=folder.log,
        memory_mib=_memory_mib(start.spec.qos, placement.memory_mib, info.memory_mib),
        cpu_milli=placement.cpu_milli if hold.weighs else _LEAST_WEIGHT,
        cpu_limit_milli=placement.cpu_milli if hold.capped else 0,
        oom_score_adj=hold.oom_score_adj,
        file_bytes_max=settings.file_bytes_max,
        processes_max=settings.processes_max,
        open_files_max=settings.open_files_max,
        deadline=deadline,
        pin=_pin(start, info),
        isolation=start.spec.isolation,
        network=start.spec.network,
        owner=start.ref.tenant,
        folders=(folder.path,),
        uid=uid,
        kept=() if cache is None else (cache,),
    )


def _pin(start: Start, info: NodeInfo) -> Pin | None:
    if (node := start.placement.numa) is None:
        return None
    cpus = next((numa.cpus for numa in info.numa if numa.index == node), ())
    return Pin(node=node, cpus=cpus, required=start.spec.numa == "required")
