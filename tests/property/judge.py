"""A slow, plain judge of plans: what fits where, by trying everything. Shares nothing with the engine it judges."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from ares.core.lifecycle.ranks import held, holds
from ares.model.job import JobSpec, JobTerm, NodeTerm, Resources
from ares.model.node import NodeRecord
from ares.model.profile import Profile
from ares.model.state import JobState, Placement
from tests.property.worlds import World

Jobs = list[tuple[JobState, JobSpec]]


@dataclass
class Room:
    """What is left of one node; below zero when too much was given away."""

    record: NodeRecord
    cpu: int
    memory: int
    gpus: dict[int, int]
    devices: Counter[tuple[str, str]]
    numa: dict[int, tuple[int, int]]
    # What jobs that are not guaranteed see beyond what there is.
    cpu_extra: int
    memory_extra: int

    def take(self, place: Placement, sign: int = 1) -> None:
        self.cpu -= sign * place.cpu_milli
        self.memory -= sign * place.memory_mib
        for gpu in place.gpus:
            self.gpus[gpu] -= sign * place.gpu_milli
        for kind, names in place.devices.items():
            for name in names:
                self.devices[kind, name] -= sign
        if place.numa is not None:
            cpu, memory = self.numa[place.numa]
            self.numa[place.numa] = (cpu - sign * place.cpu_milli, memory - sign * place.memory_mib)

    def overfull(self) -> str:
        """What more was given away of than there is, or nothing."""
        parts = {
            "cpu": self.cpu + self.cpu_extra, "memory": self.memory + self.memory_extra,
            **{f"gpu {gpu}": left for gpu, left in self.gpus.items()},
            **{f"device {name}": left for name, left in self.devices.items()},
            **{f"NUMA node {at}": min(left) for at, left in self.numa.items()},
        }  # fmt: skip
        return ", ".join(f"{name} {left}" for name, left in parts.items() if left < 0)


def rooms_of(world: World) -> dict[str, Room]:
    """Empty."""
    found: dict[str, Room] = {}
    for record in world.nodes:
        info, pool = record.info, world.profile.pools.get(record.info.pool)
        found[info.name] = Room(
            record, info.cpu_milli, info.memory_mib, {gpu.index: 1000 for gpu in info.gpus if not gpu.mig},
            Counter({(kind, name): 1 for kind, names in info.devices.items() for name in names}),
            {one.index: (1000 * len(one.cpus), one.memory_mib) for one in info.numa},
            int(info.cpu_milli * (pool.overcommit_cpu - 1)) if pool else 0,
            int(info.memory_mib * (pool.overcommit_memory - 1)) if pool else 0,
        )  # fmt: skip
    return found


def take_all(rooms: dict[str, Room], places: Iterator[Placement] | tuple[Placement, ...], sign: int = 1) -> None:
    for place in places:
        rooms[place.node].take(place, sign)


def held_by(jobs: Jobs) -> Iterator[Placement]:
    return (place for state, _ in jobs if holds(state) for place in held(state))


def wants_of(spec: JobSpec) -> tuple[Resources, ...]:
    return (spec.resources, *spec.alternatives)


# ---- which nodes a job may use, whatever is free on them


def _meets(term: NodeTerm, labels: dict[str, str]) -> bool:
    inside = labels.get(term.key) in term.values
    return {"in": inside, "not-in": not inside}[term.op]


def place_name(record: NodeRecord, level: str) -> tuple[str, ...] | None:
    """The node's rack, zone or region with those around it; None when it does not say."""
    info = record.info
    full = {"rack": (info.region, info.zone, info.rack), "zone": (info.region, info.zone), "region": (info.region,)}
    if level == "node":
        return (info.name,)
    return full[level] if full[level][-1] else None


def near_holds(world: World, term: JobTerm, tenant: str, own: dict[str, str], record: NodeRecord, jobs: Jobs) -> bool:
    """`own` are the labels of the job itself: the first of jobs that are to be near to each other may be anywhere."""
    carriers = [
        (state, spec) for state, spec in jobs if state.tenant == tenant and term.labels.items() <= spec.labels.items()
    ]
    around, anywhere = shares_place(world, term.level, record, carriers)
    if not term.away and not anywhere and term.labels.items() <= own.items():
        return True
    return around != term.away


