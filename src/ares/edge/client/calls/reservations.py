"""Requests about room that is booked ahead, as values like those in `calls`, and what they are answered."""

import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypedDict, Unpack

import msgspec

from ares.api.reservations import ReservationView
from ares.edge.client import units
from ares.edge.client.calls.calls import JSON, Call, Request, part
from ares.edge.client.errors import InvalidBooking, InvalidSpec

_MOMENT_FORMS = "write it like now, +2h, or 2026-12-01T18:00 (local unless it says otherwise)"


_LENGTH = "say how long it lasts, such as 4h"


class Booking(TypedDict, total=False):
    """Keyword arguments that describe a reservation. `length` is how long it lasts, `start` when it begins."""

    length: str | float
    start: str | datetime
    gpus: int
    gpu_model: str
    cpus: str | float
    memory: str
    nodes: int
    node_names: Sequence[str]
    pool: str
    tenant: str
    teams: Sequence[str]
    users: Sequence[str]
    name: str
    note: str
    # Released when no job has used it for so long; "0" for never.
    unused_release: str | float


def reserve(**booking: Unpack[Booking]) -> Call[ReservationView]:
    if "length" not in booking:
        raise InvalidBooking("no length is given", fix=_LENGTH)
    with _of_bookings():
        length_s = units.seconds(booking["length"])
        if length_s < 1.0:
            raise InvalidBooking(f"a reservation of {length_s:g} s holds nothing", fix=_LENGTH)
        return _post("/v1/reservations", _body(booking, length_s))


def _body(booking: Booking, length_s: float) -> dict[str, object]:
    asked: dict[str, object] = {
        "gpus": booking.get("gpus"),
        "gpuModel": booking.get("gpu_model"),
        "cpuMilli": units.cpu_milli(booking["cpus"]) if "cpus" in booking else None,
        "memoryMib": units.memory_mib(booking["memory"]) if "memory" in booking else None,
        "nodes": booking.get("nodes"),
        "nodeNames": list(booking.get("node_names", ())) or None,
        "pool": booking.get("pool"),
    }
    body: dict[str, object] = {
        "asked": _given(asked),
        "lengthS": length_s,
        "start": moment(booking.get("start", "now")),
        "tenant": booking.get("tenant"),
        "name": booking.get("name"),
        "teams": list(booking.get("teams", ())),
        "users": list(booking.get("users", ())),
        "note": booking.get("note", ""),
        "unusedReleaseS": units.seconds(booking["unused_release"]) if "unused_release" in booking else None,
    }
    return _given(body)


def reservations(*, over: bool = False) -> Call[tuple[ReservationView, ...]]:
    params = (("over", "true"),) if over else ()
    return Call(Request("GET", "/v1/reservations", params), tuple[ReservationView, ...], "reservations")


def reservation(name: str) -> Call[ReservationView]:
    return Call(Request("GET", _path(name)), ReservationView)


def extend(name: str, more: str | float) -> Call[ReservationView]:
    with _of_bookings():
        return _post(f"{_path(name)}/extend", {"moreS": units.seconds(more)})


def cancel(name: str, reason: str = "") -> Call[ReservationView]:
    params = (("reason", reason),) if reason else ()
    return Call(Request("DELETE", _path(name), params), ReservationView)


def moment(value: str | datetime) -> float | None:
    """now (None), +2h, or a moment such as 2026-12-01T18:00, local unless it says otherwise."""
    if isinstance(value, datetime):
        return value.timestamp()
    text = value.strip()
    if text.lower() == "now":
        return None
    if text.startswith("+"):
        return time.time() + units.seconds(text[1:])
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise InvalidBooking(f"{text!r} is no moment", fix=_MOMENT_FORMS) from None


@contextmanager
def _of_bookings() -> Generator[None]:
    """Amounts and times are read as those of jobs are, but it is no job that they are wrong in."""
    try:
        yield
    except InvalidSpec as error:
        raise InvalidBooking(error.detail, fix=error.fix) from error


def _post(path: str, body: dict[str, Any]) -> Call[ReservationView]:
    # Sent twice it would book twice, or last twice as long.
    return Call(Request("POST", path, (), msgspec.json.encode(body), JSON, repeatable=False), ReservationView)


def _given(fields: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in fields.items() if value is not None}


def _path(name: str) -> str:
    return f"/v1/reservations/{part(name)}"
