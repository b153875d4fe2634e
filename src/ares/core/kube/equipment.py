"""What a pod has beside its job's own container: a secret with the values that it is given, and a helper that asks
leave to start, stages files and hands output files over."""

import base64
import hashlib
from typing import Any, Final

from ares.model.base import Record
from ares.model.kube import Pod
from ares.model.link import Start

# Volumes of the pod, as its containers see them.
FILES: Final = "/ares"
WORK: Final = "/ares/work"
OUTPUTS: Final = "/ares/outputs"
SECRETS: Final = "/ares-secrets"
# Keys of the pod's secret: the helper's own, and a prefix of the job's.
TOKEN_KEY: Final = "helper.token"
CERTIFICATE_KEY: Final = "helper.certificate"
JOB_PREFIX: Final = "job."
# Containers of the helper: before the job's, and beside it.
STAGE: Final = "ares-stage"
COLLECT: Final = "ares-collect"


class PodHelper(Record, frozen=True):
    """An image with Ares in it, and where its container reaches the agent, as HOST:PORT."""

    image: str
    door: str


def token_digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest() if token else ""


def secret_manifest(pod: Pod, start: Start, token: str, certificate: str) -> dict[str, Any]:
    """It belongs to this very pod, and goes with it."""
    values = {f"{JOB_PREFIX}{given.name}": given.value.reveal() for given in start.secrets}
    if token:
        values |= {TOKEN_KEY: token.encode(), CERTIFICATE_KEY: certificate.encode()}
    meta = pod.metadata
    owner = {"apiVersion": "v1", "kind": "Pod", "name": meta.name, "uid": meta.uid}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "immutable": True,
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace,
            "labels": dict(meta.labels),
            "ownerReferences": [owner],
        },
        "data": {key: base64.b64encode(value).decode() for key, value in values.items()},
    }


def secret_env(name: str, start: Start) -> list[dict[str, Any]]:
    """Variables of the job's container that secrets fill."""
    return [_from_secret(given.env, name, f"{JOB_PREFIX}{given.name}") for given in start.secrets if given.env]


def _from_secret(variable: str, name: str, key: str) -> dict[str, Any]:
    return {"name": variable, "valueFrom": {"secretKeyRef": {"name": name, "key": key}}}


def equip(spec: dict[str, Any], name: str, start: Start, helper: PodHelper | None) -> None:
    """Adds volumes and the helper's containers to a pod's specification whose first container is the job's."""
    volumes, mounts = list[dict[str, Any]](), list[dict[str, Any]]()
    files = [given for given in start.secrets if given.file]
    if files:
        items = [{"key": f"{JOB_PREFIX}{given.name}", "path": given.file} for given in files]
        volumes.append({"name": "secrets", "secret": {"secretName": name, "items": items, "defaultMode": 0o444}})
        mounts.append({"name": "secrets", "mountPath": SECRETS, "readOnly": True})
    if helper is not None:
        volumes.append({"name": "files", "emptyDir": {}})
        mounts.append({"name": "files", "mountPath": FILES})
        spec["initContainers"] = [_helper(STAGE, "stage", name, helper)]
        spec["containers"].append(_helper(COLLECT, "collect", name, helper))
    if volumes:
        spec["volumes"] = volumes
        spec["containers"][0]["volumeMounts"] = mounts


def _helper(container: str, what: str, name: str, helper: PodHelper) -> dict[str, Any]:
    return {
        "name": container,
        "image": helper.image,
        "command": ["ares", "kube", "helper", what],
        "env": [
            {"name": "ARES_DOOR", "value": helper.door},
            {"name": "ARES_POD", "value": name},
            {"name": "ARES_FILES", "value": FILES},
            _from_secret("ARES_POD_TOKEN", name, TOKEN_KEY),
            _from_secret("ARES_DOOR_CERTIFICATE", name, CERTIFICATE_KEY),
        ],
        # The job's room is what it asked for: the helper asks for none of its own.
        "resources": {"requests": {"cpu": "0", "memory": "0"}, "limits": {"memory": "512Mi"}},
        "volumeMounts": [{"name": "files", "mountPath": FILES}],
        # The job may be any user, and what it writes may be closed to all others.
        "securityContext": {
            "runAsUser": 0,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"], "add": ["DAC_OVERRIDE"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
