"""Any cluster: a consolidation plan can be carried out step by step, and never makes it worse."""

from hypothesis import event, given, settings
from hypothesis import strategies as st

from ares.core.schedule.preempt.consolidate import FreeNodes, Goal, MakeRoom, Move, Moves, Vacate, consolidate
from ares.core.schedule.preempt.eligible import Rule, eligible
from ares.core.schedule.preempt.holders import EvictionCandidate, Freed, NodeRoom, columns, lost_gpu_ms
from ares.core.schedule.preempt.screen import census, screen
from tests.property.test_victims_properties import World, ranks_on, worlds
from tests.searching import examples


def answers(holder: EvictionCandidate, slot: int) -> int | None:
    """A few jobs may not be on a few nodes, and some only on some GPUs."""
    return {0: None, 1: 0b1011}.get((int(holder.job[1:]) + slot) % 7, -1)


def plan_of(world: World, goal: Goal, rule: Rule) -> Moves:
    screened = screen(census(world.holders), world.asker, world.policy, rule)
    return consolidate(columns(world.rooms), screened, goal, answers)


class Ground:
    """What is free on each node, kept the simple way."""

    def __init__(self, world: World) -> None:
        self.rooms = {room.slot: room for room in world.rooms}
        self.on = {room.slot: set[str]() for room in world.rooms}
        for holder in world.holders:
            for slot, _ in holder.at:
                self.on[slot].add(holder.job)

    def change(self, slot: int, freed: Freed, sign: int) -> None:
        room = self.rooms[slot]
        gpus, devices = list(room.gpus), dict(room.devices)
        for index, milli in freed.gpus:
            gpus[index] += sign * milli
        for kind, count in freed.devices:
            devices[kind] = devices.get(kind, 0) + sign * count
        after = NodeRoom(
            slot, room.cpu_milli + sign * freed.cpu_milli, room.memory_mib + sign * freed.memory_mib, tuple(gpus),
            room.answering, tuple(devices.items()), room.ranks_max,
        )  # fmt: skip
        assert min(after.cpu_milli, after.memory_mib, *after.gpus, *devices.values()) >= 0, "over-allocated"
        self.rooms[slot] = after

    def take(self, move: Move, holder: EvictionCandidate) -> None:
        """Its ranks leave, then each one arrives at its target, on the GPUs with the least left."""
        waiting = {source: [freed for slot, freed in holder.at if slot == source] for source, _ in move.ranks}
        for source, ranks in waiting.items():
            for freed in ranks:
                self.change(source, freed, 1)
            ranks.sort(key=lambda freed: (-len(freed.gpus), -freed.cpu_milli))
            self.on[source].discard(holder.job)
        for source, target in move.ranks:
            freed = waiting[source].pop(0)
            mask, left = answers(holder, target), self.rooms[target].gpus
            assert mask is not None, "moved to where it may not be"
            milli = max((milli for _, milli in freed.gpus), default=0)
            usable = [index for index, rest in enumerate(left) if mask >> index & 1 and rest >= milli]
            taken = sorted(usable, key=lambda index: (left[index], index))[: len(freed.gpus)]
            assert len(taken) == len(freed.gpus)
            self.change(target, freed._replace(gpus=tuple((index, milli) for index in taken)), -1)
            self.on[target].add(holder.job)
        assert not any(waiting.values()), "a rank was left behind"


def carry_out(world: World, plan: Moves, rule: Rule) -> Ground:
    ground = Ground(world)
    holders = {holder.job: holder for holder in world.holders}
    jobs = [move.job for move in plan.moves]
    assert len(set(jobs)) == len(jobs), "moved twice"
    for move in plan.moves:
        assert eligible(holders[move.job], world.asker, world.policy, rule) is None
        ground.take(move, holders[move.job])
    lost = sum(lost_gpu_ms(holders[job]) for job in {*jobs, *plan.homeless})
    assert plan.lost_gpu_s == lost / 1000
    return ground


def places(world: World, rooms: list[NodeRoom]) -> int:
    return sum(ranks_on(world.request, room, []) for room in rooms)


@settings(max_examples=examples(400))
@given(worlds(holders_max=5))
def test_room_is_made_or_nobody_moves(world: World) -> None:
    plan = plan_of(world, MakeRoom(world.request), "consolidate")
    event("already" if plan.before >= world.request.ranks else f"{min(len(plan.moves), 2)} moves")
    ground = carry_out(world, plan, "consolidate")
    assert plan.before == places(world, world.rooms)
    assert plan.after == places(world, list(ground.rooms.values()))
    if plan.moves:
        assert plan.before < world.request.ranks <= plan.after
    else:
        assert (plan.reason == "") == (plan.before >= world.request.ranks)


@settings(max_examples=examples(150))
@given(worlds(holders_max=5), st.integers(1, 3))
def test_more_nodes_are_empty_or_nobody_moves(world: World, nodes: int) -> None:
    before = {slot for slot, jobs in Ground(world).on.items() if not jobs}
    plan = plan_of(world, FreeNodes(nodes), "consolidate")
    event(f"{plan.after - plan.before} nodes")
    ground = carry_out(world, plan, "consolidate")
    after = {slot for slot, jobs in ground.on.items() if not jobs}
    assert (plan.before, plan.after) == (len(before), len(after))
    assert before <= after
    assert len(before) < len(after) <= len(before) + nodes if plan.moves else before == after


@settings(max_examples=examples(150))
@given(worlds(holders_max=8), st.sets(st.integers(0, 3), min_size=1))
def test_everybody_leaves_a_drained_node(world: World, slots: set[int]) -> None:
    slots &= {room.slot for room in world.rooms}
    plan = plan_of(world, Vacate(tuple(sorted(slots))), "drain")
    ground = carry_out(world, plan, "drain")
    staying = {job for slot in slots for job in ground.on[slot]}
    assert staying == set(plan.homeless)
    assert not {target for move in plan.moves for _, target in move.ranks} & slots
    assert plan.after == len(slots)
