"""Notices as signed HTTP requests to addresses that tenants chose.

A host name is resolved once, every address is checked, and the connection goes to a checked address: a second lookup
could give another one. Redirects are not followed, and of the answer only the status line is read.
"""

import asyncio
import hashlib
import hmac
import socket
import ssl
from collections.abc import Callable, Sequence

import msgspec

from ares.core.alerts.due import slack
from ares.core.net.addresses import Target, judged, target_of
from ares.model.alert import PLATFORM, ChannelRecord, Notice
from ares.ports.notify import NotDelivered

TIMEOUT_S = 10.0
_STATUS_LINE_MAX = 1024
_ADDRESSES_MAX = 4
# A request that is refused with any other status below 500 is not tried again.
_WORTH_REPEATING = frozenset({408, 409, 425, 429})


class Webhook:
    """`allow` names hosts and networks that tenants' webhooks may lead to though they are not of the open internet."""

    def __init__(self, wall: Callable[[], float], allow: Sequence[str] = (), timeout_s: float = TIMEOUT_S) -> None:
        self._wall = wall
        self._allow = tuple(allow)
        self._timeout_s = timeout_s

    def unusable(self, channel: ChannelRecord) -> str | None:
        target = target_of(channel.url)
        if isinstance(target, str):
            return f"the URL cannot be used: {target}"
        if channel.tenant != PLATFORM and target.scheme != "https" and target.host not in self._allow:
            return "the URL cannot be used: webhooks of tenants are called by https"
        return None

    async def send(self, channel: ChannelRecord, notice: Notice) -> None:
        target = target_of(channel.url)
        if isinstance(target, str) or self.unusable(channel):
            raise NotDelivered(self.unusable(channel) or "the URL cannot be used", final=True)
        try:
            async with asyncio.timeout(self._timeout_s):
                addresses = await self._resolve(channel, target)
                status = await self._post(addresses, target, self._request(channel, target, notice))
        except TimeoutError:
            raise NotDelivered(f"{target.host} did not answer within {self._timeout_s:g} s") from None
        except (OSError, EOFError, ValueError) as error:
            raise NotDelivered(f"{target.host}: {str(error) or type(error).__name__}") from None
        if not 200 <= status < 300:
            final = status < 500 and status not in _WORTH_REPEATING
            raise NotDelivered(f"{target.host} answered {status}", final=final)

    async def _resolve(self, channel: ChannelRecord, target: Target) -> Sequence[str]:
        found = await asyncio.get_running_loop().getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(info[4][0]) for info in found))
        if channel.tenant == PLATFORM:
            return addresses
        try:
            return judged(target.host, addresses, self._allow)
        except ValueError as error:
            raise NotDelivered(f"the webhook is not called: {error}", final=True) from None

    def _request(self, channel: ChannelRecord, target: Target, notice: Notice) -> bytes:
        body = msgspec.json.encode(slack(notice))
        headers = {
            "Host": target.authority,
            "User-Agent": "ares",
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "Connection": "close",
            # The same for every try, so that a receiver recognises a repeated notice.
            "X-Ares-Delivery": notice.id,
            "X-Ares-Signature": signature(channel.secret, int(self._wall()), body),
        }
        lines = [f"POST {target.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        return "\r\n".join(lines).encode("ascii") + b"\r\n\r\n" + body

    async def _post(self, addresses: Sequence[str], target: Target, request: bytes) -> int:
        """The status of the answer."""
        reader, writer = await _connected(addresses, target)
        try:
            writer.write(request)
            await writer.drain()
            words = (await reader.readline()).split(maxsplit=2)
        finally:
            writer.close()
        if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
            raise OSError("the answer is not HTTP")
        return int(words[1])


async def _connected(addresses: Sequence[str], target: Target) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connects to the first address that answers: the machine may have no route to the others."""
    secure = ssl.create_default_context() if target.scheme == "https" else None
    name = target.host if secure else None
    last: OSError = OSError("it has no address")
    for address in addresses[:_ADDRESSES_MAX]:
        try:
            return await asyncio.open_connection(
                address, target.port, ssl=secure, server_hostname=name, limit=_STATUS_LINE_MAX
            )
        except OSError as error:
            last = error
    raise last


def signature(secret: str, at: int, body: bytes) -> str:
    """Signs the time and the body, so that an old request cannot be replayed as a new one."""
    digest = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"
