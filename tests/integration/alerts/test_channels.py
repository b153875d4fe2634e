"""Notices by real connections: to an HTTP server, and to a mail server."""

import asyncio
import contextlib
import hashlib
import hmac
import json
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email import message_from_string, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ares.adapters.alerts import ChannelNotifier, Email, Smtp, Webhook
from ares.model.alert import ChannelRecord, Notice
from ares.ports.notify import NotDelivered
from tests.integration.api.world import World, open_world

NOTICE = Notice(
    id="a1b2-1", kind="policy", severity="critical", tenant="acme", subject="no <!channel> & more",
    text="job <https://evil.example|click> used 8 GPUs\r\nBcc: x@evil.example", at=1_700_000_000.0,
    numbers={"gpus": 8.0},
)  # fmt: skip
NOW = 1_700_000_123.0


@dataclass
class Receiver:
    """Answers every request alike, and keeps what came."""

    port: int = 0
    answer: bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    connections: int = 0
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list[tuple[dict[str, str], bytes]])
    silent: bool = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
            headers["request"] = head[0]
            self.requests.append((headers, await reader.readexactly(int(headers["content-length"]))))
            if self.silent:
                await reader.read()
            writer.write(self.answer)
            await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def receiving(**changes: Any) -> AsyncGenerator[Receiver]:
    receiver = Receiver(**changes)
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        await server.wait_closed()


def hook(port: int, host: str = "127.0.0.1", path: str = "/hook?token=x", tenant: str = "acme") -> ChannelRecord:
    url = f"http://{host}:{port}{path}"
    return ChannelRecord(name="ops", kind="webhook", tenant=tenant, url=url, secret="s3cret-s3cret-s3cret")


def webhook(*allow: str, timeout_s: float = 10.0) -> Webhook:
    return Webhook(lambda: NOW, allow, timeout_s)


async def failure(sender: Webhook | Email, channel: ChannelRecord) -> NotDelivered:
    with pytest.raises(NotDelivered) as caught:
        await sender.send(channel, NOTICE)
    return caught.value


