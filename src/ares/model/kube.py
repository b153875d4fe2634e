"""What Ares reads of Kubernetes' objects: the fields it goes by, as they come. All others are left out."""

import msgspec
from msgspec import field


class KubeValue(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A part of an object."""


class OwnerReference(KubeValue, frozen=True):
    kind: str = ""
    uid: str = ""


class ObjectMeta(KubeValue, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    creation_timestamp: str | None = None
    # With the grace period: the end of it, not the request.
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    owner_references: tuple[OwnerReference, ...] = ()


# ---- pods


class ContainerWaiting(KubeValue, frozen=True):
    reason: str = ""
    message: str = ""


class ContainerRunning(KubeValue, frozen=True):
    started_at: str | None = None


class ContainerEnd(KubeValue, frozen=True):
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None


class ContainerState(KubeValue, frozen=True):
    waiting: ContainerWaiting | None = None
    running: ContainerRunning | None = None
    terminated: ContainerEnd | None = None


class ContainerStatus(KubeValue, frozen=True):
    name: str = ""
    state: ContainerState = ContainerState()


class KubeCondition(KubeValue, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class ContainerResources(KubeValue, frozen=True):
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}


class PodContainer(KubeValue, frozen=True):
    resources: ContainerResources = ContainerResources()
    restart_policy: str = ""


class SchedulingGate(KubeValue, frozen=True):
    name: str = ""


class PodSpec(KubeValue, frozen=True):
    node_name: str = ""
    scheduler_name: str = ""
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    containers: tuple[PodContainer, ...] = ()
    init_containers: tuple[PodContainer, ...] = ()
    overhead: dict[str, str] = {}


class PodStatus(KubeValue, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[KubeCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(KubeValue, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def over(self) -> bool:
        """No container of it runs, or ever will, by the kubelet's word."""
        return self.status.phase in ("Succeeded", "Failed")


# ---- secrets


class KubeSecret(KubeValue, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    # In base64.
    data: dict[str, str] = {}


# ---- nodes


class KubeTaint(KubeValue, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(KubeValue, frozen=True):
    taints: tuple[KubeTaint, ...] = ()
    unschedulable: bool = False


class NodeAddress(KubeValue, frozen=True):
    type: str = ""
    address: str = ""


class NodeSystem(KubeValue, frozen=True):
    kernel_version: str = ""
    kubelet_version: str = ""


class NodeStatus(KubeValue, frozen=True):
    allocatable: dict[str, str] = {}
    conditions: tuple[KubeCondition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    node_info: NodeSystem = NodeSystem()


class KubeNode(KubeValue, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


# ---- devices that are given by claims (resource.k8s.io/v1)


class DeviceAttribute(KubeValue, frozen=True):
    string: str | None = None


class DeviceCapacity(KubeValue, frozen=True):
    value: str = "0"


class DeviceTaint(KubeValue, frozen=True):
    effect: str = ""


class KubeDevice(KubeValue, frozen=True):
    name: str = ""
    attributes: dict[str, DeviceAttribute] = {}
    capacity: dict[str, DeviceCapacity] = {}
    taints: tuple[DeviceTaint, ...] = ()


class SlicePool(KubeValue, frozen=True):
    """Of several slices the newest generation counts, when all of it is there."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 1


class SliceSpec(KubeValue, frozen=True):
    driver: str = ""
    pool: SlicePool = SlicePool()
    # Empty: its devices are not of one node.
    node_name: str = ""
    devices: tuple[KubeDevice, ...] = ()


class ResourceSlice(KubeValue, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: SliceSpec = SliceSpec()


class DeviceResult(KubeValue, frozen=True):
    driver: str = ""
    pool: str = ""
    device: str = ""


class AllocatedDevices(KubeValue, frozen=True):
    results: tuple[DeviceResult, ...] = ()


class ClaimAllocation(KubeValue, frozen=True):
    devices: AllocatedDevices = AllocatedDevices()


class ClaimStatus(KubeValue, frozen=True):
    allocation: ClaimAllocation | None = None


class ResourceClaim(KubeValue, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    status: ClaimStatus = ClaimStatus()


# ---- lists, watches, refusals


class ListMeta(KubeValue, frozen=True):
    resource_version: str = ""
    continue_: str = field(name="continue", default="")


class KubeRefusal(KubeValue, frozen=True):
    """The server's own words for a "no"."""

    code: int = 0
    reason: str = ""
    message: str = ""
