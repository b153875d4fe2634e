"""A node that Ares buys of a Kubernetes cluster: a pod that has nowhere to run but on a node that is not there yet.

The cluster's own autoscaler sees that the pod waits, and makes a node for it. The pod stays there, takes no room, and
keeps the node until Ares deletes the pod: nodes are bought and given back by Ares' decisions alone.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ares.core.kube.ending import seconds
from ares.core.kube.inventory import POOL_LABEL
from ares.core.kube.pod import CLUSTER_LABEL, clean
from ares.model.kube import Pod
from ares.model.scaling import NodeShape

MACHINE_LABEL: Final = "ares/machine"
# The cluster of Ares: others may buy in the same namespace.
OWNER_LABEL: Final = "ares/owner"
_ID: Final = "ares/machine-id"
_HOST: Final = "kubernetes.io/hostname"
_STAYS: Final = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "karpenter.sh/do-not-disrupt": "true"}


class MachineTerms(NamedTuple):
    """What the operator says of all of them. `image` has a program `sleep`."""

    namespace: str
    code: str
    owner: str
    image: str


def machine_name(machine: str) -> str:
    return clean(f"ares-machine-{machine}")


def machine_of(pod: Pod, terms: MachineTerms) -> str:
    """The id of the machine that a pod keeps; empty where it is none of ours, or over."""
    meta, machine = pod.metadata, pod.metadata.annotations.get(_ID, "")
    owned = meta.labels.get(OWNER_LABEL) == clean(terms.owner) and meta.labels.get(CLUSTER_LABEL) == terms.code
    return machine if owned and meta.name == machine_name(machine) and not pod.over else ""


def made_at(pod: Pod) -> float:
    return seconds(pod.metadata.creation_timestamp)


def machine_pod(machine: str, pool: str, shape: NodeShape, hosts: Sequence[str], terms: MachineTerms) -> dict[str, Any]:
    """`hosts`: nodes of the pool that are there already; it is not for them."""
    name = machine_name(machine)
    labels = {
        MACHINE_LABEL: clean(machine), POOL_LABEL: pool, OWNER_LABEL: clean(terms.owner), CLUSTER_LABEL: terms.code,
    }  # fmt: skip
    alone = {
        "labelSelector": {"matchExpressions": [{"key": MACHINE_LABEL, "operator": "Exists"}]},
        "topologyKey": _HOST,
    }
    new = {"matchExpressions": [{"key": _HOST, "operator": "NotIn", "values": sorted(hosts)}]}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": terms.namespace,
            "labels": labels,
            "annotations": {_ID: machine, **_STAYS},
        },
        "spec": {
            "restartPolicy": "Always",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 1,
            "nodeSelector": {POOL_LABEL: pool, **shape.labels},
            "affinity": {
                "podAntiAffinity": {required: [alone]},
                **({"nodeAffinity": {required: {"nodeSelectorTerms": [new]}}} if hosts else {}),
            },
            "tolerations": [{"operator": "Exists"}],
            "containers": [_waiting(terms.image)],
        },
    }


def _waiting(image: str) -> dict[str, Any]:
    return {
        "name": "hold",
        "image": image,
        "command": ["sleep", "infinity"],
        "resources": {"requests": {"cpu": "0", "memory": "0"}, "limits": {"memory": "32Mi"}},
        "securityContext": {
            "runAsNonRoot": True, "runAsUser": 65534, "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"},
        },
    }  # fmt: skip
