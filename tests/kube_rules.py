"""The rules of a stand-in for the API server of Kubernetes: objects, versions, and what pods go through."""

import asyncio
import copy
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast

Json = dict[str, Any]

REASONS = {403: "Forbidden", 404: "NotFound", 409: "Conflict", 410: "Expired", 422: "Invalid", 405: "MethodNotAllowed"}
_OVER = ("Succeeded", "Failed")


class Refused(Exception):
    def __init__(self, code: int, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.code, self.reason = code, reason or REASONS[code]


@dataclass(frozen=True)
class Where:
    """A kind of objects, in one namespace or in all."""

    base: str
    kind: str
    namespace: str = ""

    def holds(self, other: "Where") -> bool:
        return (self.base, self.kind) == (other.base, other.kind) and self.namespace in ("", other.namespace)


@dataclass
class Request:
    method: str
    where: Where
    name: str
    part: str
    params: dict[str, str]
    kind: str
    body: Any


@dataclass
class Store:
    """Objects by place and name, and what happened to them."""

    version: int = 100
    objects: dict[tuple[Where, str], Json] = field(default_factory=dict[tuple[Where, str], Json])
    history: list[tuple[int, Where, str, Json, Json | None]] = field(
        default_factory=list[tuple[int, Where, str, Json, Json | None]]
    )
    # What happened up to this version cannot be told any more.
    forgotten: int = 100

    def write(self, where: Where, thing: Json, event: str) -> Json:
        key, before = (where, thing["metadata"]["name"]), self.objects.get((where, thing["metadata"]["name"]))
        if event == "MODIFIED" and before == thing:
            return thing
        self.version += 1
        thing["metadata"]["resourceVersion"] = str(self.version)
        if event == "DELETED":
            del self.objects[key]
        else:
            self.objects[key] = thing
        self.history.append((self.version, where, event, copy.deepcopy(thing), before))
        return thing


def _now(after_s: float = 0.0) -> str:
    return (datetime.now(UTC) + timedelta(seconds=after_s)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _merged(old: Any, new: Any) -> Any:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    both, changes = dict(cast("Json", old)), cast("Json", new)
    for key, value in changes.items():
        if value is None:
            both.pop(key, None)
        else:
            both[key] = _merged(both.get(key, {} if isinstance(value, dict) else None), value)
    return both


def _patched(thing: Json, steps: list[Json]) -> Json:
    """By JSON patch, as far as it is used: test, remove and add."""
    done = copy.deepcopy(thing)
    for step in steps:
        try:
            _step(done, step)
        except (LookupError, ValueError):
            raise Refused(422, f"there is no {step['path']}") from None
    return done


def _step(done: Json, step: Json) -> None:
    *above, last = [word.replace("~1", "/").replace("~0", "~") for word in step["path"].split("/")[1:]]
    place: Any = done
    for word in above:
        place = place[int(word) if isinstance(place, list) else word]
    at: Any = int(last) if isinstance(place, list) else last
    if step["op"] == "test" and place[at] != step["value"]:
        raise Refused(422, f"test failed at {step['path']}")
    if step["op"] == "remove":
        del place[at]
    if step["op"] == "add":
        place[at] = step["value"]


class Server:
    """What the API does, by requests one at a time."""

    def __init__(self) -> None:
        self.store = Store()
        self.changed = asyncio.Event()

    def answer(self, ask: Request) -> tuple[int, Json]:
        calls: dict[tuple[str, str], Callable[[Request], tuple[int, Json]]] = {
            ("POST", ""): self._create,
            ("GET", ""): self._get,
            ("PATCH", ""): self._patch,
            ("PATCH", "status"): self._patch,
            ("DELETE", ""): self._delete,
            ("POST", "binding"): self._bind,
            ("POST", "eviction"): self._evict,
            ("POST", "token"): lambda _: (201, {"status": {"token": secrets.token_hex(16)}}),
        }
        call = calls.get((ask.method, ask.part))
        if call is None:
            raise Refused(405, f"no {ask.method} for {ask.part}")
        before = self.store.version
        try:
            return call(ask)
        finally:
            if self.store.version != before:
                self.changed.set()
                self.changed = asyncio.Event()

    def _found(self, ask: Request) -> Json:
        found = self.store.objects.get((ask.where, ask.name))
        if found is None:
            raise Refused(404, f'{ask.where.kind} "{ask.name}" not found')
        return found

    def _create(self, ask: Request) -> tuple[int, Json]:
        name, thing = ask.body["metadata"]["name"], copy.deepcopy(ask.body)
        if (ask.where, name) in self.store.objects:
            raise Refused(409, f'{ask.where.kind} "{name}" already exists', "AlreadyExists")
        thing["metadata"] |= {"uid": secrets.token_hex(8), "creationTimestamp": _now()}
        if ask.where.namespace:
            thing["metadata"]["namespace"] = ask.where.namespace
        if ask.where.kind == "pods":
            thing["status"] = {"phase": "Pending"}
            _gated(thing)
        thing.setdefault("status", {})
        return 201, self.store.write(ask.where, thing, "ADDED")

    def _get(self, ask: Request) -> tuple[int, Json]:
        if ask.name:
            return 200, self._found(ask)
        limit, (at, version) = int(ask.params.get("limit") or 0), _place(ask.params.get("continue", ""))
        if version and version <= self.store.forgotten:
            raise Refused(410, "the provided continue parameter is too old")
        found = [
            thing
            for (where, name), thing in sorted(self.store.objects.items(), key=_order)
            if ask.where.holds(where) and f"{where.namespace}/{name}" > at and selected(thing, ask.params)
        ]
        meta, version = {}, version or self.store.version
        if limit and len(found) > limit:
            last = found[limit - 1]["metadata"]
            meta = {"continue": f"{last.get('namespace', '')}/{last['name']}@{version}"}
            found = found[:limit]
        return 200, {"metadata": {"resourceVersion": str(version), **meta}, "items": found}

    def _patch(self, ask: Request) -> tuple[int, Json]:
        if ask.kind.startswith("application/apply-patch") and (ask.where, ask.name) not in self.store.objects:
            return self._create(ask)
        found = self._found(ask)
        if ask.kind.startswith("application/json-patch"):
            thing = _patched(found, ask.body)
        else:
            if ask.body.get("metadata", {}).get("uid", found["metadata"]["uid"]) != found["metadata"]["uid"]:
                raise Refused(409, "the uid in the precondition is not the object's")
            body = ask.body if not ask.part else {"status": ask.body["status"]}
            thing = _merged(copy.deepcopy(found), body)
        self.store.write(ask.where, thing, "MODIFIED")
        return 200, self._swept(ask.where, thing)

    def _swept(self, where: Where, thing: Json) -> Json:
        """One that was deleted goes with its last finalizer, when its kubelet has let it go."""
        meta = thing["metadata"]
        if "deletionTimestamp" in meta and not meta.get("finalizers") and not meta.get("deletionGracePeriodSeconds"):
            return self.store.write(where, copy.deepcopy(thing), "DELETED")
        return thing

    def _delete(self, ask: Request) -> tuple[int, Json]:
        found, options = copy.deepcopy(self._found(ask)), cast("Json", ask.body or {})
        meta = found["metadata"]
        if options.get("preconditions", {}).get("uid", meta["uid"]) != meta["uid"]:
            raise Refused(409, "the uid in the precondition is not the object's")
        grace_s = 0
        if ask.where.kind == "pods" and found["spec"].get("nodeName") and found["status"].get("phase") not in _OVER:
            grace_s = options.get("gracePeriodSeconds", found["spec"].get("terminationGracePeriodSeconds", 30))
        if "deletionTimestamp" in meta:
            grace_s = min(grace_s, meta["deletionGracePeriodSeconds"])
        if "deletionTimestamp" not in meta or grace_s < meta["deletionGracePeriodSeconds"]:
            meta |= {"deletionTimestamp": _now(grace_s), "deletionGracePeriodSeconds": grace_s}
            if meta.get("finalizers") or grace_s:
                self.store.write(ask.where, found, "MODIFIED")
        return 200, self._swept(ask.where, found)

    def _bind(self, ask: Request) -> tuple[int, Json]:
        pod, wish = copy.deepcopy(self._found(ask)), ask.body["metadata"]
        meta = pod["metadata"]
        for key in ("uid", "resourceVersion"):
            if wish.get(key, meta[key]) != meta[key]:
                raise Refused(409, f"the {key} in the precondition is not the pod's")
        if "deletionTimestamp" in meta:
            raise Refused(409, f"pod {ask.name} is being deleted, cannot be assigned to a host")
        if pod["spec"].get("nodeName"):
            raise Refused(409, f"pod {ask.name} is already assigned to node {pod['spec']['nodeName']!r}")
        if pod["spec"].get("schedulingGates"):
            raise Refused(409, f"pod {ask.name} has non-empty .spec.schedulingGates")
        meta["annotations"] = {**meta.get("annotations", {}), **wish.get("annotations", {})}
        pod["spec"]["nodeName"] = ask.body["target"]["name"]
        pod["status"].setdefault("conditions", []).append({"type": "PodScheduled", "status": "True"})
        self.store.write(ask.where, pod, "MODIFIED")
        return 201, {"kind": "Status", "status": "Success"}

    def _evict(self, ask: Request) -> tuple[int, Json]:
        pod = copy.deepcopy(self._found(ask))
        told = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API",
        }
        pod["status"].setdefault("conditions", []).append(told)
        self.store.write(ask.where, pod, "MODIFIED")
        self._delete(Request("DELETE", ask.where, ask.name, "", {}, "", ask.body.get("deleteOptions")))
        return 201, {"kind": "Status", "status": "Success"}

    # ---- what the real one does by accident

    def forget(self) -> None:
        """Compacts all history: a watch that is not at the newest version is told so."""
        self.store.forgotten = self.store.version
        self.store.history.clear()


def _order(item: tuple[tuple[Where, str], Json]) -> tuple[str, str]:
    return item[0][0].namespace, item[0][1]


def _gated(pod: Json) -> None:
    if pod["spec"].get("schedulingGates"):
        waits = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
        pod["status"]["conditions"] = [waits]


def _place(text: str) -> tuple[str, int]:
    at, _, version = text.rpartition("@")
    return at, int(version or 0)


def selected(thing: Json, params: dict[str, str]) -> bool:
    wish, labels = params.get("fieldSelector", ""), thing["metadata"].get("labels", {})
    for chosen in filter(None, params.get("labelSelector", "").split(",")):
        key, equals, value = chosen.partition("=")
        if key not in labels or (equals and labels[key] != value):
            return False
    return not wish or thing["spec"].get("nodeName", "") == wish.removeprefix("spec.nodeName=")
