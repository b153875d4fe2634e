"""Whatever the nodes and the ask: arrays say what a slow look at one node says, and every refusal is explained."""

from collections.abc import Callable

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ares.core.ask import Ask, Near
from ares.core.capacity.rule import Miss
from ares.core.schedule.filters import FILTERS
from ares.core.topology.cards import words
from ares.model.job import NodeTerm
from tests.unit.core.schedule.filters.codes import CODES
from tests.unit.core.schedule.nodes import Node
from tests.unit.core.schedule.worlds import World, worlds

# ---- one node at a time, the simple way


def _answering(node: Node, ask: Ask) -> list[int]:
    return [
        gpu.index
        for gpu in node.record.info.gpus
        if gpu.memory_mib >= ask.gpu_memory_mib and words(ask.gpu_model or "") <= words(gpu.model)
    ]


def _fitting(node: Node, ask: Ask) -> list[int]:
    return [at for at in _answering(node, ask) if 1000 - node.gpus_used.get(at, 0) >= ask.gpu_milli]


def _enough_gpus(node: Node, ask: Ask, fitting: list[int]) -> bool:
    if ask.level == "nvlink" and ask.level_required and ask.gpus > 1:
        words_of = node.record.info.gpu_links
        joined = ([b for b in fitting if b == a or words_of[a][b] == "NV4"] for a in fitting)
        return max(map(len, joined), default=0) >= ask.gpus
    return len(fitting) >= ask.gpus


def _free_devices(node: Node, kind: str) -> int:
    return len(node.record.info.devices.get(kind, ())) - node.devices_used.get(kind, 0)


def _meets(labels: dict[str, str], term: NodeTerm) -> bool:
    has = labels.get(term.key)
    if term.op in ("gt", "lt"):
        if not term.values or has in (None, "x") or term.values[0] == "x":
            return False
        return float(has) > float(term.values[0]) if term.op == "gt" else float(has) < float(term.values[0])
    return {
        "in": has in term.values,
        "not-in": has not in term.values,
        "exists": has is not None,
        "absent": has is None,
    }[term.op]


def _together(one: Node, other: Node, level: str) -> bool:
    """Both say that they are in the same place."""
    a, b = one.record.info, other.record.info
    wider = {"region": ("region",), "zone": ("zone", "region"), "rack": ("rack", "zone", "region")}[level]
    return bool(getattr(a, level)) and all(getattr(a, name) == getattr(b, name) for name in wider)


def _keeps(world: World, row: int, near: Near) -> bool:
    carriers = {
        at
        for tenant, labels, rows in world.running
        if tenant == world.ask.tenant and all(labels.get(key) == value for key, value in near.labels)
        for at in rows
    }
    if near.own and not near.away and not carriers:
        return True
    if near.level != "node":
        carriers |= {
            at
            for at, node in enumerate(world.nodes)
            if any(_together(node, world.nodes[carrier], near.level) for carrier in carriers)
        }
    return (row in carriers) != near.away


def _in_one_numa_node(node: Node, ask: Ask) -> bool:
    for place, numa in enumerate(node.record.info.numa):
        cpu, memory = node.numa_used[place]
        near = [at for at in _fitting(node, ask) if node.record.info.gpus[at].numa_node == numa.index]
        room = 1000 * len(numa.cpus) - cpu >= ask.cpu_milli and numa.memory_mib - memory >= ask.memory_mib
        if room and _enough_gpus(node, ask, near):
            return True
    return False


SLOW: dict[str, Callable[[World, int, Node, Ask], bool]] = {
    "selector": lambda w, row, n, ask: all(n.record.info.labels.get(key) == value for key, value in ask.selector),
    "affinity": lambda w, row, n, ask: all(_meets(n.record.info.labels, term) for term in ask.terms if term.required),
    "residency": lambda w, row, n, ask: not ask.residency or n.record.info.region in ask.residency,
    "taints": lambda w, row, n, ask: (
        bool(ask.tolerations) or all(taint.effect != "no-schedule" for taint in n.record.info.taints)
    ),
    "gpus-declared": lambda w, row, n, ask: len(_answering(n, ask)) >= ask.gpus,
    "devices-declared": lambda w, row, n, ask: all(
        len(n.record.info.devices.get(kind, ())) >= count for kind, count in ask.devices
    ),
    "health": lambda w, row, n, ask: n.ready and not n.record.cordoned,
    "job-affinity": lambda w, row, n, ask: all(_keeps(w, row, near) for near in ask.near if near.required),
    "gpus": lambda w, row, n, ask: _enough_gpus(n, ask, _fitting(n, ask)),
    "devices": lambda w, row, n, ask: all(_free_devices(n, kind) >= count for kind, count in ask.devices),
    "cpu": lambda w, row, n, ask: n.record.info.cpu_milli - n.cpu_used >= ask.cpu_milli,
    "memory": lambda w, row, n, ask: n.record.info.memory_mib - n.memory_used >= ask.memory_mib,
    "numa": lambda w, row, n, ask: ask.numa != "required" or _in_one_numa_node(n, ask),
}


@given(worlds())
def test_columns_say_what_a_look_at_each_node_says(world: World) -> None:
    for name, one in FILTERS.items():
        passes = one.passes(world.rows(slice(0, len(world.nodes))))
        said = [True] * len(world.nodes) if passes is None else passes.tolist()
        assert said == [SLOW[name](world, row, node, world.ask) for row, node in enumerate(world.nodes)], name


@given(worlds(), st.booleans())
def test_rows_alone_say_what_whole_columns_say(world: World, emptied: bool) -> None:
    whole = world.rows(emptied=emptied)
    single = [world.rows(np.array([row]), emptied=emptied) for row in range(len(world.nodes))]
    for name, one in FILTERS.items():
        passes = one.passes(whole)
        alone = [one.passes(rows) for rows in single]
        if passes is None:
            assert alone == [None] * len(alone), name
        else:
            assert [said.tolist() for said in alone if said is not None] == [[said] for said in passes[: len(alone)]], (
                name
            )


@given(worlds())
def test_every_refusal_has_a_reason_that_adds_up(world: World) -> None:
    for name, one in FILTERS.items():
        for ever in (False, True):
            seen = world.rows(emptied=ever)
            passes = one.passes(seen)
            reached = np.flatnonzero(seen.exists)
            if passes is None or passes[reached].any():
                continue
            reason = one.explain(Miss(seen, reached, ever))
            assert reason.code in CODES[name]
            assert reason.code.startswith("INSUFFICIENT") <= (not ever)
            assert reason.numbers["nodes"] == len(world.nodes)
            have = reason.numbers.get("free", reason.numbers.get("total", 0))
            assert reason.numbers.get("asked", 1) > have
