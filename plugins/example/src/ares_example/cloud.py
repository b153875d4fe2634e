"""A provider of machines: a cloud with a plain HTTP API. Copy it, and put your cloud's calls in the three methods."""

import asyncio
import json
import os
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any

from ares.ports.machines import ListedMachine, NotProvided, ProviderUnknown, WantedMachine

_TIMEOUT_S = 30.0
# How a new machine starts its agent. The join token is good for one machine, once, for 15 minutes.
_USER_DATA = """#!/bin/sh
exec ares agent --name {node} --pool {pool} {servers} --join - <<'EOF'
{join}
EOF
"""


class ExampleCloud:
    """`EXAMPLE_CLOUD_URL` and `EXAMPLE_CLOUD_KEY` say where it is, and who asks."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._url = os.environ["EXAMPLE_CLOUD_URL"].rstrip("/")
        self._key = os.environ.get("EXAMPLE_CLOUD_KEY", "")

    async def create(self, want: WantedMachine) -> str | NotProvided:
        servers = " ".join(f"--server {server}" for server in want.servers)
        body = {
            # Asked for twice with the same token, the cloud gives the same machine.
            "clientToken": want.id,
            "cpus": want.shape.cpu_milli // 1000,
            "memoryMib": want.shape.memory_mib,
            "gpus": want.shape.gpus,
            # By these it is found again, also by a server that never heard of its creation.
            "tags": {"ares-cluster": self._cluster, "ares-machine": want.id},
            "userData": _USER_DATA.format(node=want.node, pool=want.pool, servers=servers, join=want.join),
        }
        status, answer = await self._call("POST", "/instances", body)
        if status in (403, 409, 429):
            # No quota, no capacity: certainly no machine.
            return NotProvided(str(answer.get("message", f"status {status}")))
        return str(answer["id"])

    async def machines(self) -> Sequence[ListedMachine]:
        _, answer = await self._call("GET", f"/instances?tag=ares-cluster:{self._cluster}")
        return [
            ListedMachine(found["tags"]["ares-machine"], found["id"], float(found["createdAt"]))
            for found in answer["instances"]
        ]

    async def delete(self, ids: Sequence[str]) -> None:
        handles = {machine.id: machine.handle for machine in await self.machines()}
        for id_ in ids:
            if id_ in handles:
                await self._call("DELETE", f"/instances/{handles[id_]}")

    async def _call(self, method: str, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
        """Raises ProviderUnknown when it is not known what the cloud did."""
        return await asyncio.to_thread(self._send, method, path, body)

    def _send(self, method: str, path: str, body: Any) -> tuple[int, dict[str, Any]]:
        headers = {"authorization": f"Bearer {self._key}", "content-type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data=data, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
                return answer.status, json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            if error.code >= 500:
                raise ProviderUnknown(f"{method} {path}: status {error.code}") from error
            return error.code, json.loads(error.read() or b"{}")
        except (OSError, ValueError) as error:
            raise ProviderUnknown(f"{method} {path}: {error}") from error
