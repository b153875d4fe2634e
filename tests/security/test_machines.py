"""Machines: how they come in, what they may say, and how they are put out. Real TLS on real sockets."""

import asyncio
import socket
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from ares.adapters.certificates import NoAuthority, X509Issuer, make_authority
from ares.adapters.links.grpc import GrpcLink
from ares.adapters.store.memory import StoreFault
from ares.agent.link import identity
from ares.control.access.machines import Admitted, ForeignAuthority, MachineAuthority, join_denied
from ares.control.execution.transitions import JobChange, Written
from ares.control.submit.submit import AcceptedJob, SubmitRequest
from ares.core.access.certificates import CONTROL_PLANE, SKEW_S
from ares.core.access.tokens import denied
from ares.core.lifecycle.inputs import Bind, RankStarted
from ares.core.refusal import Refusal
from ares.edge.grpc.agents import AgentServer
from ares.model.job import JobSpec
from ares.model.link import (
    AgentFrame,
    AgentMessage,
    AttemptRef,
    CertifyRequest,
    Exited,
    Fenced,
    Hello,
    JoinRequest,
    LogChunk,
    OutputChunk,
    Progress,
    Renew,
    Started,
    Welcome,
)
from ares.model.node import NodeInfo
from ares.model.state import ExitInfo, Fence, JobState, Placement
from ares.ports.link import LinkBroken, LinkRefused, LinkSession, Proof
from ares.ports.store import StoreUnavailable
from tests.security.planes import REQUESTS, ROOT, Plane, Planes, Skewed, new_authority

# Revocation takes effect within this time, and no test is slower than a machine under load.
WITHIN_S = 20.0


@pytest.fixture
async def planes(tmp_path: Path) -> AsyncIterator[Planes]:
    async with Planes(tmp_path) as made:
        yield made


@pytest.fixture
async def plane(planes: Planes) -> Plane:
    return await planes.start()


def hello(name: str, *, boot: int = 0, incarnation: int = 0) -> Hello:
    info = NodeInfo(name=name, cpu_milli=4000, memory_mib=4096)
    return Hello(info=info, boot=boot, incarnation=incarnation)


async def welcomed(plane: Plane, proof: Proof, name: str, *, boot: int = 0) -> tuple[LinkSession, Welcome]:
    session = await plane.link(proof).connect("")
    await session.send(AgentFrame(messages=(hello(name, boot=boot),)))
    first = (await anext(session.frames())).messages[0]
    assert isinstance(first, Welcome)
    return session, first


async def running_job(plane: Plane, node: str, incarnation: int) -> JobState:
    (made,) = await plane.replica.submit.submit(ROOT, [SubmitRequest(spec=JobSpec(command=("true",)))])
    assert isinstance(made, AcceptedJob), made
    place = Placement(node=node, incarnation=incarnation, cpu_milli=1000, memory_mib=64)
    (bound,) = await plane.replica.transitions.apply([JobChange(made.job, "acme", (Bind(placements=(place,)),))])
    assert isinstance(bound, Written), bound
    (begun,) = await plane.replica.transitions.apply(
        [JobChange(made.job, "acme", (RankStarted(fence=bound.state.fence),))]
    )
    assert isinstance(begun, Written), begun
    return begun.state


# ---- the door


def knock(port: int, context: ssl.SSLContext) -> bytes:
    """What a server says first to a client that begins HTTP/2. Raises when the handshake fails."""
    context.set_alpn_protocols(["h2"])
    with (
        socket.create_connection(("127.0.0.1", port), timeout=WITHIN_S) as plain,
        context.wrap_socket(plain, server_hostname=CONTROL_PLANE) as secure,
    ):
        secure.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
        return secure.recv(100)


def client_context(planes: Planes, folder: Path, proof: Proof | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=planes.authority.authorities)
    if proof is not None:
        file = folder / "client.pem"
        file.write_text(proof.key + proof.certificate)
        context.load_cert_chain(file)
    return context


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_no_certificate_no_handshake(
    planes: Planes, plane: Plane, tmp_path: Path, version: ssl.TLSVersion
) -> None:
    """N16: the agents' port hears nobody who has no certificate of the installation's authority."""
    good = client_context(planes, tmp_path, await plane.proof("n1"))
    good.minimum_version = good.maximum_version = version
    assert await asyncio.to_thread(knock, plane.port, good), "the port answers nobody: the test would prove nothing"
    key = REQUESTS.new_key()
    now = int(time.time())
    foreign = new_authority().sign(REQUESTS.request(key), "node", "n1", 0, (now, now + 3600))
    servers_own = planes.authority.serving(now, now + 3600)
    over = planes.authority.sign(REQUESTS.request(key), "node", "n1", 0, (now - 7200, now - 3600))
    for proof in (
        None,
        Proof("", foreign.certificate, key),
        Proof("", servers_own.certificate, servers_own.key),
        Proof("", over.certificate, key),
    ):
        context = client_context(planes, tmp_path, proof)
        context.minimum_version = context.maximum_version = version
        try:
            said = await asyncio.to_thread(knock, plane.port, context)
        except OSError:
            continue
        # With TLS 1.3 a client learns of the refusal when it reads.
        assert not said


