"""`ares agent`: runs jobs on this machine for a control plane, and how it keeps them apart."""

import asyncio
import os
import platform
import re
import shutil
import socket
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog

from ares import __version__
from ares.adapters.certificates import X509Requests
from ares.adapters.clocks import SystemClock, SystemRng
from ares.adapters.devices.presets import UnknownMock
from ares.adapters.devices.system import SystemDevices
from ares.adapters.doors import UnixDoors
from ares.adapters.executors.local import LocalExecutor
from ares.adapters.executors.terms import HIDDEN, SandboxTerms
from ares.adapters.links.direct import DirectFiles
from ares.adapters.links.grpc import GrpcLink
from ares.adapters.links.peer_door import HttpPeerDoor
from ares.adapters.registry import HttpRegistry
from ares.adapters.span_door import SpanDoor
from ares.adapters.witness import LockWitness
from ares.agent.agent import Agent
from ares.agent.attempts.environment import inherited
from ares.agent.attempts.owners import Owners
from ares.agent.entry.span_desk import BODY_BYTES_MAX, SpanDesk
from ares.agent.link.identity import begin_boot, keep_certified
from ares.agent.settings import AgentSettings
from ares.agent.staging.image_store import ImageLimits, ImageTerms
from ares.agent.staging.node_environment import EnvironmentTerms
from ares.agent.staging.python_path import python_path
from ares.agent.staging.tenant_cache import CacheBounds, TenantCaches
from ares.app.config import Config, ConfigError, NodeConfig, default_home
from ares.app.node_identity import Joined, Joining
from ares.app.processes import look_for_garbage_less_often, run
from ares.app.runtimes import load_runtimes
from ares.app.sections import ImagesConfig
from ares.model.node import NodeInfo
from ares.ports.link import LinkRefused

# Beyond what systems give to people, services, containers and their parts.
_AUTO: Final = (0x7000_0000, 0x7000_FFFF)
_NO_USERS: Final = ("", "none")
# To become another user, with no other groups, and to give files to it: CAP_CHOWN, SETGID and SETUID.
_CAPABILITIES: Final = 1 << 0 | 1 << 6 | 1 << 7


def executor_of(config: Config, state_dir: Path) -> LocalExecutor:
    said, uids = config.node.sandbox, _uids(config)
    if said.level != "sandbox":
        log.warning("agent.sandbox_is_not_the_default", level=said.level, set_by="node.sandbox.level")
    terms = SandboxTerms(
        level=said.level,
        own=tuple(dict.fromkeys(str(path) for path in own_paths(config))),
        hidden=said.hidden,
        writable=said.writable,
        devices=said.devices,
        in_images=(python_path(state_dir), *config.node.images.mounts),
        shown=(python_path(state_dir), *((uv,) if (uv := uv_program()) else ())),
        uid=None if uids is None else uids[0],
    )
    return LocalExecutor(state_dir, terms=terms)


def own_paths(config: Config) -> tuple[Path, ...]:
    """Also what is where it is when nothing is said: of others that run here, and of people's logins."""
    usual = (default_home({}), default_home(os.environ))
    return (*config.own_paths, *(path.absolute() for path in usual))


def settings_of(config: Config, state_dir: Path) -> AgentSettings:
    uids = _uids(config)
    try:
        owners = None if uids is None else Owners(state_dir, *uids)
    except msgspec.MsgspecError as error:
        raise ConfigError(f"{state_dir / 'uids.json'} cannot be read: {error}", "restore it from a backup") from error
    return AgentSettings(
        environment={
            **inherited(os.environ),
            # A line that a program prints is in its log at once.
            "PYTHONUNBUFFERED": "1",
            "PYTHONPATH": python_path(state_dir),
        },
        drain_s=config.node.drain_s,
        log_bytes_per_s=config.node.sandbox.log_kib_per_s << 10,
        workspace_bytes_max=config.node.sandbox.workspace_mib << 20,
        link_bytes_per_s=config.node.transfer.link_mbps * 1e6 / 8,
        cache_bytes_max=config.node.cache_mib << 20,
        dataset_bytes_max=config.node.dataset_cache_mib << 20,
        image_limits=_image_limits(config.node.images),
        image_terms=ImageTerms(config.node.images.roots, tuple(str(path) for path in own_paths(config))),
        environment_bytes_max=config.node.python.cache_mib << 20,
        environment_terms=_environment_terms(config),
        uv=uv_program(),
        package_index=config.node.python.index,
        caches=TenantCaches(state_dir, CacheBounds(config.node.tenant_cache_mib << 20, config.node.tenant_cache_files)),
        owners=owners,
        span_desk=SpanDesk(SystemRng()) if config.node.spans else None,
    )


