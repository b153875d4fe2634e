"""Notices as e-mail, by one SMTP server that the operator named."""

import asyncio
import re
import smtplib
import ssl
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import formatdate
from pathlib import Path

from ares.model.alert import ChannelRecord, Notice
from ares.ports.notify import NotDelivered

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
