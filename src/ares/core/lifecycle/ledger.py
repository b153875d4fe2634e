"""Turning a change of state into what is written: the new record and its numbered ledger entries."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from msgspec.structs import replace

from ares.core.lifecycle.inputs import Stepped
from ares.model.state import EventKind, Fence, JobState, LedgerEvent, Placement, Result


class UnnumberedEntry(NamedTuple):
    """One ledger entry before it is numbered."""

    kind: EventKind
    reason: str = ""
    by: str = ""
    data: dict[str, Any] = {}
    # The fence the entry speaks of, when it is not the new state's.
    fence: Fence | None = None


def commit(
    old: JobState, at: float, entries: tuple[UnnumberedEntry, ...], result: Result | None = None, **changes: Any
) -> Stepped:
    """The step from `old` by `changes`. `reason` is cleared unless the change gives a new one."""
    changes.setdefault("reason", "")
    new = replace(old, seq=old.seq + len(entries), **changes)
    events = [numbered(new, at, old.seq + n, entry) for n, entry in enumerate(entries, start=1)]
    return Stepped(state=new, events=tuple(events), result=result)


def numbered(state: JobState, at: float, seq: int, entry: UnnumberedEntry) -> LedgerEvent:
    """The entry as it is written."""
    return LedgerEvent(
        job=state.id,
        tenant=state.tenant,
        seq=seq,
        kind=entry.kind,
        phase=state.phase,
        at=at,
        attempt=state.attempt,
        fence=str(entry.fence or state.fence),
        by=entry.by,
        reason=entry.reason,
        data=entry.data,
    )


def grants(places: tuple[Placement, ...]) -> dict[str, Any]:
    """What an attempt is given, for its ledger entry: usage and cost are derived from these."""
    return _grant(places[0]) if len(places) == 1 else {"placements": ranked(places)}


def ranked(places: tuple[Placement, ...]) -> list[dict[str, Any]]:
    return [{"rank": place.rank, **_grant(place)} for place in places]


def _grant(place: Placement) -> dict[str, Any]:
    data: dict[str, Any] = {"node": place.node, "cpuMilli": place.cpu_milli, "memoryMib": place.memory_mib}
    if place.gpus:
        data["gpus"] = list(place.gpus)
        if place.gpu_milli != 1000:
            data["gpuMilli"] = place.gpu_milli
    if place.devices:
        data["devices"] = {kind: list(ids) for kind, ids in place.devices.items()}
    if place.numa is not None:
        data["numa"] = place.numa
    return data


def nodes_of(places: Iterable[Placement]) -> list[str]:
    return list(dict.fromkeys(place.node for place in places))


def where(places: tuple[Placement, ...]) -> dict[str, Any]:
    if len(places) == 1:
        return {"node": places[0].node}
    nodes = nodes_of(places)
    if len(nodes) > 1:
        return {"nodes": nodes}
    return {"node": nodes[0]} if nodes else {}


def agent(place: Placement) -> str:
    """The agent that reports on a rank."""
    return f"agent {place.node}"
