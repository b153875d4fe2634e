"""Nodes without a taint that the job does not tolerate."""

from ares.api.reasons import Reason
from ares.core.capacity.node_slice import NodeSlice
from ares.core.capacity.node_table import Bools
from ares.core.capacity.rule import Filter, Miss, of_nodes
from ares.core.schedule.filters.words import none_of


def passes(rows: NodeSlice) -> Bools:
    return ~rows.refused


def explain(miss: Miss) -> Reason:
    row = int(miss.reached[0])
    record = miss.record(row)
    taints = (*record.info.taints, *record.taints)
    refusing = ", ".join(_pair(taint.key, taint.value) for taint in taints if taint.effect == "no-schedule")
    tolerated = ", ".join(_pair(key, value) for key, value in miss.seen.ask.tolerations) or "nothing"
    message = (
        f"{none_of(miss)} is free of taints the job does not tolerate: "
        f"{miss.name(row)} has {refusing}, the job tolerates {tolerated}"
    )
    return Reason(code="TAINTED", message=message, numbers={"nodes": len(miss.reached)})


def _pair(key: str, value: str | None) -> str:
    return f"{key}={value}" if value else key


FILTER = Filter(passes, of_nodes(explain), ("node joins", "node changes"), lasting=True)
