"""A history as a person reads it: one line for everything that happened, with the broken promises among them."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from ares.check.invariants.history import (
    Answered,
    Asked,
    Back,
    Commit,
    Effect,
    Ended,
    Event,
    Fault,
    Frozen,
    Healed,
    Lost,
    ProcessEnded,
    ProcessStarted,
    Restored,
    Settings,
    Violation,
    Woken,
)

_TOLD = {"/events/", "/leader/", "/nodes/", "/results/", "/arrays/", "/profiles/"}


def story(events: Iterable[Event], violations: Iterable[Violation] = ()) -> Iterator[str]:
    """Lines. Renewals of leases and repeated effects are left out."""
    broken = sorted(violations, key=lambda violation: violation.t)
    shown: set[tuple[str, str, int]] = set()
    for event in events:
        while broken and broken[0].t < event.t:
            yield _broken(broken.pop(0))
        if isinstance(event, Effect):
            key = (event.job, event.fence, event.rank)
            if key in shown:
                continue
            shown.add(key)
        for text in _TELLERS[type(event)](event):
            yield f"{event.t:10.3f}  {text}"
    for violation in broken:
        yield _broken(violation)


def _broken(violation: Violation) -> str:
    at = f" at revision {violation.revision}" if violation.revision else ""
    return f"{violation.t:10.3f}  !!! {violation.rule}{at}: {violation.job}: {violation.what}"


# ---- one function for each kind of event


def _settings(event: Settings) -> list[str]:
    return [f"world {event.seed} begins"]


def _commit(event: Commit) -> list[str]:
    lines: list[str] = []
    for write in event.writes:
        kind = write.key[: write.key.find("/", 1) + 1]
        if kind in _TOLD:
            value: Any = {} if write.value is None else msgspec.json.decode(write.value)
            lines.append(f"{event.by or 'store':<8} r{event.revision}: {_RECORDS[kind](write.key, value)}")
    return lines


def _asked(event: Asked) -> list[str]:
    what = f"request {event.request} (payload {event.payload})" if event.verb == "submit" else event.job
    return [f"{event.client:<8} asks #{event.op}: {event.verb} {what}"]


def _answered(event: Answered) -> list[str]:
    parts = [event.outcome, event.code, event.job, "replayed" if event.replayed else "", event.phase]
    return [f"{'':<8} answer #{event.op}: {' '.join(part for part in parts if part)}"]


def _process(what: str) -> Callable[[Any], list[str]]:
    def tell(event: ProcessStarted | ProcessEnded | Effect) -> list[str]:
        how = f": {event.how}" if isinstance(event, ProcessEnded) else ""
        return [f"{event.node:<8} {event.job} fence {event.fence} rank {event.rank} {what}{how}"]

    return tell


def _fault(event: Fault) -> list[str]:
    return [f"*** {event.who}: {event.what or event.kind}"]


def _record(key: str, value: Any) -> str:
    if not value:
        return f"{key} is deleted"
    return f"{key} is written"


def _ledger(key: str, value: Any) -> str:
    if not value:
        return f"{key} is deleted"
    reason = f": {value['reason']}" if value.get("reason") else ""
    fence = f" fence {value['fence']}" if value.get("fence") else ""
    return f"{value['job']} {value['kind']}{fence} ({value['phase']}){reason}"


def _leader(_key: str, value: Any) -> str:
    return f"{value['replica']} leads" if value else "nobody leads"


_RECORDS: dict[str, Callable[[str, Any], str]] = {
    "/events/": _ledger,
    "/leader/": _leader,
    "/nodes/": _record,
    "/results/": _record,
    "/arrays/": _record,
    "/profiles/": _record,
}

_TELLERS: dict[type, Callable[[Any], list[str]]] = {
    Settings: _settings,
    Commit: _commit,
    Restored: lambda event: [f"*** the store is restored to revision {event.revision}"],
    Asked: _asked,
    Answered: _answered,
    ProcessStarted: _process("starts"),
    Effect: _process("shows its first effect"),
    ProcessEnded: _process("is gone"),
    Fault: _fault,
    Frozen: lambda event: [f"*** {event.who} is frozen"],
    Woken: lambda event: [f"*** {event.who} wakes up"],
    Lost: lambda event: [f"*** node {event.node} can renew nothing from here on"],
    Back: lambda event: [f"*** node {event.node} can renew again"],
    Healed: lambda _event: ["*** everything is mended"],
    Ended: lambda event: [
        "the end, with nothing left to do" if event.quiet else "the end, and something is unfinished"
    ],
}
