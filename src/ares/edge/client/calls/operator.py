"""Requests of those who run the platform, as values like those in `calls`, and what they are answered."""

from collections.abc import Mapping
from typing import Any

import msgspec

from ares.edge.client.calls.answers import NodeView
from ares.edge.client.calls.calls import JSON, Call, Request, part
from ares.model.base import Record
from ares.model.profile import ProfileRecord
from ares.model.state import Phase


class Plugin(Record, frozen=True):
    """Something a profile can name."""

    kind: str
    name: str
    origin: str = ""
    used: bool = False
    # What happened, of one that plans are made without until the profile changes.
    cut_off: str = ""


class RefusedPlugin(Record, frozen=True):
    """Something that was installed and could not be taken."""

    kind: str
    name: str
    origin: str = ""
    error: str = ""


class PluginList(Record, frozen=True):
    plugins: tuple[Plugin, ...] = ()
    refused: tuple[RefusedPlugin, ...] = ()
    missing: tuple[str, ...] = ()


class DrainedJob(Record, frozen=True):
    job: str = ""
    phase: Phase = "RUNNING"
    stays: str = ""


class DrainStatus(Record, frozen=True):
    """How far a drain is."""

    node: str
    by: str = ""
    reason: str = ""
    jobs: int = 0
    left: tuple[DrainedJob, ...] = ()
    done: bool = False
    message: str = ""


class MoveView(Record, frozen=True):
    job: str
    tenant: str = ""
    name: str = ""
    gpus: float = 0.0
    origin: tuple[str, ...] = ()
    to: tuple[str, ...] = ()
    lost_gpu_s: float = 0.0


class ConsolidationView(Record, frozen=True):
    """Moves that make room, planned or under way."""

    revision: str
    gpus: int = 0
    nodes: int = 1
    moves: tuple[MoveView, ...] = ()
    lost_gpu_s: float = 0.0
    before: int = 0
    after: int = 0
    applied: bool = False
    message: str = ""


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