def kept_off(world: World, tenant: str, own: dict[str, str], record: NodeRecord, jobs: Jobs) -> bool:
    """Whether a job is there that must be away from jobs with these labels."""
    return any(
        shares_place(world, term.level, record, [(state, spec)])[0]
        for state, spec in jobs
        for term in spec.job_affinity
        if state.tenant == tenant and term.away and term.required and term.labels and term.labels.items() <= own.items()
    )


def shares_place(world: World, level: str, record: NodeRecord, jobs: Jobs) -> tuple[bool, bool]:
    """Whether one of the jobs is in the node's place, and whether one is anywhere."""
    by_name = {one.info.name: one for one in world.nodes}
    around = anywhere = False
    for state, _ in jobs:
        for place in held(state) or state.hold:
            other = by_name.get(place.node)
            if other is None:
                continue
            anywhere = True
            mine, theirs = place_name(record, level), place_name(other, level)
            around |= other.info.name == record.info.name or (mine is not None and mine == theirs)
    return around, anywhere


def gpus_wanted(record: NodeRecord, wants: Resources) -> set[int]:
    """GPUs of the right model and size."""
    words = set((wants.gpu_model or "").lower().split())
    return {
        gpu.index for gpu in record.info.gpus
        if not gpu.mig and gpu.memory_mib >= wants.gpu_memory_mib and words <= set(gpu.model.lower().split())
    }  # fmt: skip


def lasting(record: NodeRecord, spec: JobSpec, wants: Resources) -> str:
    """The first thing about the node that keeps the job away for good, by the name of its filter; or nothing."""
    info = record.info
    if not spec.selector.items() <= info.labels.items():
        return "selector"
    if not all(_meets(term, info.labels) for term in spec.affinity if term.required):
        return "affinity"
    if spec.residency and info.region not in spec.residency:
        return "residency"
    taints = [taint for taint in (*info.taints, *record.taints) if taint.effect == "no-schedule"]
    put_up_with = {(one.key, one.value) for one in spec.tolerations}
    if any(not put_up_with & {(taint.key, None), (taint.key, taint.value)} for taint in taints):
        return "taints"
    if len(gpus_wanted(record, wants)) < wants.gpus:
        return "gpus-declared"
    if any(len(info.devices.get(kind, ())) < count for kind, count in wants.devices.items()):
        return "devices-declared"
    return ""


def refused_by(world: World, room: Room, state: JobState, spec: JobSpec, wants: Resources, jobs: Jobs) -> str:
    """The filter that one rank fails at here now; nothing when it passes all."""
    record = room.record
    why = lasting(record, spec, wants)
    if why:
        return why
    if record.info.name not in world.ready or record.cordoned:
        return "health"
    near = [term for term in spec.job_affinity if term.required]
    if not all(near_holds(world, term, state.tenant, spec.labels, record, jobs) for term in near):
        return "job-affinity"
    if kept_off(world, state.tenant, spec.labels, record, jobs):
        return "job-affinity"
    return short_of(room, spec, wants)


def short_of(room: Room, spec: JobSpec, wants: Resources) -> str:
    """What one rank lacks here, in the order of the filters."""
    free = {gpu for gpu in gpus_wanted(room.record, wants) if room.gpus[gpu] >= wants.gpu_milli}
    together = _together(spec, wants)
    pools = [free & domain for domain in domains(room.record)] if together else [free]
    if wants.gpus and all(len(pool) < wants.gpus for pool in pools):
        return "gpus"
    for kind, count in wants.devices.items():
        if sum(left > 0 for (of, _), left in room.devices.items() if of == kind) < count:
            return "devices"
    more = spec.qos != "guaranteed"
    if room.cpu + more * room.cpu_extra < wants.cpu_milli:
        return "cpu"
    if room.memory + more * room.memory_extra < wants.memory_mib:
        return "memory"
    if spec.numa == "required" and next(_ways(room, spec, wants), None) is None:
        return "numa"
    return ""


