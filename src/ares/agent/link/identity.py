"""The node's identity, got once for a join token: a certificate, or a credential on the control plane's machine."""

import os
import re
from pathlib import Path

import structlog

from ares.core.access.certificates import renew_after_s
from ares.model.link import CertifyRequest, JoinRequest
from ares.ports.certificates import Requests
from ares.ports.clock import Clock
from ares.ports.link import CertifiedLink, Link, LinkBroken, LinkRefused, Proof

_log = structlog.get_logger(__name__)

_FILE = "credential"
_BOOT_FILE = "boot"
# The key, the certificate and the authorities in one file, so that they always belong together.
PROOF_FILE = "identity.pem"
# Made before the join and kept until its end: an agent killed in between repeats the join with the same key.
_JOIN_KEY_FILE = "join.key"
_PEM_BLOCK = re.compile(r"-----BEGIN ([A-Z ]+)-----\n[A-Za-z0-9+/=\n]+-----END \1-----\n", re.ASCII)
# A change of the wall clock is noticed within this time.
_LOOK_S = 60.0
_AGAIN_S = 30.0


class DamagedCredential(Exception):
    """The file holds no credential that a control plane could have issued."""

    fix = "remove it, make a join token with `ares token join` and start the agent with it"

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is damaged: it is no credential")


def load(state_dir: Path) -> str | None:
    """The saved credential, None when this node has not joined yet."""
    path = state_dir / _FILE
    try:
        saved = path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise DamagedCredential(path) from None
    if not saved.isprintable() or " " in saved:
        raise DamagedCredential(path)
    return saved or None


def load_proof(state_dir: Path) -> Proof | None:
    """The saved certificate and its key, None when this node has none."""
    path = state_dir / PROOF_FILE
    try:
        saved = path.read_text(encoding="ascii")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise DamagedCredential(path) from None
    blocks = [(match[1], match[0]) for match in _PEM_BLOCK.finditer(saved)]
    if [kind for kind, _ in blocks[:3]] != ["PRIVATE KEY", "CERTIFICATE", "CERTIFICATE"]:
        raise DamagedCredential(path)
    return Proof("".join(text for _, text in blocks[2:]), blocks[1][1], blocks[0][1])


def save_proof(proof: Proof, state_dir: Path) -> None:
    _write_private(state_dir / PROOF_FILE, proof.key + proof.certificate + proof.authorities)
    (state_dir / _JOIN_KEY_FILE).unlink(missing_ok=True)


def join_key(state_dir: Path, requests: Requests) -> str:
    """The key of the join under way: the one of an agent that was killed during its join, or a new one."""
    path = state_dir / _JOIN_KEY_FILE
    try:
        return path.read_text(encoding="ascii")
    except FileNotFoundError:
        key = requests.new_key()
        _write_private(path, key)
        return key


async def keep_certified(link: CertifiedLink, requests: Requests, clock: Clock, state_dir: Path, proof: Proof) -> None:
    """Renews the certificate when two thirds of its life are over, with a new key. Never returns."""
    while True:
        wait_s = renew_after_s(*requests.life(proof.certificate), clock.wall())
        if wait_s > 0:
            await clock.sleep(min(wait_s, _LOOK_S))
            continue
        key = requests.new_key()
        try:
            reply = await link.certify(CertifyRequest(request=requests.request(key)))
        except (LinkBroken, LinkRefused) as error:
            _log.warning("agent.not_renewed", error=str(error))
            await clock.sleep(_AGAIN_S)
            continue
        proof = Proof(reply.authority, reply.certificate, key)
        save_proof(proof, state_dir)
        link.prove_by(proof)
        _log.info("agent.renewed", ends_at=requests.life(proof.certificate)[1])


def begin_boot(state_dir: Path, wall_s: float) -> int:
    """A number greater than that of every earlier agent of this node. The wall clock ensures it if the file is lost."""
    path = state_dir / _BOOT_FILE
    try:
        before = int(path.read_text())
    except (FileNotFoundError, ValueError):
        before = 0
    boot = max(before + 1, int(wall_s * 1000))
    _write_private(path, f"{boot}\n")
    return boot


async def join(link: Link, *, token: str, node: str, state_dir: Path) -> str:
    """Trades the join token for a credential and saves that, readable by the agent's user alone."""
    reply = await link.join(JoinRequest(token=token, node=node))
    save(reply.credential, state_dir)
    return reply.credential


def save(credential: str, state_dir: Path) -> None:
    state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    _write_private(state_dir / _FILE, credential + "\n")


def _write_private(path: Path, text: str) -> None:
    """Writes a file atomically, readable by the agent's user alone."""
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
