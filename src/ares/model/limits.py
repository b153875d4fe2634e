"""How much of a server each client may have. One value; what is over it is refused with a time to come again."""

from typing import Annotated

import msgspec
from msgspec import Meta

_PerSecond = Annotated[float, Meta(gt=0.0, le=10_000_000.0)]
_Burst = Annotated[float, Meta(ge=1.0, le=100_000_000.0)]
_Count = Annotated[int, Meta(ge=1, le=10_000_000)]
_Seconds = Annotated[float, Meta(gt=0.0, le=3600.0)]


class ServerLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Per replica. The defaults are wide: they stop floods, not work."""

    # Requests of one tenant, and of one user or token.
    tenant_requests_per_s: _PerSecond = 4000.0
    tenant_requests_burst: _Burst = 8000.0
    principal_requests_per_s: _PerSecond = 2000.0
    principal_requests_burst: _Burst = 4000.0
    # Jobs that one tenant submits, each job of a batch counted.
    jobs_per_s: _PerSecond = 10_000.0
    jobs_burst: _Burst = 50_000.0
    # Requests of one address without a credential, and requests with a wrong one.
    anonymous_per_s: _PerSecond = 200.0
    anonymous_burst: _Burst = 1000.0
    failures_per_s: _PerSecond = 20.0
    failures_burst: _Burst = 100.0
    # Refusals that one tenant or address gets at once; each beyond is held back for `refusal_hold_s`, so a flood ebbs.
    refusals_per_s: _PerSecond = 50.0
    refusals_burst: _Burst = 200.0
    refusal_hold_s: _Seconds = 1.0
    # Requests served at a time; the others wait, each tenant in a queue of its own, and are served in turn.
    served_at_once: _Count = 32
    waiting_max: _Count = 4000
    waiting_per_tenant_max: _Count = 500
    # A request that got no turn for this long is refused.
    waiting_s: _Seconds = 1.5
    # Event, log and output streams that one tenant has open.
    streams_per_tenant_max: _Count = 400
    # The part of a server's time that one tenant may have while others are present, and how far ahead it may be.
    tenant_time_share: Annotated[float, Meta(gt=0.0, le=1.0)] = 0.25
    tenant_time_burst_s: _Seconds = 0.1
    # Bytes of large bodies that are being received.
    body_mib_max: _Count = 256
    tenant_body_mib_max: _Count = 64
    # Open connections, in all and of one address.
    connections_max: _Count = 10_000
    connections_per_address_max: _Count = 2000
    # The time for the head of a request, and the number and bytes of its headers.
    head_s: _Seconds = 10.0
    headers_max: _Count = 100
    head_kib_max: _Count = 64


DEFAULT = ServerLimits()