def _together(spec: JobSpec, wants: Resources) -> bool:
    wish = spec.topology
    return wish is not None and wish.required and wish.level == "nvlink" and wants.gpus > 1


def domains(record: NodeRecord) -> list[set[int]]:
    """GPUs joined by NVLink, directly or by way of others."""
    info = record.info
    found = [{gpu.index} for gpu in info.gpus]
    for row, words in enumerate(info.gpu_links):
        for column, word in enumerate(words):
            if word.startswith("NV"):
                joined = [one for one in found if row in one or column in one]
                found = [one for one in found if one not in joined] + [set[int]().union(*joined)]
    return found


# ---- how many ranks fit on a node


class Way(NamedTuple):
    gpus: tuple[int, ...]
    numa: int | None


def _ways(room: Room, spec: JobSpec, wants: Resources, inside: set[int] | None = None) -> Iterator[Way]:
    """Every way to give one rank its GPUs and its NUMA node."""
    free = {gpu for gpu in gpus_wanted(room.record, wants) if room.gpus[gpu] >= wants.gpu_milli}
    numa_of = {gpu.index: gpu.numa_node for gpu in room.record.info.gpus}
    places: list[int | None] = [None] if spec.numa != "required" else []
    if spec.numa == "required":
        places += [at for at, (c, m) in room.numa.items() if c >= wants.cpu_milli and m >= wants.memory_mib]
    for at in places:
        for gpus in combinations(sorted(free), wants.gpus):
            aligned = at is None or all(numa_of[gpu] == at for gpu in gpus)
            close = not _together(spec, wants) or any(set(gpus) <= one for one in domains(room.record))
            if aligned and close and (inside is None or set(gpus) <= inside):
                yield Way(gpus, at)