def _image_limits(said: ImagesConfig) -> ImageLimits:
    return ImageLimits(said.cache_mib << 20, said.cache_files, said.image_mib_max << 20, said.image_files_max)


def _environment_terms(config: Config) -> EnvironmentTerms:
    hidden = (os.path.expanduser(path) for path in (*config.node.sandbox.hidden, *HIDDEN))
    private = dict.fromkeys(os.path.realpath(path) for path in (*own_paths(config), *hidden))
    return EnvironmentTerms(tuple(private), tuple(os.path.realpath(path) for path in config.node.python.allowed))


def uv_program() -> str:
    """The one that is installed with Ares, or that of the machine; empty when there is none."""
    beside = Path(sys.executable).parent / "uv"
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("uv")
    return "" if found is None else os.path.realpath(found)


def _uids(config: Config) -> tuple[int, int] | None:
    text = config.node.sandbox.uids
    if text in _NO_USERS:
        return None
    if text == "auto":
        return _AUTO if _can_become(*_AUTO) else None
    first, last = (int(number) for number in text.split("-"))
    if not 1000 <= first <= last < 1 << 32:
        raise ConfigError(
            f"node.sandbox.uids: {text} is no range of users for jobs", "write the first and the last, from 1000 on"
        )
    return first, last


def _can_become(first: int, last: int) -> bool:
    """Whether this process may become each of these users. In containers there may be fewer than elsewhere."""
    if os.geteuid() != 0:
        return False
    status = Path("/proc/self/status").read_text().splitlines()
    held = next((int(line.split()[1], 16) for line in status if line.startswith("CapEff:")), 0)
    known = [_mapped(Path(f"/proc/self/{kind}_map"), first, last) for kind in ("uid", "gid")]
    return held & _CAPABILITIES == _CAPABILITIES and all(known)


def _mapped(path: Path, first: int, last: int) -> bool:
    ranges = ([int(number) for number in line.split()] for line in path.read_text().splitlines())
    return any(inside <= first and last < inside + count for inside, _, count in ranges)


log = structlog.get_logger()

_NOTICE_EVERY_S = 1.0


def main(config: Config, *, join_token: str, auto_join: bool) -> int:
    """Runs until told to stop. A node joins once and keeps its own credential."""
    return run(lambda stop: _run(config, join_token, auto_join, stop))


async def _run(config: Config, join_token: str, auto_join: bool, stop: asyncio.Event) -> int:
    name = config.node.name or _host_slug()
    load_runtimes()
    # First: it finds mistakes in the configuration.
    info = _describe(config, name)
    state_dir = config.home_path / "agents" / name
    state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    joining = Joining(config, name, state_dir, join_token, auto_join)
    joined = joining.known() or await _unless_stopped(stop, joining.join())
    if stop.is_set():
        return 0
    if joined is None:
        log.error("agent.not_joined", node=name, fix="make a join token with `ares token join` and pass it by --join")
        return 1
    link = GrpcLink(config.node.servers, joined.proof, node=name)
    settings = settings_of(config, state_dir)
    agent = Agent(
        info=info,
        link=link,
        executor=executor_of(config, state_dir),
        clock=SystemClock(),
        rng=SystemRng(),
        state_dir=state_dir,
        credential=joined.credential,
        boot=begin_boot(state_dir, SystemClock().wall()),
        settings=settings,
        witness=LockWitness(),
        files=DirectFiles(link),
        registry=HttpRegistry(config.node.images.registries),
        children=link,
        doors=UnixDoors(),
        devices=_devices(config.node),
        peers=HttpPeerDoor(config.node.transfer.peer_port) if config.node.transfer.peer_port else None,
    )
    beside = [asyncio.create_task(_stop_agent(stop, agent))]
    if config.node.notice_file:
        beside.append(asyncio.create_task(_heed_notice(Path(config.node.notice_file), stop)))
    if joined.proof is not None:
        renewing = keep_certified(link, X509Requests(), SystemClock(), state_dir, joined.proof)
        beside.append(asyncio.create_task(renewing))
    look_for_garbage_less_often()
    door = await _span_door(settings.span_desk)
    try:
        await agent.run()
    except LinkRefused as refusal:
        log.error("agent.refused", node=name, why=str(refusal))
        return 1
    finally:
        for task in beside:
            task.cancel()
        if door is not None:
            door.close()
        await link.close()
    return 0


