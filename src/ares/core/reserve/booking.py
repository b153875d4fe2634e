"""Chooses where to book room ahead: nodes and GPUs that are not booked and will be free by then."""

from collections.abc import Sequence
from typing import NamedTuple

from ares.core.capacity.node_table import NodeTable
from ares.core.refusal import Refusal
from ares.core.reserve.room import WindowRoom, WindowRooms, emptied, mask
from ares.core.schedule.cluster import Cluster
from ares.core.text import clock, count, span
from ares.core.topology.subset import best
from ares.model.reservation import Reservation, RoomAsked
from ares.model.state import Placement

# Moments at which room becomes free that are tried one by one for a later start.
_NEXT_MAX = 8
_LENGTH_MAX_S = 366 * 86_400.0
_AHEAD_MAX_S = 366 * 86_400.0


class NotBooked(Refusal, frozen=True):
    """Why not, and the nearest that would do."""

    # How much could be had in the window asked for, and when all of it could begin.
    most: int = 0
    nearest_start: float | None = None


class _Unit(NamedTuple):
    """What is booked so many times: a GPU, a CPU or a whole node, with what comes with each; 0 means its share."""

    word: str
    wanted: int
    cpu_milli: int = 0
    memory_mib: int = 0


def book(
    cluster: Cluster, reservations: Sequence[Reservation], asked: RoomAsked, start: float, until: float, now: float
) -> tuple[Placement, ...] | NotBooked:
    """One placement for each node, on as few nodes as possible."""
    wrong = _wrong(cluster, asked, start, until, now)
    if wrong is not None:
        return wrong
    rooms = WindowRooms(cluster, reservations, asked, now)
    return _book(cluster.table, rooms.at(start, until), asked) or _no_room(cluster, rooms, asked, start, until, now)


def extendable(
    cluster: Cluster, reservations: Sequence[Reservation], reservation: Reservation, until: float
) -> NotBooked | None:
    """Why the reservation cannot last until then: another one has booked its room from its end on."""
    others = [
        other for other in reservations if other.name != reservation.name and other.overlaps(reservation.until, until)
    ]
    met = [
        (at, place.node)
        for place in reservation.placements
        if (at := _met(cluster, place, others, reservation.until)) is not None
    ]
    if not met:
        return None
    first, name = min(met)
    message = f"its room on node {name} is booked by somebody else from {clock(first, reservation.until)} on"
    fix = "book other room from then on"
    if first > reservation.until:
        fix = f"extend it by {span(first - reservation.until)} at most, or {fix}"
    return NotBooked(code="reservation-no-room", message=message, fix=fix, nearest_start=None)


def _met(cluster: Cluster, place: Placement, others: Sequence[Reservation], since: float) -> float | None:
    """From when on other reservations have so much of the node that this placement does not fit beside them."""
    here = [(other, p) for other in others for p in other.placements if p.node == place.node]
    row, table = cluster.rows.get(place.node), cluster.table
    for at in sorted({max(other.start, since) for other, _ in here}):
        then = [p for other, p in here if other.start <= at < other.until]
        cpu = place.cpu_milli + sum(p.cpu_milli for p in then)
        memory = place.memory_mib + sum(p.memory_mib for p in then)
        full = row is not None and (cpu > table.cpu.item(row) or memory > table.memory.item(row))
        if full or any(mask(p) & mask(place) for p in then):
            return at
    return None


# ---- the request


def _wrong(cluster: Cluster, asked: RoomAsked, start: float, until: float, now: float) -> NotBooked | None:
    """What no cluster of this size could ever give."""
    records = [record for record in cluster.table.records if record is not None]
    pools = sorted({record.info.pool for record in records})
    unknown = sorted(set(asked.node_names) - {record.info.name for record in records})
    checks: tuple[tuple[bool, str, str], ...] = (
        (start < now, f"it would begin {span(now - start)} ago", "begin now or later"),
        (until <= start, "it would end when it begins or before", "let it last for some time: --for 4h"),
        (until - start > _LENGTH_MAX_S, f"it would last {span(until - start)}", "book at most a year"),
        (start - now > _AHEAD_MAX_S, f"it would begin in {span(start - now)}", "book at most a year ahead"),
        (
            not (asked.gpus or asked.cpu_milli or asked.nodes or asked.node_names),
            "it asks for no GPUs, CPUs or nodes",
            "say how much to book: --gpus 8, --cpus 64 or --nodes 2",
        ),
        (
            bool(asked.gpu_model) and not asked.gpus,
            "it names a GPU model and asks for no GPUs",
            "say how many: --gpus 8",
        ),
        (
            asked.pool is not None and asked.pool not in pools,
            f"there is no pool {asked.pool!r}",
            f"there are {', '.join(pools[:8]) or 'none'}; `ares pools` lists them",
        ),
        (bool(unknown), f"there is no node {', '.join(unknown[:5])}", "`ares nodes` lists them"),
        (
            bool(asked.nodes and asked.node_names),
            "it counts nodes and names them",
            "give a number of nodes or their names, not both",
        ),
    )
    for is_so, message, fix in checks:
        if is_so:
            return NotBooked(code="reservation-invalid", message=message, fix=fix)
    return _uneven(asked)


