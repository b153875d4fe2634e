"""Machines that come to the API with the certificate they have for the agents' port."""

import asyncio
from ssl import SSLObject
from typing import Final

# Under which a connection keeps, for each of its requests, which machine it is.
MACHINE: Final = "ares_machine"


def machine_of(transport: asyncio.BaseTransport) -> str:
    """The identity in the certificate that the other side proved, empty when it has none."""
    tls: SSLObject | None = transport.get_extra_info("ssl_object")
    shown = None if tls is None else tls.getpeercert()
    if not shown:
        return ""
    names = shown.get("subjectAltName", ())
    return next((str(value) for kind, value in names if kind == "URI"), "unknown")
