"""Why a control plane cannot be reached, found out by trying: name, connection, TLS. For the agent's terminal."""

import asyncio
import contextlib
import socket
import ssl
from datetime import UTC, datetime
from typing import Final

from ares.core.access.certificates import CONTROL_PLANE
from ares.ports.link import Proof

_TRY_S: Final = 1.5
# What OpenSSL says of certificates whose time has not come or is over.
_OF_CLOCKS: Final = ("not yet valid", "has expired", "expired")


async def diagnosis(address: str, proof: Proof | None) -> str:
    """In words, with what to do. The connection that is made for it is closed at once."""
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(_TRY_S):
            _, writer = await asyncio.open_connection(
                host.strip("[]"), int(port), ssl=_secured(proof), server_hostname=proof and CONTROL_PLANE
            )
    except TimeoutError:
        return f"no answer within {_TRY_S:g} s: a wrong address, or a firewall between"
    except socket.gaierror as error:
        return f"the name {host} is not known ({error.strerror}): check the address"
    except ConnectionRefusedError:
        return "connection refused: nothing listens there. Is the server up, and is this its port for agents?"
    except ssl.SSLCertVerificationError as error:
        return of_certificate(error.verify_message)
    except ssl.SSLError as error:
        return f"TLS failed ({error.reason or error}): is this the server's port for agents, and does it have TLS?"
    except (OSError, ValueError) as error:
        return str(error)
    writer.close()
    with contextlib.suppress(OSError, ssl.SSLError, TimeoutError):
        async with asyncio.timeout(_TRY_S):
            await writer.wait_closed()
    return "something listens there, but does not speak as a control plane: is this its port for agents?"


def _secured(proof: Proof | None) -> ssl.SSLContext | None:
    return None if proof is None else ssl.create_default_context(cadata=proof.authorities)


def of_certificate(said: str) -> str:
    """What a refused certificate may mean: often a wrong clock."""
    if any(word in said for word in _OF_CLOCKS):
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
        return f"its certificate: {said}. This machine's clock says {now} UTC: is that right (timedatectl)?"
    return f"its certificate is not trusted: {said}. Was the server's authority replaced? Then join again by --join"