def capacity(room: Room, spec: JobSpec, wants: Resources, most: int, inside: set[int] | None = None) -> int:
    """The most ranks that fit here at once, up to `most`; `inside` limits their GPUs."""
    more = spec.qos != "guaranteed"
    most = min(most, (room.cpu + more * room.cpu_extra) // wants.cpu_milli)
    most = min(most, (room.memory + more * room.memory_extra) // wants.memory_mib)
    for kind, count in wants.devices.items():
        most = min(most, sum(left > 0 for (of, _), left in room.devices.items() if of == kind) // count)
    best = 0
    seen: set[tuple[object, ...]] = set()

    def deeper(ranks: int) -> bool:
        nonlocal best
        best = max(best, ranks)
        state = (ranks, tuple(room.gpus.items()), tuple(room.numa.items()))
        if best >= most or state in seen:
            return best >= most
        seen.add(state)
        for way in list(_ways(room, spec, wants, inside)):
            place = _placement(room, wants, way)
            room.take(place)
            done = deeper(ranks + 1)
            room.take(place, -1)
            if done:
                return True
        return False

    if most > 0:
        deeper(0)
    return best


def _placement(room: Room, wants: Resources, way: Way) -> Placement:
    return Placement(
        node=room.record.info.name, incarnation=1, cpu_milli=wants.cpu_milli, memory_mib=wants.memory_mib,
        gpus=way.gpus, gpu_milli=wants.gpu_milli, numa=way.numa,
    )  # fmt: skip


def ranks_of(spec: JobSpec) -> tuple[int, int, int]:
    """The fewest, the most, and the most on one node."""
    gang = spec.gang
    return (1, 1, 1) if gang is None else (gang.min_ranks or gang.ranks, gang.ranks, gang.per_node or gang.ranks)


def required_level(spec: JobSpec) -> str:
    wish = spec.topology
    return wish.level if wish is not None and wish.required and ranks_of(spec)[1] > 1 else "cluster"


def most_ranks(rooms: list[Room], spec: JobSpec, wants: Resources) -> int:
    """The most ranks of the job that fit on these nodes as far apart as it allows."""
    _, ranks, per_node = ranks_of(spec)
    each = min(ranks, per_node)
    level = required_level(spec)
    if level == "nvlink":
        inside = [(room, domain) for room in rooms for domain in domains(room.record)]
        return max((capacity(room, spec, wants, each, domain) for room, domain in inside), default=0)
    sums: Counter[tuple[str, ...]] = Counter()
    for room in rooms:
        # A node that does not say where it is has only itself around it.
        alone = ("alone", room.record.info.name)
        name = ("all",) if level == "cluster" else place_name(room.record, level) or alone
        sums[name] += capacity(room, spec, wants, each)
    return max(sums.values(), default=0)


def fits(world: World, rooms: dict[str, Room], state: JobState, spec: JobSpec, wants: Resources, jobs: Jobs) -> bool:
    """Whether the job could start now on what is left in these rooms."""
    usable = [room for room in rooms.values() if not refused_by(world, room, state, spec, wants, jobs)]
    return most_ranks(usable, spec, wants) >= ranks_of(spec)[0]


def fits_empty(world: World, spec: JobSpec, wants: Resources) -> bool:
    """Whether it could start if nothing ran and every node were ready."""
    usable = [room for room in rooms_of(world).values() if not lasting(room.record, spec, wants)]
    return most_ranks(usable, spec, wants) >= ranks_of(spec)[0]


# ---- what is counted over the whole cluster


def amounts(places: tuple[Placement, ...]) -> Counter[str]:
    return Counter({
        "cpu": sum(one.cpu_milli for one in places),
        "memory": sum(one.memory_mib for one in places),
        "gpu": sum(len(one.gpus) * one.gpu_milli for one in places),
    })  # fmt: skip


def asked(spec: JobSpec, wants: Resources) -> Counter[str]:
    least = ranks_of(spec)[0]
    return Counter({
        "cpu": least * wants.cpu_milli, "memory": least * wants.memory_mib, "gpu": least * wants.gpus * wants.gpu_milli,
    })  # fmt: skip


def paths(state: JobState) -> tuple[str, str, str]:
    team = f"{state.tenant}/{state.team or 'default'}"
    return state.tenant, team, f"{team}/{state.submitted_by or 'nobody'}"


def beyond_limits(profile: Profile, jobs: list[tuple[JobState, Counter[str]]]) -> str:
    """The first hard limit that is broken by what these jobs hold."""
    for path, share in profile.shares.items():
        used: Counter[str] = Counter()
        for state, what in jobs:
            if path in paths(state):
                used.update(what)
        for resource, limit in share.hard.items():
            if used[resource] > limit:
                return f"{path} has {used[resource]} of {limit} {resource}"
    return ""


def beyond_licences(profile: Profile, specs: list[JobSpec]) -> str:
    used: Counter[str] = Counter()
    for spec in specs:
        used.update(spec.licences)
    return next((f"{n} of {name} in use" for name, n in used.items() if n > profile.licences.get(name, 0)), "")


# ---- what pools draw


def drawn(world: World, pool: str, places: list[Placement]) -> int:
    """Thousandths of watts by the profile's own figures: idle GPUs, CPUs in use, and GPUs as far as they are held."""
    says = world.profile.pools[pool]
    full, idle, cpu = says.gpu_watts, says.gpu_idle_watts or 0.0, says.cpu_watts or 0.0
    total = 0.0
    for record in world.nodes:
        info = record.info
        here = [place for place in places if place.node == info.name]
        if info.pool != pool:
            continue
        total += idle * len(info.gpus) + cpu * sum(place.cpu_milli for place in here) / 1000
        for gpu in info.gpus:
            held = min(1000, sum(place.gpu_milli for place in here if gpu.index in place.gpus))
            total += (full - idle) * held / 1000
        if any(gpu.mig for gpu in info.gpus):
            slices = {
                name
                for place in here
                for kind in place.devices
                if kind == "mig-1g.10gb"
                for name in place.devices[kind]
            }
            total += (full - idle) / 7 * len(slices)
    return round(1000 * total)