async def test_the_port_speaks_nothing_in_the_clear_and_nothing_old(planes: Planes, plane: Plane) -> None:
    """N16"""
    with pytest.raises(LinkBroken):
        await plane.link(None).connect("ares_0123456789_" + "a" * 43)

    def old() -> None:
        context = ssl.create_default_context(cadata=planes.authority.authorities)
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
        knock(plane.port, context)

    with pytest.warns(DeprecationWarning, match="TLSv1"), pytest.raises(OSError, match=r"SSL|EOF|reset"):
        await asyncio.to_thread(old)


async def test_agents_trust_no_control_plane_of_another_authority(plane: Plane) -> None:
    """N16, the other way round: a node's certificate cannot be used to play the control plane either."""
    proof = await plane.proof("n1")
    with pytest.raises(LinkBroken):
        await plane.link(proof._replace(authorities=new_authority().authorities)).connect("")
    certificate = x509.load_pem_x509_certificate(proof.certificate.encode())
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH]
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [name.value for name in names] == ["ares://node/n1"]
    begins = certificate.not_valid_before_utc.timestamp()
    assert begins <= time.time() - SKEW_S + 60, "clocks that are some minutes late must not refuse it"


async def test_a_cluster_and_a_person_are_no_node(plane: Plane) -> None:
    """N30: a cluster's certificate opens no node's stream, and a person's token does not help a machine."""
    cluster = await plane.proof("east", cluster=True)
    session = await plane.link(cluster).connect("")
    with pytest.raises(LinkRefused, match="cluster"):
        await anext(session.frames())
    assert ("agentLink", "wrong_role_cert") in await plane.denials()
    await session.close()
    made = await plane.replica.tokens.bootstrap("acme", lambda _: None)
    assert made is not None
    with_token = await plane.link(cluster).connect(made)
    with pytest.raises(LinkRefused, match="cluster"):
        await anext(with_token.frames())
    await with_token.close()


# ---- joining


async def test_a_join_token_is_good_for_one_key_one_name_and_its_time(plane: Plane) -> None:
    """N32: replayed, expired, for another name."""
    mine, other = REQUESTS.new_key(), REQUESTS.new_key()
    token = await plane.token(node="n1")
    assert await plane.try_join(token, "n2", mine) == join_denied("name")
    assert isinstance(await plane.try_join(token, "n1", mine), Admitted)
    assert await plane.try_join(token, "n1", other) == join_denied("revoked")
    expired = await plane.token(node="n1", ttl_s=-1.0)
    assert await plane.try_join(expired, "n1", mine) == join_denied("expired")
    wrong = token[:-4] + ("AAAA" if not token.endswith("AAAA") else "BBBB")
    assert await plane.try_join(wrong, "n1", mine) == join_denied("unknown")
    for_cluster = await plane.token(cluster="n3")
    assert await plane.replica.tokens.trade_join(for_cluster, "n4") == denied("unknown")
    traded = await plane.replica.tokens.trade_join(for_cluster, "n3")
    assert isinstance(traded, tuple)
    assert traded[1] == "cluster"


async def test_a_join_whose_answer_was_lost_can_be_repeated_by_the_same_key(plane: Plane) -> None:
    """N32: and by nobody else, and only until the machine is put out. What the lost answer held is over."""
    key, token = REQUESTS.new_key(), await plane.token()
    first, second = [await plane.try_join(token, "n1", key) for _ in range(2)]
    assert isinstance(first, Admitted)
    assert isinstance(second, Admitted)
    assert await plane.try_join(token, "n2", key) == join_denied("name"), "it was bound by its first use"
    await plane.replica.view.catch_up()
    late = await plane.link(Proof(first.authority, first.certificate, key)).connect("")
    with pytest.raises(LinkRefused, match="revoked"):
        await anext(late.frames())
    await late.close()
    session, _ = await welcomed(plane, Proof(second.authority, second.certificate, key), "n1")
    await session.close()
    await plane.replica.authority.revoke(ROOT, "node", "n1")
    assert await plane.try_join(token, "n1", key) == join_denied("revoked")