async def _span_door(desk: SpanDesk | None) -> SpanDoor | None:
    """Jobs run without one just as well."""
    if desk is None:
        return None
    door = SpanDoor(desk.take, BODY_BYTES_MAX)
    try:
        desk.origin = await door.open()
    except OSError as error:
        log.warning("agent.no_span_door", error=str(error))
        return None
    return door


async def _heed_notice(notice: Path, stop: asyncio.Event) -> None:
    """Stops the agent when the notice file appears: the machine is about to be taken away."""
    while not await asyncio.to_thread(notice.exists):
        await asyncio.sleep(_NOTICE_EVERY_S)
    log.warning("agent.noticed", file=str(notice))
    stop.set()


async def _stop_agent(stop: asyncio.Event, agent: Agent) -> None:
    await stop.wait()
    agent.stop()


async def _unless_stopped(stop: asyncio.Event, joining: Coroutine[Any, Any, Joined | None]) -> Joined | None:
    """Waits for the join, or for a stop: an agent without a control plane can be stopped too."""
    join, stopping = asyncio.create_task(joining), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({join, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return join.result() if join.done() else None
    finally:
        join.cancel()
        stopping.cancel()


def _describe(config: Config, name: str) -> NodeInfo:
    node = config.node
    devices = _devices(node)
    found = devices.accelerators()
    return NodeInfo(
        name=name,
        cpu_milli=devices.cpus() * 1000,
        memory_mib=devices.memory_mib(),
        gpus=found.gpus,
        gpu_links=found.gpu_links,
        nics=found.nics,
        # Declared devices are added to those that were found.
        devices={**found.devices, **node.devices},
        numa=devices.numa(),
        labels=node.labels,
        pool=node.pool,
        agent_version=__version__,
        hostname=socket.gethostname(),
        kernel=platform.release(),
        address=node.address or _own_address(node.servers),
        rack=node.rack,
        zone=node.zone,
        region=node.region,
        network_gbps=node.network_gbps,
        taints=node.taints,
        datasets=node.datasets,
        peer_port=node.transfer.peer_port,
    )


def _devices(node: NodeConfig) -> SystemDevices:
    try:
        topology = Path(node.nccl_topology).read_text() if node.nccl_topology else ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"node.nccl_topology: cannot read {node.nccl_topology}: {error}") from error
    try:
        return SystemDevices(node.mock_gpu, topology)
    except UnknownMock as error:
        raise ConfigError(f"node.mock_gpu: {error}") from error


def _own_address(servers: Sequence[str]) -> str:
    """The address this machine has on the way to its control plane. Nothing is sent: UDP only looks up the route."""
    for server in servers:
        host, _, port = server.rpartition(":")
        try:
            family, kind, *_, target = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)[0]
            with socket.socket(family, kind) as probe:
                probe.connect(target)
                return str(probe.getsockname()[0])
        except (OSError, ValueError):
            continue
    return "127.0.0.1"


def _host_slug() -> str:
    """A node's name is a slug: it becomes part of keys and tables."""
    slug = re.sub(r"[^a-z0-9-]+", "-", socket.gethostname().lower()).strip("-")
    return slug[:63] or "node"
