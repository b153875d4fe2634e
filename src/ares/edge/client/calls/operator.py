"""Requests of operators and about machines, as values like those in `calls`, and what they are answered."""

from collections.abc import Mapping
from typing import Any

import msgspec

from ares.api.identity import CertificateView, Revoked
from ares.api.nodes import (
    ClusterView,
    ConsolidationView,
    DrainStatus,
    LeaseView,
    MemberView,
    NodeView,
    UplinkView,
)
from ares.api.plugins import PluginList
from ares.api.pools import PoolView
from ares.api.telemetry.insights import InsightList
from ares.api.telemetry.series import SeriesAnswer
from ares.api.telemetry.status import PlatformStatus
from ares.edge.client import units
from ares.edge.client.calls import calls
from ares.edge.client.calls.answers import JobRef, job_id
from ares.edge.client.calls.calls import JSON, Call, Params, Request, part, query
from ares.edge.client.sending import AsyncSends, Sends
from ares.model.profile import ProfileRecord, ShadowRecord
from ares.model.telemetry.insight import InsightRecord

# ---- profiles


def profile() -> Call[ProfileRecord]:
    return Call(Request("GET", "/v1/profile"), ProfileRecord)


def profiles() -> Call[tuple[ProfileRecord, ...]]:
    return Call(Request("GET", "/v1/profiles"), tuple[ProfileRecord, ...], "profiles")


def put_profile(profile: Mapping[str, Any], note: str, expected_version: int | None) -> Call[ProfileRecord]:
    body = {"profile": profile, "note": note, "expectedVersion": expected_version}
    return _send("PUT", "/v1/profile", ProfileRecord, body)


def set_profile(settings: Mapping[str, str], note: str, expected_version: int | None) -> Call[ProfileRecord]:
    body = {"settings": settings, "note": note, "expectedVersion": expected_version}
    return _send("PATCH", "/v1/profile", ProfileRecord, body)


def revert_profile(version: int, note: str) -> Call[ProfileRecord]:
    return _send("POST", f"/v1/profiles/{version}/revert", ProfileRecord, {"note": note})


def shadow() -> Call[ShadowRecord]:
    return Call(Request("GET", "/v1/profile/shadow"), ShadowRecord)


def put_shadow(tried: Mapping[str, Any], objective: str, promotes: str, note: str) -> Call[ShadowRecord]:
    """`tried` has a whole `profile`, or `settings` on top of the one in force."""
    body = {**tried, "objective": objective, "promotes": promotes, "note": note}
    return _send("PUT", "/v1/profile/shadow", ShadowRecord, body, repeatable=True)


def promote_shadow(note: str) -> Call[ProfileRecord]:
    return _send("POST", "/v1/profile/shadow/promote", ProfileRecord, {"note": note})


def delete_shadow() -> Call[ShadowRecord]:
    return Call(Request("DELETE", "/v1/profile/shadow"), ShadowRecord)


def plugins() -> Call[PluginList]:
    return Call(Request("GET", "/v1/plugins"), PluginList)


def status() -> Call[PlatformStatus]:
    return Call(Request("GET", "/v1/status"), PlatformStatus)


def series(names: tuple[str, ...] = (), since_s: float = 3600.0) -> Call[SeriesAnswer]:
    asked = {"name": ",".join(names), "sinceS": since_s}
    return Call(Request("GET", "/v1/series", query(asked)), SeriesAnswer)


def insights(every: bool = False) -> Call[InsightList]:
    return Call(Request("GET", "/v1/insights", query({"all": "true" if every else None})), InsightList)


def judge_insight(name: str, verdict: str, note: str) -> Call[InsightRecord]:
    body = {"verdict": verdict, "note": note}
    return _send("POST", f"/v1/insights/{part(name)}/feedback", InsightRecord, body, repeatable=True)


# ---- machines


def nodes() -> Call[tuple[NodeView, ...]]:
    return Call(Request("GET", "/v1/nodes"), tuple[NodeView, ...], "nodes")


def clusters() -> Call[tuple[ClusterView, ...]]:
    return Call(Request("GET", "/v1/clusters"), tuple[ClusterView, ...], "clusters")