async def test_a_join_that_the_store_did_not_confirm_is_repeated(planes: Planes, plane: Plane) -> None:
    """N32: nobody knows whether the token was spent; the agent, which kept its key, need not."""
    for lost in ("reply_lost", "request_lost"):
        key, token = REQUESTS.new_key(), await plane.token(node="n1")
        planes.faults.next(StoreFault(lost))
        with pytest.raises(StoreUnavailable):
            await plane.try_join(token, "n1", key)
        assert isinstance(await plane.try_join(token, "n1", key), Admitted)
        assert await plane.try_join(token, "n1", REQUESTS.new_key()) == join_denied("revoked")


def test_what_a_node_keeps_is_of_one_piece(tmp_path: Path) -> None:
    """A killed join goes on with its key; a file that is not whole is said to be damaged."""
    key = identity.join_key(tmp_path, REQUESTS)
    assert identity.join_key(tmp_path, REQUESTS) == key
    assert (tmp_path / "join.key").stat().st_mode & 0o777 == 0o600
    made = make_authority("test", int(time.time()))
    proof = Proof(made.certificate, made.certificate, key)
    assert identity.load_proof(tmp_path) is None
    identity.save_proof(proof, tmp_path)
    assert identity.load_proof(tmp_path) == proof
    assert identity.join_key(tmp_path, REQUESTS) != key, "the next join has a key of its own"
    file = tmp_path / identity.PROOF_FILE
    for damaged in (b"", file.read_bytes()[:200], b"\xff" + file.read_bytes(), made.certificate.encode()):
        file.write_bytes(damaged)
        with pytest.raises(identity.DamagedCredential):
            identity.load_proof(tmp_path)


async def test_a_token_for_any_name_admits_no_second_machine_of_a_name(plane: Plane) -> None:
    """N32: it would take the name of one that is in. A token for that very name replaces the machine."""
    before = await plane.proof("n1")
    key = REQUESTS.new_key()
    assert await plane.try_join(await plane.token(), "n1", key) == join_denied("taken")
    assert isinstance(await plane.try_join(await plane.token(), "n2", key), Admitted)
    await plane.proof("n1")
    await plane.replica.view.catch_up()
    session = await plane.link(before).connect("")
    with pytest.raises(LinkRefused, match="revoked"):
        await anext(session.frames())
    await session.close()


async def test_every_join_that_is_denied_is_recorded(plane: Plane) -> None:
    """N32: 401 each, with the reason in the audit log; the one that is let in is recorded too."""
    body = {"name": "n1", "request": REQUESTS.request(REQUESTS.new_key())}
    spent, expired = await plane.token(node="n1"), await plane.token(node="n1", ttl_s=-1.0)
    other_key = {**body, "request": REQUESTS.request(REQUESTS.new_key())}
    for token, asked, status, reason in (
        (spent, {**body, "name": "n2"}, 401, "join:name"),
        (spent, body, 200, ""),
        (spent, other_key, 401, "join:revoked"),
        (expired, body, 401, "join:expired"),
        (await plane.token(), body, 401, "join:taken"),
        (await plane.token(node="n3"), {"name": "n3", "request": "none"}, 401, "join:malformed"),
        ("ares_0123456789_" + "a" * 43, body, 401, "join:unknown"),
    ):
        async with plane.browser(token) as client:
            answer = await client.post("/v1/join", json=asked)
        assert answer.status_code == status, answer.text
        assert (await plane.entries())[-1].reason == reason
        assert (await plane.entries())[-1].operation == "joinMachine"
        assert token not in answer.text


async def test_a_machines_credential_opens_nothing_on_the_api(plane: Plane) -> None:
    """N30: by a node's own token, and by a join token, which is no credential at all."""
    traded = await plane.replica.tokens.trade_join(await plane.token(node="n1"), "n1")
    assert isinstance(traded, tuple)
    for token, path, status, reason in (
        (traded[0], "/v1/jobs", 403, "wrong_role_cert"),
        (traded[0], "/v1/nodes", 403, "wrong_role_cert"),
        (traded[0], "/v1/whoami", 403, "wrong_role_cert"),
        (await plane.token(node="n2"), "/v1/jobs", 401, "bad_key"),
    ):
        async with plane.browser(token) as client:
            assert (await client.get(path)).status_code == status
        assert (await plane.entries())[-1].reason == reason
    async with plane.browser(traded[0]) as client:
        asked = {"name": "n1", "request": REQUESTS.request(REQUESTS.new_key())}
        assert (await client.post("/v1/join", json=asked)).status_code == 403


