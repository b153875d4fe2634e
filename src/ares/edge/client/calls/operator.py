"""Requests of operators, as values like those in `calls`, and their answers."""

from collections.abc import Mapping
from typing import Any

import msgspec

from ares.api.nodes import ConsolidationView, DrainStatus, NodeView
from ares.api.plugins import PluginList
from ares.edge.client.calls.calls import JSON, Call, Request, part
from ares.model.profile import ProfileRecord

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


def plugins() -> Call[PluginList]:
    return Call(Request("GET", "/v1/plugins"), PluginList)


# ---- machines


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
