"""Stories about scheduling as files: nodes, running jobs, a queue, a profile, and what each cycle must do."""

import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from ares.api.reasons import Reason
from ares.core.explain.held_back import held_back
from ares.core.explain.smallest_change import smallest_change
from ares.core.explain.why import reason
from ares.core.queue.waiting import class_key
from ares.core.reserve.waits import held_for
from ares.core.schedule.plan import Plan
from ares.model.job import JobSpec
from ares.model.node import NodeRecord, Taint
from ares.model.profile import Profile
from ares.model.reservation import Reservation, RoomAsked
from ares.model.state import Fence, JobState, Placement
from tests.property.course import Course
from tests.property.worlds import NOW, World
from tests.unit.core.world import cycle_at, node

FOLDER = Path(__file__).parents[4] / "scenarios" / "scheduling"
HOUR = 3600.0
_SIZES = {"cpus": ("cpuMilli", 1000), "gpus": ("gpus", 1), "memory": ("memoryMib", 1), "share": ("gpuMilli", 1000)}
_NAMES = {"model": "gpuModel", "gpu_memory": "gpuMemoryMib", "devices": "devices"}
# Words about the job's record and not about what it asks for.
_RECORD = {"job", "count", "tenant", "user", "waited_h", "on", "ran_h", "preempted_times", "preempted_h_ago"}


def names_of(text: str) -> list[str]:
    """ "n1..n4" and "a b" are lists of names."""
    found: list[str] = []
    for word in text.split():
        between = re.fullmatch(r"([a-z]+)(\d+)\.\.\1(\d+)", word)
        numbers = range(int(between[2]), int(between[3]) + 1) if between else ()
        found += [f"{between[1]}{number}" for number in numbers] if between else [word]
    return found


def _resources(said: dict[str, Any]) -> dict[str, Any]:
    amounts = {_SIZES[word][0]: round(said[word] * _SIZES[word][1]) for word in said if word in _SIZES}
    return {
        "cpuMilli": 1000,
        "memoryMib": 1,
        **amounts,
        **{_NAMES[word]: said[word] for word in said if word in _NAMES},
    }


def _spec(said: dict[str, Any]) -> JobSpec:
    rest = {word: said[word] for word in said if word not in _RECORD | set(_SIZES) | set(_NAMES)}
    if "alternatives" in rest:
        rest["alternatives"] = [_resources(one) for one in rest["alternatives"]]
    if "minutes" in rest:
        rest["expectedRuntimeS"] = 60.0 * rest.pop("minutes")
    if "deadline_in_h" in rest:
        rest["deadlineAt"] = NOW + HOUR * rest.pop("deadline_in_h")
    return msgspec.convert({"command": ["true"], "resources": _resources(said), **rest}, JobSpec)