def _uneven(asked: RoomAsked) -> NotBooked | None:
    unit = _unit(asked)
    if not asked.nodes or unit.word == "node" or unit.wanted % asked.nodes == 0:
        return None
    message = f"{count(unit.wanted, unit.word)} cannot be the same on each of {asked.nodes} nodes"
    fix = f"ask for {unit.wanted // asked.nodes * asked.nodes + asked.nodes} {unit.word}s, or leave the nodes open"
    return NotBooked(code="reservation-invalid", message=message, fix=fix)


def _unit(asked: RoomAsked) -> _Unit:
    if asked.gpus:
        return _Unit("GPU", asked.gpus, -(-asked.cpu_milli // asked.gpus), -(-asked.memory_mib // asked.gpus))
    if asked.cpu_milli:
        cpus = -(-asked.cpu_milli // 1000)
        return _Unit("CPU", cpus, 1000, -(-asked.memory_mib // cpus))
    return _Unit("node", asked.nodes or len(asked.node_names))


# ---- the choice of nodes


def _book(table: NodeTable, there: Sequence[WindowRoom], asked: RoomAsked) -> tuple[Placement, ...]:
    unit = _unit(asked)
    fits = [(room, number) for room in there if (number := _fits(table, room, unit))]
    chosen = _evenly(fits, unit, asked.nodes) if asked.nodes else _packed(fits, unit.wanted)
    return tuple(_placement(table, room, unit, number) for room, number in sorted(chosen, key=lambda it: it[0].row))


def _fits(table: NodeTable, room: WindowRoom, unit: _Unit) -> int:
    """How many units the node can give."""
    if unit.word == "node":
        return int(room.whole and room.free == room.gpus)
    cpu, memory = _with_each(table, room, unit)
    most = [room.free.bit_count()] if unit.word == "GPU" else []
    most += [room.cpu_milli // cpu] if cpu else []
    most += [room.memory_mib // memory] if memory else []
    return min(most)


def _with_each(table: NodeTable, room: WindowRoom, unit: _Unit) -> tuple[int, int]:
    cpu, memory = table.cpu.item(room.row), table.memory.item(room.row)
    if unit.word == "CPU":
        return unit.cpu_milli, unit.memory_mib or memory * unit.cpu_milli // cpu
    gpus = max(1, table.gpu_count.item(room.row))
    return unit.cpu_milli or cpu // gpus, unit.memory_mib or memory // gpus


def _packed(fits: Sequence[tuple[WindowRoom, int]], wanted: int) -> list[tuple[WindowRoom, int]]:
    """On few nodes: the roomiest first, and the tightest that takes the rest."""
    left, chosen = wanted, list[tuple[WindowRoom, int]]()
    open_ = sorted(fits, key=lambda it: (-it[1], bool(it[0].later), it[0].row))
    for at, (room, number) in enumerate(open_):
        if number >= left:
            enough = [it for it in open_[at:] if it[1] >= left]
            tightest, _ = min(enough, key=lambda it: (it[1], bool(it[0].later), it[0].row))
            return [*chosen, (tightest, left)]
        chosen.append((room, number))
        left -= number
    return []


def _evenly(fits: Sequence[tuple[WindowRoom, int]], unit: _Unit, nodes: int) -> list[tuple[WindowRoom, int]]:
    each = 1 if unit.word == "node" else unit.wanted // nodes
    enough = sorted((it for it in fits if it[1] >= each), key=lambda it: (it[1], it[0].row))[:nodes]
    return [(room, each) for room, _ in enough] if len(enough) == nodes else []


def _placement(table: NodeTable, room: WindowRoom, unit: _Unit, number: int) -> Placement:
    """No incarnation: booked room stays booked when the node's agent starts anew."""
    if unit.word == "node":
        gpus = tuple(bit for bit in range(room.gpus.bit_length()) if room.gpus >> bit & 1)
        return Placement(node=room.name, incarnation=0, cpu_milli=room.cpu_milli, memory_mib=room.memory_mib, gpus=gpus)
    cpu, memory = _with_each(table, room, unit)
    shape = table.machines[table.machine.item(room.row)]
    gpus = best(shape, room.free, number).gpus if unit.word == "GPU" else ()
    return Placement(
        node=room.name, incarnation=0, cpu_milli=number * cpu, memory_mib=number * memory, gpus=tuple(sorted(gpus))
    )


# ---- refusals


def _no_room(
    cluster: Cluster, rooms: WindowRooms, asked: RoomAsked, start: float, until: float, now: float
) -> NotBooked:
    unit, there = _unit(asked), rooms.at(start, until)
    most = _most(cluster.table, there, unit, asked)
    ever = _most(cluster.table, emptied(cluster, asked), unit, asked)
    if ever < unit.wanted:
        have = f"of that kind {ever} could be had" if ever else "none of that kind could be had"
        verb = "is" if unit.wanted == 1 else "are"
        message = f"{count(unit.wanted, unit.word)} {verb} asked for, and {have} even if everything were free"
        fix = f"book at most {ever}" if ever else "`ares nodes` and `ares pools` show what there is"
        return NotBooked(code="reservation-invalid", message=message, fix=fix, most=most)
    later = _later(cluster.table, rooms, asked, start, until - start)
    window = f"from {clock(start, now)} until {clock(until, now)}"
    message = f"of {count(unit.wanted, unit.word)} {most} can be had {window}{_why(there, unit)}"
    offers = [] if later is None else [f"begin at {clock(later, now)}"]
    offers += [f"book {count(most, unit.word)}"] if most else []
    fix = " or ".join(offers) or "ask those who hold it to say how long they run, or drain a node in time"
    return NotBooked(code="reservation-no-room", message=message, fix=fix, most=most, nearest_start=later)


def _later(table: NodeTable, rooms: WindowRooms, asked: RoomAsked, start: float, length_s: float) -> float | None:
    """A later start with enough room: the first, where there is no other reservation; else one of the first."""

    def can(at: float) -> bool:
        return bool(_book(table, rooms.at(at, at + length_s), asked))

    moments = [at for at in rooms.ends if at > start]
    for at in moments[:_NEXT_MAX]:
        if can(at):
            return at
    # The later, the more jobs have ended: bisects between a moment without room and the last, which has room.
    low, high = min(_NEXT_MAX, len(moments)) - 1, len(moments) - 1
    if high <= low or not can(moments[high]):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if can(moments[middle]) else (middle, high)
    return moments[high]


def _most(table: NodeTable, there: Sequence[WindowRoom], unit: _Unit, asked: RoomAsked) -> int:
    fits = [_fits(table, room, unit) for room in there]
    if not asked.nodes or unit.word == "node":
        return min(sum(fits), unit.wanted)
    # The same amount on each of so many nodes: the scarcest of the best nodes decides.
    best_ones = sorted(fits, reverse=True)[: asked.nodes]
    return min(best_ones[-1] * asked.nodes, unit.wanted) if len(best_ones) == asked.nodes else 0


def _why(there: Sequence[WindowRoom], unit: _Unit) -> str:
    """What has the rest: jobs, by what is known of their ends, and other reservations."""
    jobs = {job for room in there for job in room.silent_jobs}
    silent, later, booked = (
        sum(getattr(room, who).bit_count() for room in there) for who in ("silent", "later", "booked")
    )
    unknown = "does not say how long it runs" if len(jobs) == 1 else "do not say how long they run"
    parts = [f"{count(len(jobs), 'job')} there {unknown}"] if jobs else []
    if unit.word == "GPU":
        parts = [f"{silent} are held by {count(len(jobs), 'job')} that {unknown}"] if silent else []
        parts += [f"{later} are held by jobs that end later"] if later else []
        parts += [f"{booked} are booked already"] if booked else []
    return "".join(f"; {part}" for part in parts)