def cordon(name: str, on: bool) -> Call[NodeView]:
    path = f"/v1/nodes/{part(name)}/{'cordon' if on else 'uncordon'}"
    return Call(Request("POST", path, (), b"{}", JSON), NodeView)


def leases(job_id: str | None) -> Call[tuple[LeaseView, ...]]:
    return Call(Request("GET", "/v1/leases", query({"job": job_id})), tuple[LeaseView, ...], "leases")


def pools(shape: Params = {}) -> Call[tuple[PoolView, ...]]:  # noqa: B006
    """`shape` is a size of job to be told the start of, see `pool_shape`."""
    return Call(Request("GET", "/v1/nodepools", query(shape)), tuple[PoolView, ...], "nodepools")


def pool(name: str, shape: Params = {}) -> Call[PoolView]:  # noqa: B006
    return Call(Request("GET", f"/v1/nodepools/{part(name)}", query(shape)), PoolView)


def pool_shape(
    *,
    gpus: int = 0,
    gpu_model: str | None = None,
    cpus: str | float | None = None,
    memory: str | None = None,
    ranks: int | None = None,
    runtime: str | float | None = None,
) -> Params:
    """The parameters of `pools` and `pool`, from amounts as people write them."""
    return {
        "gpus": gpus or None,
        "gpuModel": gpu_model,
        "cpuMilli": None if cpus is None else units.cpu_milli(cpus),
        "memoryMib": None if memory is None else units.memory_mib(memory),
        "ranks": ranks,
        "runtimeS": None if runtime is None else units.seconds(runtime),
    }


def drain(node: str, reason: str) -> Call[DrainStatus]:
    return _send("POST", f"/v1/nodes/{part(node)}/drain", DrainStatus, {"reason": reason}, repeatable=True)


def drain_status(node: str) -> Call[DrainStatus]:
    return Call(Request("GET", f"/v1/nodes/{part(node)}/drain"), DrainStatus)


def undrain(node: str) -> Call[NodeView]:
    return _send("POST", f"/v1/nodes/{part(node)}/undrain", NodeView, {}, repeatable=True)


def taint(node: str, key: str, value: str, effect: str) -> Call[NodeView]:
    body = {"key": key, "value": value, "effect": effect}
    return _send("POST", f"/v1/nodes/{part(node)}/taints", NodeView, body, repeatable=True)


def untaint(node: str, key: str) -> Call[NodeView]:
    return Call(Request("DELETE", f"/v1/nodes/{part(node)}/taints", (("key", key),)), NodeView)


def remove_node(node: str) -> Call[NodeView]:
    return Call(Request("DELETE", f"/v1/nodes/{part(node)}", repeatable=False), NodeView)


def consolidate(gpus: int, nodes: int, revision: str = "") -> Call[ConsolidationView]:
    """With a revision the plan of that name is carried out."""
    body = {"gpus": gpus, "nodes": nodes, "apply": bool(revision), "revision": revision}
    return _send("POST", "/v1/consolidations", ConsolidationView, body, repeatable=not revision)


def _send(method: str, path: str, kind: Any, body: Mapping[str, Any], *, repeatable: bool = False) -> Call[Any]:
    given = {key: value for key, value in body.items() if value is not None}
    return Call(Request(method, path, (), msgspec.json.encode(given), JSON, repeatable), kind)


# ---- identities of machines


def certificates() -> Call[tuple[CertificateView, ...]]:
    return Call(Request("GET", "/v1/certificates"), tuple[CertificateView, ...], "certificates")


def revoke_node(name: str) -> Call[Revoked]:
    return Call(Request("POST", f"/v1/nodes/{part(name)}/revoke"), Revoked)


def revoke_cluster(name: str) -> Call[Revoked]:
    return Call(Request("POST", f"/v1/clusters/{part(name)}/revoke"), Revoked)


# ---- clusters of a federation


def members() -> Call[tuple[MemberView, ...]]:
    return Call(Request("GET", "/v1/federation/clusters"), tuple[MemberView, ...], "clusters")


def member(name: str) -> Call[MemberView]:
    return Call(Request("GET", f"/v1/federation/clusters/{part(name)}"), MemberView)