async def test_a_webhook_gets_what_slack_would_and_can_tell_that_it_is_from_us() -> None:
    async with receiving() as receiver:
        sender = webhook("127.0.0.1")
        for _ in range(2):
            await sender.send(hook(receiver.port), NOTICE)
        (headers, body), (again, _) = receiver.requests
        assert headers["request"] == "POST /hook?token=x HTTP/1.1"
        assert headers["host"] == f"127.0.0.1:{receiver.port}"
        # Sent twice, it is the same notice.
        assert headers["x-ares-delivery"] == again["x-ares-delivery"] == "a1b2-1"
        stamp, signature = (part.partition("=")[2] for part in headers["x-ares-signature"].split(","))
        wanted = hmac.new(b"s3cret-s3cret-s3cret", f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
        assert (stamp, signature) == (str(int(NOW)), wanted)
        said = json.loads(body)
        # Nothing that users wrote mentions, links or formats.
        assert "<" not in said["text"]
        assert "no &lt;!channel&gt; &amp; more" in said["text"]
        (attachment,) = said["attachments"]
        fields = {one["title"]: one["value"] for one in attachment["fields"]}
        assert (fields["gpus"], fields["tenant"], fields["severity"]) == ("8", "acme", "critical")
        assert all("<" not in value for value in fields.values())


async def test_no_connection_is_made_to_addresses_that_are_not_of_the_open_internet() -> None:
    """N22-like: by number, by another form of it, by name, inside IPv6; the listener sees nothing."""
    async with receiving() as receiver:
        for host in (
            "127.0.0.1",
            "2130706433",
            "0x7f.1",
            "127.1",
            "localhost",
            "[::ffff:127.0.0.1]",
            "[::1]",
            "0.0.0.0",
        ):
            error = await failure(webhook(), hook(receiver.port, host))
            assert error.final, host
        secure = ChannelRecord(name="x", kind="webhook", tenant="acme", url=f"https://127.0.0.1:{receiver.port}/")
        error = await failure(webhook(), secure)
        assert "not an address of the open internet" in str(error)
        assert error.final
        assert receiver.connections == 0
        # The platform's own operators may.
        await webhook().send(hook(receiver.port, tenant=""), NOTICE)
        assert receiver.connections == 1


async def test_a_name_is_resolved_once_and_that_answer_is_the_one_connected_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """N22-like, DNS rebinding: a second question would get another answer."""
    asked: list[str] = []
    async with receiving() as receiver:
        loop = asyncio.get_running_loop()
        real: Callable[..., Any] = loop.getaddrinfo

        async def lying(host: str, port: int, **options: Any) -> Any:
            if host != "rebind.example":
                return await real(host, port, **options)
            asked.append(host)
            address = "127.0.0.1" if len(asked) == 1 else "169.254.169.254"
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

        monkeypatch.setattr(loop, "getaddrinfo", lying)
        await webhook("rebind.example").send(hook(receiver.port, "rebind.example"), NOTICE)
        assert (asked, receiver.connections) == (["rebind.example"], 1)
        assert receiver.requests[0][0]["host"] == f"rebind.example:{receiver.port}"


@pytest.mark.parametrize(
    ("status", "final"), [(301, True), (302, True), (400, True), (404, True), (429, False), (500, False), (503, False)]
)
async def test_only_a_good_status_is_an_arrival_and_redirects_are_not_followed(status: int, final: bool) -> None:
    async with receiving() as elsewhere:
        where = f"Location: http://127.0.0.1:{elsewhere.port}/\r\n"
        async with receiving(answer=f"HTTP/1.1 {status} X\r\n{where}\r\n".encode()) as receiver:
            error = await failure(webhook("127.0.0.1"), hook(receiver.port))
            assert (str(error), error.final) == (f"127.0.0.1 answered {status}", final)
            assert elsewhere.connections == 0


async def test_receivers_that_hang_talk_nonsense_or_are_gone_are_worth_another_try() -> None:
    async with receiving(silent=True) as receiver:
        assert "did not answer within" in str(await failure(webhook("127.0.0.1", timeout_s=0.2), hook(receiver.port)))
    async with receiving(answer=b"220 mail.example ESMTP\r\n") as receiver:
        assert "not HTTP" in str(await failure(webhook("127.0.0.1"), hook(receiver.port)))
    async with receiving(answer=b"x" * 100_000) as receiver:
        assert not (await failure(webhook("127.0.0.1"), hook(receiver.port))).final
    gone = await failure(webhook("127.0.0.1"), hook(receiver.port))
    assert not gone.final


class Mailbox:
    """A mail server that takes everything, unless it is told otherwise."""

    def __init__(self, refuse: bytes = b"") -> None:
        self.mails: list[tuple[list[str], EmailMessage]] = []
        self._refuse = refuse

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 sink ESMTP\r\n")
        to: list[str] = []
        while line := (await reader.readline()).decode().strip():
            verb = line.split(maxsplit=1)[0].upper().partition(":")[0]
            if verb == "RCPT":
                to.append(line.partition("<")[2].partition(">")[0])
            if verb == "DATA":
                writer.write(b"354 go on\r\n")
                text = (await reader.readuntil(b"\r\n.\r\n")).decode().removesuffix(".\r\n")
                self.mails.append((to, message_from_string(text, policy=policy.default)))
            refused = self._refuse if verb == "RCPT" and self._refuse else b""
            writer.write(refused or (b"221 bye\r\n" if verb == "QUIT" else b"250 ok\r\n"))
            if verb == "QUIT":
                break
        writer.close()


@contextlib.asynccontextmanager
async def mailing(refuse: bytes = b"") -> AsyncGenerator[tuple[Mailbox, Email]]:
    mailbox = Mailbox(refuse)
    server = await asyncio.start_server(mailbox.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield mailbox, Email(Smtp(host="127.0.0.1", port=port, sender="ares@x.example", starttls=False))
    finally:
        server.close()
        await server.wait_closed()


MAIL = ChannelRecord(name="mail", kind="email", tenant="acme", to=("ops@x.example", "dev@x.example"))


async def test_a_mail_arrives_once_at_everybody_and_nothing_in_it_becomes_a_header() -> None:
    async with mailing() as (mailbox, sender):
        await sender.send(MAIL, NOTICE)
        ((to, mail),) = mailbox.mails
        assert to == ["ops@x.example", "dev@x.example"]
        assert mail["From"] == "ares@x.example"
        assert mail["Subject"] == "[critical] acme: policy no <!channel> & more"
        assert mail["Message-ID"] == "<a1b2-1.mail@ares.invalid>"
        assert mail["Bcc"] is None
        assert "gpus: 8" in mail.get_content()


async def test_mail_that_is_refused_for_good_is_given_up_and_otherwise_tried_again() -> None:
    async with mailing(b"550 no such user\r\n") as (_, sender):
        assert (await failure(sender, MAIL)).final
    async with mailing(b"451 later\r\n") as (_, sender):
        assert not (await failure(sender, MAIL)).final
    assert not (await failure(sender, MAIL)).final


@pytest.mark.parametrize(
    "address", ["x", "@x.example", "a@b\r\nBcc: c@d", "a@b.example, c@d.example", "<a@b>", "a b@c"]
)
def test_what_is_no_address_is_refused_before_anything_is_kept(address: str) -> None:
    sender = Email(Smtp(host="127.0.0.1"))
    channel = ChannelRecord(name="mail", kind="email", to=(address,))
    assert "is no e-mail address" in (sender.unusable(channel) or "")


def test_a_server_without_smtp_says_so() -> None:
    assert "alerts.smtp_host" in (Email(Smtp()).unusable(MAIL) or "")


async def test_channels_over_http_show_no_secret_and_test_what_they_reach(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Slack URL is a secret itself: only its host is ever shown."""
    notifier = ChannelNotifier(lambda: NOW, smtp=Smtp(), allow=("127.0.0.1",))
    monkeypatch.setattr(world.services.channels, "_notifier", notifier)
    async with receiving() as receiver, world.client("tenant-admin") as admin, world.client() as client:
        body = {"kind": "webhook", "url": f"http://127.0.0.1:{receiver.port}/services/T000/canary"}
        saved = (await admin.put("/v1/channels/ops", json=body)).json()
        assert len(saved["secret"]) == 48
        listed = await admin.get("/v1/channels")
        assert "canary" not in listed.text
        assert saved["secret"] not in listed.text
        assert listed.json()["channels"][0]["where"] == f"http://127.0.0.1:{receiver.port}/..."
        assert (await admin.post("/v1/channels/ops/test")).json() == {"arrived": True, "error": ""}
        assert receiver.requests[0][0]["x-ares-delivery"].startswith("test-")
        assert (await client.get("/v1/channels")).status_code == 403
        wrong: tuple[dict[str, Any], ...] = (
            {"kind": "webhook", "url": "http://hooks.example/x"},
            {"kind": "webhook", "url": "file:///etc/passwd"},
            {"kind": "webhook"},
            {"kind": "email", "to": ["a@b.example"]},
            {"kind": "email", "url": "https://x.example", "to": []},
        )
        for bad in wrong:
            assert (await admin.put("/v1/channels/bad", json=bad)).json()["code"] == "channel-invalid", bad
        inside = {"kind": "webhook", "url": "https://169.254.169.254/latest/meta-data"}
        assert (await admin.put("/v1/channels/inside", json=inside)).status_code == 200
        told = (await admin.post("/v1/channels/inside/test")).json()
        assert (told["arrived"], "not an address of the open internet" in told["error"]) == (False, True)
        assert (await admin.put("/v1/channels/p?platform=true", json=body)).status_code == 403
        assert (await admin.get("/v1/alerts?platform=true")).status_code == 403
        async with world.client("tenant-admin", "other") as other:
            assert (await other.get("/v1/channels")).json()["channels"] == []
            assert (await other.delete("/v1/channels/ops")).status_code == 404
        assert (await admin.delete("/v1/channels/ops")).status_code == 204


async def test_a_policy_raises_an_alert_that_somebody_sees_to(world: World) -> None:
    async with world.client("tenant-admin") as admin, world.client() as client:
        rule = {"when": "job.priority == 'HIGH'", "action": "alert", "message": "HIGH is in use"}
        assert (await admin.put("/v1/policies/high", json=rule)).status_code == 200
        spec = {"command": ["true"], "priority": "HIGH"}
        job = (await client.post("/v1/jobs", json={"spec": spec})).json()["id"]
        (alert,) = (await admin.get("/v1/alerts")).json()["alerts"]
        assert (alert["kind"], alert["subject"], alert["state"]) == ("policy", "high", "open")
        assert alert["text"] == f"job {job} of acme: HIGH is in use (job.priority = HIGH)"
        seen = (await admin.post(f"/v1/alerts/{alert['id']}/acknowledge", json={"note": "mine"})).json()
        assert (seen["state"], seen["by"].split()[0], seen["note"]) == ("acknowledged", "tenant-admin", "mine")
        assert (await admin.post(f"/v1/alerts/{alert['id']}/resolve")).status_code == 200
        assert (await admin.get("/v1/alerts")).json()["alerts"] == []
        assert len((await admin.get("/v1/alerts?all=true")).json()["alerts"]) == 1
        async with world.client("tenant-admin", "other") as other:
            assert (await other.post(f"/v1/alerts/{alert['id']}/resolve")).status_code == 404


@pytest.fixture
async def world(tmp_path: Any) -> AsyncIterator[World]:
    async with open_world(tmp_path) as made:
        yield made


def certificate(folder: Path, *names: str) -> Path:
    """A certificate that signs itself, and its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / "both.pem"
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    return path


async def test_by_https_the_receiver_must_be_who_its_name_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address that was judged is not enough: whoever sits there must have the name's certificate."""
    both = certificate(tmp_path, "localhost")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(both)
    receiver = Receiver()
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]

    def at(host: str) -> ChannelRecord:
        return ChannelRecord(name="ops", kind="webhook", tenant="acme", url=f"https://{host}:{port}/", secret="x" * 16)

    sender = webhook("localhost", "127.0.0.0/8", "::1/128")
    try:
        unknown = await failure(sender, at("localhost"))
        assert "certificate" in str(unknown).lower()
        assert not unknown.final
        monkeypatch.setenv("SSL_CERT_FILE", str(both))
        other = await failure(sender, at("127.0.0.1"))
        assert "certificate" in str(other).lower()
        assert receiver.requests == []
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", _here)
        await sender.send(at("localhost"), NOTICE)
        assert receiver.requests[0][0]["host"] == f"localhost:{port}"
    finally:
        server.close()
        await server.wait_closed()


async def _here(host: str, port: int, **options: Any) -> Any:
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]
