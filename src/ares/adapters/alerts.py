"""Every kind of channel behind one port: signed HTTP requests to addresses that tenants chose, and e-mail by one SMTP
server that the operator named.
"""

import asyncio
import hashlib
import hmac
import re
import smtplib
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import formatdate
from pathlib import Path

import msgspec

from ares.core.alerts import slack
from ares.core.net import Target, judged, target_of
from ares.model.alert import PLATFORM, ChannelKind, ChannelRecord, Notice
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


# Narrower than what mail allows: no character with a meaning in a header.
_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*")


@dataclass(frozen=True, slots=True)
class Smtp:
    """The SMTP server. Without a host no e-mail is sent."""

    host: str = ""
    port: int = 587
    sender: str = "ares@localhost"
    user: str = ""
    # Read for every message: it may be changed while the server runs.
    password_file: str = ""
    starttls: bool = True
    timeout_s: float = 10.0


class Email:
    def __init__(self, smtp: Smtp) -> None:
        self._smtp = smtp

    def unusable(self, channel: ChannelRecord) -> str | None:
        if not self._smtp.host:
            return "this server sends no e-mail: alerts.smtp_host is not set"
        if not channel.to:
            return "no address is given"
        wrong = next((address for address in channel.to if not _ADDRESS.fullmatch(address)), None)
        return None if wrong is None else f"{wrong!r} is no e-mail address"

    async def send(self, channel: ChannelRecord, notice: Notice) -> None:
        if why := self.unusable(channel):
            raise NotDelivered(why, final=True)
        try:
            await asyncio.to_thread(self._send, _message(self._smtp.sender, channel, notice))
        except smtplib.SMTPRecipientsRefused as error:
            raise NotDelivered(f"{self._smtp.host} refused every recipient", final=_is_final(error)) from None
        except smtplib.SMTPResponseException as error:
            final = 500 <= error.smtp_code < 600
            raise NotDelivered(f"{self._smtp.host} answered {error.smtp_code}", final=final) from None
        except (OSError, smtplib.SMTPException) as error:
            raise NotDelivered(f"{self._smtp.host}: {str(error) or type(error).__name__}") from None

    def _send(self, message: EmailMessage) -> None:
        smtp = self._smtp
        with smtplib.SMTP(smtp.host, smtp.port, timeout=smtp.timeout_s) as server:
            if smtp.starttls:
                server.starttls(context=ssl.create_default_context())
            if smtp.user:
                server.login(smtp.user, Path(smtp.password_file).read_text().strip())
            server.send_message(message)


def _message(sender: str, channel: ChannelRecord, notice: Notice) -> EmailMessage:
    message = EmailMessage()
    message["From"] = sender
    message["To"] = ", ".join(channel.to)
    message["Subject"] = " ".join(notice.title.split())[:200]
    message["Date"] = formatdate(notice.at, usegmt=True)
    # The same for every try: mail systems drop a message whose id they have seen.
    message["Message-ID"] = f"<{notice.id}.{channel.name}@ares.invalid>"
    numbers = [f"{name}: {value:g}" for name, value in notice.numbers.items()]
    lines = [notice.text, "", f"kind: {notice.kind}", f"tenant: {notice.tenant or 'platform'}"]
    message.set_content("\n".join([*lines, f"subject: {notice.subject}", *numbers, f"id: {notice.id}"]) + "\n")
    return message


def _is_final(error: smtplib.SMTPRecipientsRefused) -> bool:
    return all(500 <= code < 600 for code, _ in error.recipients.values())


class ChannelNotifier:
    def __init__(
        self, wall: Callable[[], float], *, smtp: Smtp, allow: Sequence[str] = (), timeout_s: float = TIMEOUT_S
    ) -> None:
        self._kinds: dict[ChannelKind, Webhook | Email] = {
            "webhook": Webhook(wall, allow, timeout_s),
            "email": Email(smtp),
        }

    def unusable(self, channel: ChannelRecord) -> str | None:
        return self._kinds[channel.kind].unusable(channel)

    async def send(self, channel: ChannelRecord, notice: Notice) -> None:
        await self._kinds[channel.kind].send(channel, notice)
