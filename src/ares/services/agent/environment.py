"""The environment a job sees: little of the agent's, its own, and what Ares tells it."""

from collections.abc import Mapping

from ares.model.link import Start
from ares.model.node import NodeInfo
from ares.services.agent.workspace import Folder

# Taken over from the agent. Everything else may hold secrets.
INHERITED = ("PATH", "LANG", "LC_ALL", "TZ")


def inherited(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: environment[name] for name in INHERITED if name in environment}


def job_environment(base: Mapping[str, str], start: Start, folder: Folder, info: NodeInfo) -> dict[str, str]:
    """Later lines win: a job may set its own PATH or HOME, never Ares' variables."""
    return {
        **base,
        "HOME": folder.work,
        "TMPDIR": folder.work,
        "OMP_NUM_THREADS": str(max(1, start.placement.cpu_milli // 1000)),
        **start.spec.env,
        **_identity(start, folder, info),
        **_ranks(start),
        **_devices(start, info),
    }


def _identity(start: Start, folder: Folder, info: NodeInfo) -> dict[str, str]:
    named = {
        "ARES_JOB_ID": start.ref.job,
        "ARES_ATTEMPT": str(start.attempt),
        "ARES_FENCE": str(start.ref.fence),
        "ARES_TENANT": start.ref.tenant,
        "ARES_NODE": info.name,
        "ARES_WORKDIR": folder.work,
        "ARES_RESULT_FILE": folder.result,
        "ARES_PROGRESS_FILE": folder.progress,
    }
    if start.array is not None and start.index is not None:
        named |= {"ARES_ARRAY_ID": start.array, "ARES_ARRAY_INDEX": str(start.index)}
    if start.trace:
        named["TRACEPARENT"] = start.trace
    return named


def _ranks(start: Start) -> dict[str, str]:
    # Each rank sees only its own devices, so its first is always number 0.
    return {"RANK": str(start.placement.rank), "LOCAL_RANK": "0", "WORLD_SIZE": str(start.world_size)}


def _devices(start: Start, info: NodeInfo) -> dict[str, str]:
    """An empty list hides every device. AMD's runtime also obeys the CUDA name, after renumbering."""
    granted = ",".join(str(index) for index in start.placement.gpus)
    amd = any(gpu.vendor == "amd" for gpu in info.gpus)
    if granted and amd:
        return {"ROCR_VISIBLE_DEVICES": granted}
    return {"CUDA_VISIBLE_DEVICES": granted, "ROCR_VISIBLE_DEVICES": ""}
