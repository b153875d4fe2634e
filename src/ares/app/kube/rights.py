"""What an agent of Kubernetes may do in its cluster, and how what it left is taken out."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, NamedTuple

import click
import yaml

from ares.app.config import Config
from ares.core.kube.pod import read_claim
from ares.model.kube import Pod
from ares.ports.kubernetes import Changed, KubeRefused, KubeUnavailable, Listed

NAME, AUTOSCALER = "ares-kube-agent", "ares-autoscaler"
# Where the agent listens for the helpers in its pods.
_DOOR = 8645
# What a list of all pods may take.
_LISTED_S = 120.0


def _kind(kind: str, group: str = "", **more: Any) -> dict[str, Any]:
    return {"apiVersion": f"{group}/v1" if group else "v1", "kind": kind, **more}


def objects_of(namespace: str, bind: str = "ares") -> list[dict[str, Any]]:
    """Everything but the agent itself. In all namespaces it only reads; pods it changes in its own alone. It binds
    them, or leaves that to kube-scheduler and makes claims on devices: it has the rights for one of the two."""
    everywhere = [{"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list", "watch"]}]
    placing = {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]}
    if bind == "kube":
        devices = {"apiGroups": ["resource.k8s.io"]}
        everywhere.append({**devices, "resources": ["resourceslices", "resourceclaims"], "verbs": ["list", "watch"]})
        placing = {**devices, "resources": ["resourceclaims"], "verbs": ["get", "create", "delete"]}
    rbac, within = "rbac.authorization.k8s.io", {"name": NAME, "namespace": namespace}
    subjects = [{"kind": "ServiceAccount", **within}]
    return [
        _kind("Namespace", metadata={"name": namespace}),
        _kind("ServiceAccount", metadata=within),
        _kind(
            "ClusterRole", rbac, metadata={"name": NAME}, rules=everywhere,
        ),
        _kind(
            "ClusterRoleBinding", rbac, metadata={"name": NAME}, subjects=subjects,
            roleRef={"apiGroup": rbac, "kind": "ClusterRole", "name": NAME},
        ),
        _kind(
            "Role", rbac, metadata=within,
            rules=[
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "create", "delete", "patch"]},
                placing,
                {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
                {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "create", "delete"]},
            ],
        ),
        _kind(
            "RoleBinding", rbac, metadata=within, subjects=subjects,
            roleRef={"apiGroup": rbac, "kind": "Role", "name": NAME},
        ),
        # By which ranks of a gang find each other, also before they are ready.
        _kind(
            "Service", metadata={"name": "ares-ranks", "namespace": namespace},
            spec={"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"ares/gang": "yes"}},
        ),
    ]  # fmt: skip


def autoscaler_of(namespace: str) -> list[dict[str, Any]]:
    """For servers whose pools buy nodes of this cluster: pods that ask for them, and nothing of jobs or secrets."""
    rbac, within = "rbac.authorization.k8s.io", {"name": AUTOSCALER, "namespace": namespace}
    subjects = [{"kind": "ServiceAccount", **within}]
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "create", "delete"]}]
    return [
        _kind("ServiceAccount", metadata=within),
        _kind(
            "ClusterRole", rbac, metadata={"name": AUTOSCALER},
            rules=[{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}],
        ),
        _kind(
            "ClusterRoleBinding", rbac, metadata={"name": AUTOSCALER}, subjects=subjects,
            roleRef={"apiGroup": rbac, "kind": "ClusterRole", "name": AUTOSCALER},
        ),
        _kind("Role", rbac, metadata=within, rules=rules),
        _kind(
            "RoleBinding", rbac, metadata=within, subjects=subjects,
            roleRef={"apiGroup": rbac, "kind": "Role", "name": AUTOSCALER},
        ),
    ]  # fmt: skip


class AgentPod(NamedTuple):
    """Where the agent itself runs, and whom it talks to."""

    image: str
    code: str
    servers: str
    url: str


def agent_of(namespace: str, agent: AgentPod, bind: str = "ares") -> list[dict[str, Any]]:
    """One at a time, never two: a stateful set starts no second pod before the first is known to be gone. Its volume
    keeps the identities of nodes, and output that is not sent yet. Helpers in pods reach it by the service."""
    labels, secret = {"app": NAME}, {"secretKeyRef": {"name": NAME, "key": "token"}}
    container = {
        "name": "agent",
        "image": agent.image,
        "args": [
            "kube-agent",
            "--cluster",
            agent.code,
            "--namespace",
            namespace,
            "--server",
            agent.servers,
            "--helper",
            agent.image,
            "--door",
            f"{NAME}.{namespace}.svc:{_DOOR}",
            "--bind",
            bind,
        ],
        "ports": [{"name": "door", "containerPort": _DOOR}],
        "env": [
            {"name": "ARES_HOME", "value": "/var/lib/ares"},
            {"name": "ARES_URL", "value": agent.url},
            {"name": "ARES_TOKEN", "valueFrom": secret},
        ],
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
        "volumeMounts": [{"name": "state", "mountPath": "/var/lib/ares"}],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    pod = {
        "serviceAccountName": NAME,
        "securityContext": {
            "runAsNonRoot": True, "runAsUser": 10001, "fsGroup": 10001, "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
    }  # fmt: skip
    volume = {
        "metadata": {"name": "state"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}},
    }
    within = {"name": NAME, "namespace": namespace}
    return [
        _kind("Service", metadata=within, spec={"selector": labels, "ports": [{"name": "door", "port": _DOOR}]}),
        _kind(
            "StatefulSet", "apps", metadata=within,
            spec={
                "replicas": 1, "serviceName": NAME, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
                "volumeClaimTemplates": [volume],
            },
        ),
    ]  # fmt: skip


def manifest_of(namespace: str, agent: AgentPod | None = None, bind: str = "ares", *, autoscaler: bool = False) -> str:
    parts = [*objects_of(namespace, bind), *([] if agent is None else agent_of(namespace, agent, bind))]
    parts += autoscaler_of(namespace) if autoscaler else ()
    return "---\n".join(yaml.dump(part, Dumper=_Plain, sort_keys=False, width=120) for part in parts)


class _Plain(yaml.SafeDumper):
    """What is said twice is written twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def uninstall(config: Config, yes: bool) -> int:
    return asyncio.run(_uninstall(config, yes))


