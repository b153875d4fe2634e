"""GPUs that Kubernetes gives by claims (DRA): which a node has, which are taken, and the claim of a pod's own."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple

from ares.core.kube import quantity
from ares.model.kube import KubeDevice, Pod, ResourceClaim, ResourceSlice
from ares.model.node import GPUS_MAX, Gpu

# What the pod calls its claim.
DEVICES: Final = "gpus"
# Drivers whose devices are GPUs. Their classes of devices have the same names.
_DRIVERS: Final[dict[str, Literal["nvidia", "amd"]]] = {"gpu.nvidia.com": "nvidia", "gpu.amd.com": "amd"}
# It becomes a part of an expression that the server runs: nothing but this.
_UUID: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._:-]*[A-Za-z0-9])?", re.ASCII)
_UUID_MAX: Final = 64
# Requests that one claim may have.
_REQUESTS_MAX: Final = 32
_MIB: Final = 1 << 40


class DeviceKey(NamedTuple):
    """As a claim's allocation names it."""

    driver: str
    pool: str
    device: str


class NodeGpu(NamedTuple):
    """A device as one GPU of its node. `uuid` is empty where its driver does not tell one that can be asked for."""

    key: DeviceKey
    uuid: str
    gpu: Gpu


def _text(device: KubeDevice, driver: str, name: str) -> str:
    found = device.attributes.get(name) or device.attributes.get(f"{driver}/{name}")
    return "" if found is None or found.string is None else found.string


def _printed(text: str) -> str:
    return "".join(letter for letter in text if letter.isprintable())[:256]


def _uuid(device: KubeDevice, driver: str) -> str:
    text = _text(device, driver, "uuid")
    return text if len(text) <= _UUID_MAX and _UUID.fullmatch(text) else ""


def _whole(device: KubeDevice, driver: str) -> bool:
    """A GPU, not a part of one, that its driver does not advise against."""
    return _text(device, driver, "type") in ("", "gpu") and not any(
        taint.effect in ("NoSchedule", "NoExecute") for taint in device.taints
    )


def _current(slices: Iterable[ResourceSlice]) -> list[ResourceSlice]:
    """Those of the newest generation of each pool, where all of them came: kube-scheduler waits for the rest, too."""
    pools: dict[tuple[str, str], list[ResourceSlice]] = {}
    for resource_slice in slices:
        spec = resource_slice.spec
        pools.setdefault((spec.driver, spec.pool.name), []).append(resource_slice)
    found = list[ResourceSlice]()
    for members in pools.values():
        newest = max(member.spec.pool.generation for member in members)
        members = [member for member in members if member.spec.pool.generation == newest]
        if len(members) == members[0].spec.pool.resource_slice_count:
            found += members
    return found


def gpus_of(slices: Iterable[ResourceSlice]) -> tuple[NodeGpu, ...]:
    """All GPUs of one node, taken or not, in an order that stays: a job is placed by the number of its GPU."""
    found = [
        (DeviceKey(current.spec.driver, current.spec.pool.name, device.name), device)
        for current in _current(each for each in slices if each.spec.driver in _DRIVERS)
        for device in current.spec.devices
        if _whole(device, current.spec.driver)
    ]
    found.sort(key=lambda pair: pair[0])
    return tuple(_gpu(number, key, device) for number, (key, device) in enumerate(found[:GPUS_MAX]))


def _gpu(number: int, key: DeviceKey, device: KubeDevice) -> NodeGpu:
    uuid, memory = _uuid(device, key.driver), device.capacity.get("memory")
    mib = 0 if memory is None else min(max(0, quantity.mib(memory.value)), _MIB)
    model = _printed(_text(device, key.driver, "productName")) or "GPU"
    named = uuid or _printed(f"{key.pool}/{key.device}")
    gpu = Gpu(index=number, uuid=named, model=model, memory_mib=mib, vendor=_DRIVERS[key.driver])
    return NodeGpu(key, uuid, gpu)


def taken_by(claim: ResourceClaim) -> frozenset[DeviceKey]:
    """Devices that a claim has."""
    allocation = claim.status.allocation
    results = () if allocation is None else allocation.devices.results
    return frozenset(DeviceKey(result.driver, result.pool, result.device) for result in results)


def device_claim(pod: Pod, gpus: Sequence[NodeGpu]) -> dict[str, Any]:
    """It asks for these very devices, where they can be told apart. It belongs to this pod, and goes with it."""
    meta = pod.metadata
    exact = all(gpu.uuid for gpu in gpus) and len(gpus) <= _REQUESTS_MAX
    requests = [_request(number, gpu) for number, gpu in enumerate(gpus)] if exact else _counted(gpus)
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace,
            "labels": dict(meta.labels),
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": meta.name, "uid": meta.uid}],
        },
        "spec": {"devices": {"requests": requests}},
    }


def _request(number: int, gpu: NodeGpu) -> dict[str, Any]:
    driver = gpu.key.driver
    known = f'device.attributes["{driver}"]'
    cel = {"expression": f'"uuid" in {known} && {known}.uuid == "{gpu.uuid}"'}
    exactly = {"deviceClassName": driver, "allocationMode": "ExactCount", "count": 1, "selectors": [{"cel": cel}]}
    return {"name": f"gpu-{number}", "exactly": exactly}


def _counted(gpus: Sequence[NodeGpu]) -> list[dict[str, Any]]:
    """Which ones is for kube-scheduler to say."""
    drivers = sorted({gpu.key.driver for gpu in gpus})
    return [
        {"name": f"gpu-{number}", "exactly": {
            "deviceClassName": driver, "allocationMode": "ExactCount",
            "count": sum(gpu.key.driver == driver for gpu in gpus)}}
        for number, driver in enumerate(drivers)
    ]  # fmt: skip
