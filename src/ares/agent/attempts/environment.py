"""A job's environment: a few variables of the agent, the job's own, and those that Ares sets."""

import re
from collections.abc import Mapping

from ares.agent.attempts.gang_place import variables
from ares.agent.attempts.workspace import Folder
from ares.core.admit.admission import RESERVED_ENV, RESERVED_PREFIX
from ares.core.topology.links import nearness
from ares.model.link import Start
from ares.model.node import NodeInfo

# Inherited from the agent. The agent's other variables may hold secrets.
INHERITED = ("PATH", "LANG", "LC_ALL", "TZ")
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]")
_MIG = "mig-"
_WHOLE_MILLI = 1000


def inherited(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: environment[name] for name in INHERITED if name in environment}


def job_environment(base: Mapping[str, str], start: Start, folder: Folder, info: NodeInfo) -> dict[str, str]:
    """Later entries win: a job may set its own PATH or HOME, but no variable that Ares sets. Its own PYTHONPATH comes
    before the one of Ares."""
    place = variables(start.world, start.placement.rank)
    named = {
        **base,
        "HOME": folder.work,
        "TMPDIR": folder.work,
        "OMP_NUM_THREADS": str(max(1, start.placement.cpu_milli // 1000)),
        # What only some frameworks read may be set by the job.
        **place,
        **start.spec.env,
        **_identity(start, folder, info),
        **{name: value for name, value in place.items() if name in RESERVED_ENV or name.startswith(RESERVED_PREFIX)},
        **_devices(start, info),
    }
    if "PYTHONPATH" in base and "PYTHONPATH" in start.spec.env:
        named["PYTHONPATH"] = f"{start.spec.env['PYTHONPATH']}:{base['PYTHONPATH']}"
    return named


def _identity(start: Start, folder: Folder, info: NodeInfo) -> dict[str, str]:
    named = {
        "ARES_JOB_ID": start.ref.job,
        "ARES_ATTEMPT": str(start.attempt),
        "ARES_FENCE": str(start.ref.fence),
        "ARES_TENANT": start.ref.tenant,
        "ARES_NODE": info.name,
        "ARES_WORKDIR": folder.work,
        "ARES_OUTPUT_DIR": folder.outputs,
        "ARES_RESULT_FILE": folder.result,
        "ARES_PROGRESS_FILE": folder.progress,
    }
    if start.array is not None and start.index is not None:
        named |= {"ARES_ARRAY_ID": start.array, "ARES_ARRAY_INDEX": str(start.index)}
    if start.spec.gang is not None:
        named["ARES_WORLD_FILE"] = folder.world
        if start.spec.gang.resize_signal is not None:
            named["ARES_RESIZE_SIGNAL"] = start.spec.gang.resize_signal
    if start.spec.children and start.placement.rank == 0:
        named["ARES_SUBMIT_SOCKET"] = folder.door
    if start.spec.checkpoint is not None:
        named["ARES_CHECKPOINT_DIR"] = folder.checkpoints
    if start.trace:
        named["TRACEPARENT"] = start.trace
    return named


def _devices(start: Start, info: NodeInfo) -> dict[str, str]:
    held = start.placement.devices
    named = {f"ARES_DEVICES_{_NOT_IN_NAMES.sub('_', kind).upper()}": ",".join(ids) for kind, ids in held.items()}
    slices = [uuid for kind, ids in sorted(held.items()) if kind.startswith(_MIG) for uuid in ids]
    named |= _visible(start.placement.gpus, slices, info)
    if start.placement.gpus and (milli := start.placement.gpu_milli) < _WHOLE_MILLI:
        named["ARES_GPU_MILLI"] = str(milli)
        # NVIDIA's multi-process service obeys it, where it runs. It takes whole percents.
        named["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(max(1, milli // 10))
    return named


def _visible(gpus: tuple[int, ...], slices: list[str], info: NodeInfo) -> dict[str, str]:
    """An empty list hides every device. AMD's runtime also obeys the CUDA name, after renumbering."""
    granted = ",".join(str(index) for index in gpus)
    uuids = [gpu.uuid for index in gpus for gpu in info.gpus if gpu.index == index]
    named = {"ARES_GPU_UUIDS": ",".join(uuids)} if uuids else {}
    if near := _nearest_nics(gpus, info):
        named["ARES_NICS"] = ",".join(near)
    if granted and any(gpu.vendor == "amd" for gpu in info.gpus):
        return {"ROCR_VISIBLE_DEVICES": granted, **named}
    if granted:
        # The driver's tool numbers GPUs by PCI address. CUDA by itself puts the fastest first.
        named["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    if slices:
        # MIG slices are named by UUID, and CUDA does not accept numbers beside UUIDs.
        granted = ",".join([*uuids, *slices])
    return {"CUDA_VISIBLE_DEVICES": granted, "ROCR_VISIBLE_DEVICES": "", **named}


def _nearest_nics(gpus: tuple[int, ...], info: NodeInfo) -> list[str]:
    """The network cards that are nearest to one of the GPUs at least, in the order of the GPUs."""
    names = list[str]()
    at_index = {gpu.index: at for at, gpu in enumerate(info.gpus)}
    for at in (at_index[index] for index in gpus if index in at_index):
        near = [(nearness(nic.links[at]) if at < len(nic.links) else 0, nic.name) for nic in info.nics]
        best = max((level for level, _ in near), default=0)
        names += [name for level, name in near if best and level == best and name not in names]
    return names