def _rsa_request() -> str:
    key = rsa.generate_private_key(65537, 2048)
    made = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    return made.public_bytes(serialization.Encoding.PEM).decode()


def _ambitious_request() -> tuple[str, str]:
    """Asks to be an authority, under another name."""
    key = ec.generate_private_key(ec.SECP256R1())
    made = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, CONTROL_PLANE)]))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(CONTROL_PLANE)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return made.public_bytes(serialization.Encoding.PEM).decode(), private.decode()


async def test_of_a_request_only_the_key_counts(plane: Plane) -> None:
    join = plane.replica.authority.join
    token = await plane.token(node="n1")
    good = REQUESTS.request(REQUESTS.new_key())
    for bad in ("", "x" * 20_000, good.replace("A", "B"), good[: len(good) // 2], _rsa_request()):
        assert await join(token, "n1", bad) == join_denied("malformed")
    for name in ("", "../n1", "n1/..", "-n1", "n" * 200, "n1\n"):
        assert isinstance(await join(await plane.token(), name, good), Refusal), name
    request, _ = _ambitious_request()
    admitted = await join(token, "n1", request)
    assert isinstance(admitted, Admitted)
    certificate = x509.load_pem_x509_certificate(admitted.certificate.encode())
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert CONTROL_PLANE not in str(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName))
    assert not list(certificate.subject)


# ---- what it may say


async def test_a_node_is_only_itself(plane: Plane) -> None:
    """N31: another node's name in the body."""
    session = await plane.link(await plane.proof("n1")).connect("")
    await session.send(AgentFrame(messages=(hello("n2"),)))
    with pytest.raises(LinkRefused, match="n1"):
        await anext(session.frames())
    await session.close()
    assert "n2" not in plane.replica.view.nodes
    assert ("openSession", "not_granted") in await plane.denials()


async def test_an_agent_says_nothing_about_another_nodes_job(plane: Plane) -> None:
    """N31: whatever it sends for a job that was granted to another node, it changes nothing and is recorded."""
    theirs, welcome = await welcomed(plane, await plane.proof("n2"), "n2")
    session, _ = await welcomed(plane, await plane.proof("n1"), "n1")
    state = await running_job(plane, "n2", welcome.incarnation)
    ref = AttemptRef(job=state.id, tenant="acme", fence=state.fence)
    sha = "0" * 64
    forged: tuple[AgentMessage, ...] = (
        LogChunk(ref=ref, rank=0, attempt=1, offset=0, data=b"forged\n"),
        Progress(ref=ref, rank=0, fraction=0.5),
        OutputChunk(ref=ref, rank=0, sha256=sha, size=3, offset=0, data=b"abc"),
        Exited(number=1, ref=ref, rank=0, exit=ExitInfo(code=0), at=0.0),
        Fenced(number=2, ref=AttemptRef(job=state.id, tenant="acme", fence=Fence(9, 9)), rank=0, reason="forged"),
        Started(number=3, ref=AttemptRef(job=state.id, tenant="other", fence=state.fence), rank=0, pid=1, at=0.0),
        Renew(nonce=7),
    )
    await session.send(AgentFrame(messages=forged))
    frames, heard = session.frames(), list[str]()
    async with asyncio.timeout(WITHIN_S):
        while not {"Ack", "Renewed", "OutputAck", "LogAck"} <= set(heard):
            heard += [type(message).__name__ for message in (await anext(frames)).messages]
    await plane.replica.view.catch_up()
    assert plane.replica.view.entries[state.id].state == state
    assert not plane.logs.size("acme", state.id, 1, 0)
    denied = [entry for entry in await plane.entries() if entry.reason == "not_granted"]
    # Denials of one kind may be counted together.
    assert {entry.operation for entry in denied} == {"writeLog", "reportProgress", "writeOutput", "reportAttempt"}
    assert {(entry.outcome, entry.user, entry.role) for entry in denied} == {("DENY", "n1", "node")}
    assert b'ares_auth_denials_total{reason="not_granted"} 6.0' in plane.telemetry.render()
    # The one it was granted to may.
    await theirs.send(AgentFrame(messages=(forged[3],)))
    async with asyncio.timeout(WITHIN_S):
        while plane.replica.view.entries[state.id].state.phase != "SUCCEEDED":
            await asyncio.sleep(0.01)
    await session.close()
    await theirs.close()


async def test_two_agents_with_one_identity_end_as_one(plane: Plane) -> None:
    """N32: a copy of a node's files on a second machine takes over, the first is put out, and people are told."""
    proof = await plane.proof("n1")
    first, welcome = await welcomed(plane, proof, "n1", boot=1)
    second, taken = await welcomed(plane, proof, "n1", boot=2)
    assert taken.incarnation == welcome.incarnation + 1
    async with asyncio.timeout(WITHIN_S):
        with pytest.raises(LinkBroken):
            async for _ in first.frames():
                pass
    again = await plane.link(proof).connect("")
    await again.send(AgentFrame(messages=(hello("n1", boot=1),)))
    with pytest.raises(LinkRefused, match="a later agent"):
        await anext(again.frames())
    assert ("openSession", "duplicate") in await plane.denials()
    await plane.replica.view.catch_up()
    (alert,) = plane.replica.view.kept.alerts.values()
    assert (alert.kind, alert.subject) == ("duplicate-agent", "nodes/n1")
    for session in (first, second, again):
        await session.close()


# ---- putting it out


async def test_revocation_reaches_streams_at_other_replicas(planes: Planes, plane: Plane) -> None:
    """N7 for machines: revoked at one replica, its stream at the other is cut, and nothing brings it back."""
    other = await planes.start("r2")
    proof = await plane.proof("n1")
    await other.replica.view.catch_up()
    session, _ = await welcomed(other, proof, "n1")
    revoked = await plane.replica.authority.revoke(ROOT, "node", "n1")
    assert revoked is not None
    assert revoked.certificates == 1
    async with asyncio.timeout(WITHIN_S):
        with pytest.raises(LinkRefused, match="revoked"):
            async for _ in session.frames():
                pass
    await session.close()
    for where in (plane, other):
        refused = await where.link(proof).connect("")
        with pytest.raises(LinkRefused, match="revoked"):
            await anext(refused.frames())
        await refused.close()
        with pytest.raises(LinkRefused, match="revoked"):
            await where.link(proof).certify(CertifyRequest(request=REQUESTS.request(REQUESTS.new_key())))
    assert ("agentLink", "revoked") in await other.denials()
    listed = await other.replica.authority.list(ROOT)
    assert [(one.name, one.state, one.revoked_by) for one in listed] == [("n1", "revoked", "root (root)")]
    back, _ = await welcomed(other, await plane.proof("n1"), "n1")
    await back.close()


async def test_a_nodes_token_that_is_revoked_ends_its_stream(plane: Plane) -> None:
    """N7 on the control plane's own machine, where agents have tokens: `ares node revoke` ends these too."""
    replica = plane.replica
    server = AgentServer(
        replica.sessions,
        replica.staging,
        replica.job_sessions,
        replica.children,
        replica.tokens,
        replica.authority,
        replica.audit,
        plane.telemetry,
        0.1,
    )
    port = await server.start("127.0.0.1", 0)
    try:
        link = GrpcLink([f"127.0.0.1:{port}"])
        credential = (await link.join(JoinRequest(token=await plane.token(node="n1"), node="n1"))).credential
        await replica.view.catch_up()
        session = await link.connect(credential)
        await session.send(AgentFrame(messages=(hello("n1"),)))
        await anext(session.frames())
        revoked = await replica.authority.revoke(ROOT, "node", "n1")
        assert revoked is not None
        assert revoked.tokens == 1
        async with asyncio.timeout(WITHIN_S):
            with pytest.raises(LinkRefused, match="revoked"):
                async for _ in session.frames():
                    pass
        await session.close()
    finally:
        await server.stop(0.0)


async def test_revocation_counts_whatever_the_clocks_of_replicas_say(planes: Planes) -> None:
    """A certificate signed by a replica whose clock is ahead is revoked by one whose clock is late, and what is
    issued after that by the late one is good."""
    ahead = await planes.start("ahead", Skewed(+200.0))
    late = await planes.start("late", Skewed(-200.0))
    proof = await ahead.proof("n1")
    reply = await ahead.link(proof).certify(CertifyRequest(request=REQUESTS.request(key := REQUESTS.new_key())))
    renewed = Proof(reply.authority, reply.certificate, key)
    assert await late.replica.authority.revoke(ROOT, "node", "n1") is not None
    await ahead.replica.view.catch_up()
    for old in (proof, renewed):
        session = await ahead.link(old).connect("")
        with pytest.raises(LinkRefused, match="revoked"):
            await anext(session.frames())
        await session.close()
    session, _ = await welcomed(late, await late.proof("n1"), "n1")
    await session.close()


async def test_a_certificate_is_renewed_with_a_new_key_and_the_old_one_ends_by_itself(
    planes: Planes, tmp_path: Path
) -> None:
    """The agent's own loop: it renews in time, keeps what it got whole, and connects with it."""
    plane = await planes.start(certificate_s=4)
    proof = await plane.proof("n1")
    link = plane.link(proof)
    identity.save_proof(proof, tmp_path)
    session, _ = await welcomed(plane, proof, "n1")
    clock = Skewed(+2.5)
    renewing = asyncio.create_task(identity.keep_certified(link, REQUESTS, clock, tmp_path, proof))
    async with asyncio.timeout(WITHIN_S):
        while (kept := identity.load_proof(tmp_path)) in (None, proof):
            await asyncio.sleep(0.02)
    renewing.cancel()
    assert kept is not None
    assert kept.key != proof.key
    renewals = [entry for entry in await plane.entries() if entry.operation == "renewCertificate"]
    # By a clock that is ahead the next renewal is due at once.
    assert {(entry.outcome, entry.object, entry.proof) for entry in renewals} == {("ALLOW", "nodes/n1", "certificate")}
    assert (tmp_path / identity.PROOF_FILE).stat().st_mode & 0o777 == 0o600
    # The stream of the old one is ended with it, so that the agent comes with the new one: it was no refusal.
    async with asyncio.timeout(WITHIN_S):
        with pytest.raises(LinkBroken, match="expired"):
            async for _ in session.frames():
                pass
    await session.close()


# ---- whose authority


async def test_a_replica_of_another_authority_does_not_start_and_one_that_replaces_it_does(
    planes: Planes, plane: Plane
) -> None:
    foreign = make_authority("other", int(time.time()))
    clock, view = Skewed(0.0), plane.replica.view
    with pytest.raises(ForeignAuthority, match=planes.authority.fingerprint[:16]):
        await MachineAuthority(planes.store, view, clock, X509Issuer.of(*foreign)).open()
    # The old one still trusted: this is how an authority is replaced.
    both = X509Issuer.of(foreign.certificate + planes.authority.authorities, foreign.key)
    await MachineAuthority(planes.store, view, clock, both).open()
    with pytest.raises(ForeignAuthority):
        await MachineAuthority(planes.store, view, clock, planes.authority).open()


async def test_an_authority_is_replaced_under_nodes_that_stay(planes: Planes) -> None:
    """The three steps of docs/concepts/machines.md. A node that renews between them is always let in."""
    old, new = (make_authority(name, int(time.time())) for name in ("old", "new"))
    planes.authority = X509Issuer.of(*old)
    before = await (await planes.start("before")).proof("n1")

    async def renewed(step: str, certificates: str, key: str, proof: Proof) -> tuple[Plane, Proof]:
        planes.authority = X509Issuer.of(certificates, key)
        plane = await planes.start(step)
        session, _ = await welcomed(plane, proof, "n1")
        await session.close()
        asked = CertifyRequest(request=REQUESTS.request(fresh := REQUESTS.new_key()))
        reply = await plane.link(proof).certify(asked)
        return plane, Proof(reply.authority, reply.certificate, fresh)

    _, both = await renewed("trusted", old.certificate + new.certificate, old.key, before)
    signing, after = await renewed("signing", new.certificate + old.certificate, new.key, both)
    with pytest.raises(LinkBroken):
        await signing.link(before).connect("")
    alone, _ = await renewed("alone", new.certificate, new.key, after)
    with pytest.raises(LinkBroken):
        await alone.link(both).connect("")


def test_a_key_that_is_not_the_authoritys_is_no_authority() -> None:
    one, other = (make_authority("a", int(time.time())) for _ in range(2))
    leaf = X509Issuer.of(*one).serving(int(time.time()), int(time.time()) + 60)
    for certificates, key in (
        (one.certificate, other.key), (leaf.certificate, leaf.key), ("", one.key), (one.certificate, "junk"),
    ):  # fmt: skip
        with pytest.raises(NoAuthority):
            X509Issuer.of(certificates, key)