async def _uninstall(config: Config, yes: bool) -> int:
    from ares.app.kube.agent import DOOR_SECRET, client_of

    api = client_of(config)
    try:
        async with asyncio.timeout(_LISTED_S):
            left = await _left(config, api.pods())
        for pod in left:
            if yes:
                await api.delete(pod.metadata.name, pod.metadata.uid, 30)
                await api.release(pod.metadata.name, pod.metadata.uid)
            click.echo(f"{pod.metadata.name}  {pod.status.phase}  {pod.spec.node_name or 'not bound'}")
        door = await api.secret(DOOR_SECRET)
        if yes and door is not None:
            await api.delete_secret(DOOR_SECRET, door.metadata.uid)
    except (TimeoutError, KubeUnavailable, KubeRefused) as error:
        why = str(error) or f"it did not list its pods within {_LISTED_S:g} s"
        raise click.ClickException(
            f"the cluster cannot be cleared now: {why}; what is done is done, run it again"
        ) from None
    finally:
        await api.close()
    done = "are removed" if yes else "would be removed; --yes does it"
    click.echo(f"{len(left)} pods of {config.kube.code} {done}")
    return 0


async def _left(config: Config, news: AsyncGenerator[Listed[Pod] | Changed[Pod], None]) -> list[Pod]:
    async for found in news:
        if isinstance(found, Listed):
            return [
                pod
                for pod in found.items
                if pod.metadata.namespace == config.kube.namespace and read_claim(pod, config.kube.code) is not None
            ]
    return []