def drain_member(name: str, reason: str) -> Call[MemberView]:
    return _send("POST", f"/v1/federation/clusters/{part(name)}/drain", MemberView, {"reason": reason})


def resume_member(name: str) -> Call[MemberView]:
    return Call(Request("POST", f"/v1/federation/clusters/{part(name)}/resume"), MemberView)


def declare_dead(name: str, reason: str, confirm: str) -> Call[MemberView]:
    body = {"reason": reason, "confirm": confirm}
    return _send("POST", f"/v1/federation/clusters/{part(name)}/declare-dead", MemberView, body)


def uplink() -> Call[UplinkView]:
    return Call(Request("GET", "/v1/federation/uplink"), UplinkView)


def join_global_plane(body: dict[str, Any]) -> Call[UplinkView]:
    return _send("POST", "/v1/federation/uplink", UplinkView, body)


def leave_global_plane(*, force: bool) -> Call[UplinkView]:
    return Call(Request("DELETE", "/v1/federation/uplink", query({"force": force or None})), UplinkView)


class AsyncMachineMethods(AsyncSends):
    """Machines, their leases and their certificates, of the asynchronous client."""

    async def certificates(self) -> tuple[CertificateView, ...]:
        """Machines' certificates, by machine."""
        return await self.send(certificates())

    async def revoke_node(self, name: str) -> Revoked:
        """Takes back all that a node proves itself by: its stream is cut, and its jobs are taken away."""
        return await self.send(revoke_node(name))

    async def revoke_cluster(self, name: str) -> Revoked:
        """Takes back all that a cluster proves itself by."""
        return await self.send(revoke_cluster(name))

    async def nodes(self) -> tuple[NodeView, ...]:
        """The machines."""
        return await self.send(nodes())

    async def clusters(self) -> tuple[ClusterView, ...]:
        """Every cluster: its resources and its leader."""
        return await self.send(clusters())

    async def readiness(self) -> dict[str, str]:
        """What the server says about itself: its store, disk, leader and clock. Raises Unavailable while it cannot
        serve."""
        return await self.send(calls.readiness())

    async def cordon(self, node: str, on: bool = True) -> NodeView:
        """Keeps new jobs off a machine, or lets them on again."""
        return await self.send(cordon(node, on))

    async def remove_node(self, node: str) -> NodeView:
        """Forgets a machine that is gone for good; the answer is what it last was."""
        return await self.send(remove_node(node))

    async def leases(self, job: JobRef | None = None) -> tuple[LeaseView, ...]:
        """The leases: which node may run which attempt, and until when."""
        return await self.send(leases(None if job is None else job_id(job)))


class MachineMethods(Sends):
    """Machines, their leases and their certificates, of the blocking client, generated."""

    def certificates(self) -> tuple[CertificateView, ...]:
        """Machines' certificates, by machine."""
        return self.send(certificates())

    def revoke_node(self, name: str) -> Revoked:
        """Takes back all that a node proves itself by: its stream is cut, and its jobs are taken away."""
        return self.send(revoke_node(name))

    def revoke_cluster(self, name: str) -> Revoked:
        """Takes back all that a cluster proves itself by."""
        return self.send(revoke_cluster(name))

    def nodes(self) -> tuple[NodeView, ...]:
        """The machines."""
        return self.send(nodes())

    def clusters(self) -> tuple[ClusterView, ...]:
        """Every cluster: its resources and its leader."""
        return self.send(clusters())

    def readiness(self) -> dict[str, str]:
        """What the server says about itself: its store, disk, leader and clock. Raises Unavailable while it cannot
        serve."""
        return self.send(calls.readiness())

    def cordon(self, node: str, on: bool = True) -> NodeView:
        """Keeps new jobs off a machine, or lets them on again."""
        return self.send(cordon(node, on))

    def remove_node(self, node: str) -> NodeView:
        """Forgets a machine that is gone for good; the answer is what it last was."""
        return self.send(remove_node(node))

    def leases(self, job: JobRef | None = None) -> tuple[LeaseView, ...]:
        """The leases: which node may run which attempt, and until when."""
        return self.send(leases(None if job is None else job_id(job)))
