"""Takes spans that the programs of jobs record, and hands those of their own trace over to the control plane.

A job is told an address on this machine with a key of its own. What comes there is bounded: in bytes of a request and
of all of them, and in spans. A program without an OpenTelemetry SDK never notices.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ares.core.trace.otlp_wire import spans_of
from ares.model.link import Start
from ares.model.telemetry.program_span import PROGRAM_SPANS_MAX, SPANS_PER_MESSAGE, ProgramSpans
from ares.ports.clock import Rng

# Of one request. An SDK sends at most 512 spans in one, which have far less.
BODY_BYTES_MAX: Final = 512 * 1024
# Of all requests of one rank: reading them takes the agent's time.
_BYTES_MAX: Final = 8 << 20
# Attempts that are remembered: the longest known are forgotten first, and cannot tell any more.
_KNOWN_MAX: Final = 4096
_KEY_BYTES: Final = 16
# A job with a collector of its own goes on telling that one.
_OTLP: Final = "OTEL_EXPORTER_OTLP"


@dataclass(slots=True)
class _Teller:
    start: Start
    spans_left: int = PROGRAM_SPANS_MAX
    bytes_left: int = _BYTES_MAX


class SpanDesk:
    """One of a node. `origin` is where its door is, empty while there is none; `send` is the way to the control
    plane."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self.origin = ""
        self.send: Callable[[ProgramSpans], None] = lambda spans: None
        self._known: OrderedDict[str, _Teller] = OrderedDict()

    def variables(self, start: Start) -> dict[str, str]:
        """For the environment of one rank of an attempt."""
        if not self.origin or not start.trace or start.spec.network != "host":
            return {}
        if any(name.startswith(_OTLP) for name in start.spec.env):
            return {}
        key = self._rng.token(_KEY_BYTES).hex()
        self._known[key] = _Teller(start)
        if len(self._known) > _KNOWN_MAX:
            self._known.popitem(last=False)
        return {
            f"{_OTLP}_TRACES_ENDPOINT": f"{self.origin}/{key}/v1/traces",
            f"{_OTLP}_TRACES_PROTOCOL": "http/protobuf",
        }

    def take(self, key: str, body: bytes, *, is_json: bool) -> int:
        """The status of the answer."""
        teller = self._known.get(key)
        if teller is None:
            return 404
        if teller.spans_left <= 0 or len(body) > teller.bytes_left:
            # Not to be sent again: 429 would be.
            return 413
        teller.bytes_left -= len(body)
        start = teller.start
        try:
            # A traceparent: version, trace, span, flags.
            found = spans_of(body, is_json=is_json, trace_id=start.trace.split("-")[1], most=teller.spans_left)
        except ValueError:
            return 400
        teller.spans_left -= len(found)
        for begin in range(0, len(found), SPANS_PER_MESSAGE):
            part = tuple(found[begin : begin + SPANS_PER_MESSAGE])
            self.send(ProgramSpans(ref=start.ref, rank=start.placement.rank, attempt=start.attempt, spans=part))
        return 200
