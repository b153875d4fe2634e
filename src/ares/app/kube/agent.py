"""`ares kube-agent`: runs jobs as pods of a Kubernetes cluster, for a control plane."""

import asyncio
import base64
import fcntl
import os
from pathlib import Path

import structlog

from ares import __version__
from ares.adapters.certificates import X509Requests
from ares.adapters.clocks import SystemClock, SystemRng
from ares.adapters.kubernetes.client import KubeClient
from ares.adapters.kubernetes.door import DoorIdentity, DoorServer, new_identity
from ares.adapters.links.grpc import GrpcLink
from ares.agent.kube.cluster import KubeAgent
from ares.agent.kube.member import MemberLink
from ares.agent.kube.placing import until_known
from ares.agent.kube.pod_service import PodDesk
from ares.agent.link.identity import PROOF_FILE, begin_boot, keep_certified
from ares.agent.staging.cache import NodeCache
from ares.app.config import Config, ConfigError
from ares.app.node_identity import Joining
from ares.app.processes import look_for_garbage_less_often, run
from ares.core.kube.equipment import PodHelper
from ares.core.kube.pod import CONTAINER, FINALIZER, PodTerms
from ares.ports.kubernetes import KubeRefused
from ares.ports.link import LinkRefused, Proof

log = structlog.get_logger()

# The secret with the door's key.
DOOR_SECRET = "ares-door"
_CONFLICT = 409


class _RenewedLink(GrpcLink):
    """A link that renews its certificate as long as it is open."""

    def __init__(self, servers: tuple[str, ...], proof: Proof | None, node: str, state_dir: Path) -> None:
        super().__init__(servers, proof, node=node)
        self._renewing: asyncio.Task[None] | None = None
        if proof is not None:
            renewing = keep_certified(self, X509Requests(), SystemClock(), state_dir, proof)
            self._renewing = asyncio.create_task(renewing)

    async def close(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
        await super().close()


def main(config: Config) -> int:
    """Runs until told to stop. Pods go on without it."""
    return run(lambda stop: _run(config, stop))


def client_of(config: Config) -> KubeClient:
    if not config.kube.code:
        raise ConfigError(
            "kube.code: the cluster has no code", "name one with --cluster, such as eu1; it never changes afterwards"
        )
    if bool(config.kube.helper) != bool(config.kube.door):
        raise ConfigError(
            "kube.helper and kube.door: one is set without the other",
            "name the image of the helper and where pods reach this agent, as HOST:PORT; or neither",
        )
    return KubeClient(config.kube.namespace, FINALIZER, CONTAINER, config.kube.kubeconfig)


def terms_of(config: Config) -> PodTerms:
    said = config.kube
    return PodTerms(
        namespace=said.namespace, code=said.code, image=said.image, host_network=said.host_network, pull_s=said.pull_s,
        bind=said.bind, schedule_s=said.schedule_s,
        helper=PodHelper(image=said.helper, door=said.door) if said.helper else None,
    )  # fmt: skip


async def _run(config: Config, stop: asyncio.Event) -> int:
    api = client_of(config)
    home = config.home_path / "kube" / config.kube.code
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(home / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        log.error("kube.already_running", home=str(home), fix="end the other agent of this cluster first")
        return 1

    identity = await _identity(api) if config.kube.helper else None

    async def join(name: str, anew: bool) -> MemberLink:
        return await _join(config, home / "nodes" / name, name, anew)

    agent = KubeAgent(
        api=api,
        terms=terms_of(config),
        pool=config.kube.pool,
        version=__version__,
        clock=SystemClock(),
        rng=SystemRng(),
        logs=home / "logs",
        join=join,
        cache=_cache(config, home),
        certificate="" if identity is None else identity.certificate,
    )
    door = None if identity is None else DoorServer(config.kube.door_listen, identity, PodDesk(agent.find))
    if door is not None:
        await door.start()
    log.info("kube.started", cluster=config.kube.code, namespace=config.kube.namespace)
    look_for_garbage_less_often()
    running, stopping = asyncio.create_task(agent.run()), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
    finally:
        for task in (running, stopping):
            task.cancel()
        await asyncio.gather(running, stopping, return_exceptions=True)
        if door is not None:
            await door.close()
        await api.close()
        os.close(lock)
    return 0


def _cache(config: Config, home: Path) -> NodeCache:
    """Files of projects, for all pods of the cluster."""
    cache = NodeCache(home / "cache", config.node.cache_mib << 20)
    cache.open()
    return cache


async def _identity(api: KubeClient) -> DoorIdentity:
    """Kept in the cluster: pods that run go on trusting an agent that lost its disk."""
    clock = SystemClock()
    while True:
        found = await until_known(clock, "door", lambda: api.secret(DOOR_SECRET))
        if found is not None:
            try:
                data = {key: base64.b64decode(value).decode() for key, value in found.data.items()}
                return DoorIdentity(certificate=data["certificate"], key=data["key"])
            except (ValueError, KeyError) as error:
                what = f"the secret {DOOR_SECRET} does not hold a door's certificate and key: {error!r}"
                raise ConfigError(
                    what, f"delete it, and the agent makes a new one: kubectl delete secret {DOOR_SECRET}"
                ) from None
        made = new_identity(clock.wall())
        data = {"certificate": made.certificate, "key": made.key}
        coded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
        manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": DOOR_SECRET}, "data": coded}
        try:
            await until_known(clock, "door", lambda manifest=manifest: api.create_secret(manifest))
        except KubeRefused as refusal:
            if refusal.code != _CONFLICT:
                raise


def _make(state_dir: Path, anew: bool) -> None:
    state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    for kept in ("credential", PROOF_FILE) if anew else ():
        (state_dir / kept).unlink(missing_ok=True)


async def _join(config: Config, state_dir: Path, name: str, anew: bool) -> MemberLink:
    _make(state_dir, anew)
    joining = Joining(config, name, state_dir, "", auto_join=False, admits=True)
    joined = joining.known() or await joining.join()
    if joined is None:
        raise LinkRefused(f"node {name} could not join")
    link = _RenewedLink(config.node.servers, joined.proof, name, state_dir)
    return MemberLink(link, joined.credential, begin_boot(state_dir, SystemClock().wall()))