class Scenario:
    """One file, played cycle by cycle."""

    def __init__(self, path: Path) -> None:
        self.text: dict[str, Any] = tomllib.loads(path.read_text())
        self.title = path.stem.replace("_", " ")
        nodes = [_node(name, group) for group in self.text["nodes"] for name in names_of(group["names"])]
        profile = msgspec.convert(self.text.get("profile", {}), Profile)
        self.course = Course.of(World(nodes, {one.info.name for one in nodes}, profile=profile))
        for said in self.text.get("running", []):
            self._run(said)
        for said in self.text.get("reserved", []):
            self._book(said)
        for said in self.text.get("waiting", []):
            self._wait(said)

    def _run(self, said: dict[str, Any]) -> None:
        spec, since = _spec(said), NOW - HOUR * said.get("ran_h", 10.0)
        ago, names = said.get("preempted_h_ago"), names_of(said["on"])
        state = replace(
            _state(said, since), phase="RUNNING", bound_at=since, started_at=since, fence=Fence(counter=1), attempt=1,
            started_ranks=tuple(range(len(names))), preemptions=said.get("preempted_times", 0),
            preempted_at=None if ago is None else NOW - HOUR * ago, planned_s=spec.expected_runtime_s,
        )  # fmt: skip
        for rank, name in enumerate(names):
            # One rank at a time, so that the next sees what is left.
            state = replace(state, placements=(*state.placements, self._place(spec, said, name, rank)))
            self.course.submit(state, spec)

    def _book(self, said: dict[str, Any]) -> None:
        """From so many minutes after noon on, on the first GPUs of each of its nodes."""
        start = NOW + 60.0 * said["from_minute"]
        places = tuple(
            Placement(node=name, incarnation=1, cpu_milli=1, memory_mib=1, gpus=tuple(range(said["gpus"])))
            for name in names_of(said["on"])
        )
        self.course.cluster.book(
            Reservation(
                name=said["name"],
                tenant=said.get("tenant", "acme"),
                start=start,
                until=start + 60.0 * said["minutes"],
                asked=RoomAsked(gpus=said["gpus"]),
                placements=places,
            )
        )

    def _place(self, spec: JobSpec, said: dict[str, Any], name: str, rank: int) -> Placement:
        wants, free = spec.resources, self.course.cluster.free(name)
        assert free is not None, f"there is no node {name}"
        shared = [gpu for gpu, left in free.gpu_shares.items() if left >= wants.gpu_milli]
        gpus = (*shared, *free.gpus)[: wants.gpus]
        assert len(gpus) == wants.gpus, f"{said['job']} does not fit on {name}"
        assert free.cpu_milli >= wants.cpu_milli, f"{said['job']} does not fit on {name}"
        return Placement(
            node=name, incarnation=1, cpu_milli=wants.cpu_milli, memory_mib=wants.memory_mib, gpus=gpus,
            gpu_milli=wants.gpu_milli, rank=rank,
        )  # fmt: skip

    def _wait(self, said: dict[str, Any]) -> None:
        count = said.get("count")
        for number in range(count or 1):
            name = said["job"] if count is None else f"{said['job']}{number}"
            at = self.course.now - HOUR * said.get("waited_h", 0.0) + 0.001 * number
            self.course.submit(_state({**said, "job": name}, at), _spec(said))

    # ---- what happens

    def play(self, step: dict[str, Any]) -> dict[str, Any]:
        """Lets time pass, runs one cycle, carries it out, and tells what came of it."""
        course = self.course
        course.now += 60.0 * step.get("minutes_later", 0)
        for job in step.get("ended", []):
            course.end(job)
        for job in step.get("gone", []):
            course.release(job)
        for said in step.get("submitted", []):
            self._wait(said)
        plan = cycle_at(course.cluster, course.world.profile, course.now)
        tenants = Counter(course.state(one.job).tenant for one in plan.placed)
        course.carry_out(plan)
        return told(plan) | {"tenants": dict(tenants)} | self._waiting()

    def _waiting(self) -> dict[str, Any]:
        """Of whoever still waits: the reason, what it says, and what would help."""
        waiting = [job for job, one in self.course.jobs.items() if one.state.phase == "PENDING"]
        # One of a class speaks for all; there may be a thousand.
        reasons = {job: self._reason(job) for job in waiting[:40]}
        changes = {job: self._change(job) for job in waiting[:40]}
        return {
            "waiting": {job: one.code for job, one in reasons.items()},
            "says": {job: one.message for job, one in reasons.items()},
            "change": {job: one for job, one in changes.items() if one},
        }

    def _reason(self, job: str) -> Reason:
        course = self.course
        state, spec = course.state(job), course.spec(job)
        if state.hold:
            return Reason(code="WAITING_FOR_EVICTION", message=state.reason)
        key = class_key(state, spec)
        found = reason(course.cluster, key, key.asks[0], course.now)
        runs_s = course.cluster.waiting.runs_of(job)
        found = found or held_for(course.cluster, key, runs_s, course.now)
        found = found or held_back(course.cluster, job, key, course.cluster.waiting.runs_of(job), course.now)
        return found or Reason(code="NEXT_CYCLE", message="there is room for it")

    def _change(self, job: str) -> str:
        course = self.course
        found = smallest_change(course.cluster, course.state(job), course.spec(job), course.now)
        return "" if found is None else found.message


def _state(said: dict[str, Any], at: float) -> JobState:
    return JobState(
        id=said["job"], tenant=said.get("tenant", "acme"), name="x", submitted_at=at, queued_at=at,
        submitted_by=said.get("user", "ann"), team=said.get("team"),
    )  # fmt: skip


def _node(name: str, group: dict[str, Any]) -> NodeRecord:
    links = tuple(group.get("links", ()))
    devices = {kind: tuple(f"{kind}-{n}" for n in range(count)) for kind, count in group.get("devices", {}).items()}
    taints = tuple(Taint(key=text.split("=")[0], value=text.partition("=")[2]) for text in group.get("taints", ()))
    where = {
        word: group[word] for word in ("rack", "zone", "region", "labels", "pool", "network_gbps") if word in group
    }
    return node(
        name, cpu=group.get("cpus", 64), memory=group.get("memory", 1 << 20), gpus=group.get("gpus", 0), links=links,
        model=group.get("model", "NVIDIA A100"), numa=group.get("numa", 0), taints=taints, devices=devices, **where,
    )  # fmt: skip


def told(plan: Plan) -> dict[str, Any]:
    """A plan in the words of the files."""
    return {
        "placed": {one.job: " ".join(place.node for place in one.placements) for one in plan.placed},
        "gpus": {one.job: [gpu for place in one.placements for gpu in place.gpus] for one in plan.placed},
        "numa": {one.job: one.placements[0].numa for one in plan.placed},
        "alternative": {one.job: one.alternative for one in plan.placed},
        "order": [one.job for one in plan.placed],
        "evicted": {one.job: sorted(one.victims) for one in plan.evictions},
        "rule": {one.job: one.rule for one in plan.evictions},
        "lost_gpu_h": {one.job: one.lost_gpu_s / HOUR for one in plan.evictions},
        "kept_for": {one.job: " ".join(place.node for place in one.hold) for one in plan.evictions},
        "resized": {one.job: len(one.placements) for one in plan.resized},
        "promised": {one.job: f"{clock(one.start)} on {_where(one.placements)}" for one in plan.promises},
    }


def clock(at: float) -> str:
    """Every story begins at noon."""
    minutes = 12 * 60 + round((at - NOW) / 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def _where(places: tuple[Placement, ...]) -> str:
    return " ".join(sorted({place.node for place in places}))
