"""The agent: one process per node, from start-up to its farewell."""

import asyncio
import os
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import structlog

from ares.agent.attempts.attempt import Attempt
from ares.agent.attempts.attempts import Attempts
from ares.agent.attempts.secret_store import Shelter
from ares.agent.attempts.workspace import Workspace
from ares.agent.entry.child_door import ChildDoor
from ares.agent.entry.entrance import Entrance
from ares.agent.files.disk import DiskGuard, free_bytes
from ares.agent.files.outputs import Collect, collect
from ares.agent.link.absence import Absence
from ares.agent.link.mailbox import Mailbox
from ares.agent.link.run_right import RunRight
from ares.agent.link.session import Conversation
from ares.agent.settings import AgentSettings
from ares.agent.staging.cache import NodeCache
from ares.agent.staging.dataset_shelf import DatasetShelf
from ares.agent.staging.environments import Environments
from ares.agent.staging.image_store import ImageStore
from ares.agent.staging.images import Images
from ares.agent.staging.inputs import StagedInputs
from ares.agent.staging.peer_files import PeerFiles
from ares.agent.staging.preparation import Preparation
from ares.agent.staging.restorer import Restorer
from ares.agent.staging.stager import Stager
from ares.agent.transfer.move_reports import MoveReports
from ares.agent.transfer.rates import LeasedRates
from ares.agent.transfer.transfers import Transfers
from ares.model.isolation import shortfall
from ares.model.job_session import ChildAnswer, ChildCall
from ares.model.node import NodeInfo
from ares.ports.clock import Clock, Rng
from ares.ports.devices import Devices
from ares.ports.executor import Doors, Executor
from ares.ports.link import ChildLink, FileLink, Link, PeerDoor, Registry, Witness

_log = structlog.get_logger(__name__)

_CHECK_S = 0.02
# How long after the last SIGKILL processes may take to vanish.
_KILL_S = 5.0
_ASKING_MAX = 4


class Agent:
    """Wires the parts of one node: its attempts, its session with the control plane, and the disk guard."""

    def __init__(
        self,
        *,
        info: NodeInfo,
        link: Link,
        executor: Executor,
        clock: Clock,
        rng: Rng,
        state_dir: Path,
        credential: str,
        boot: int,
        settings: AgentSettings | None = None,
        collect: Collect = collect,
        witness: Witness | None = None,
        files: FileLink | None = None,
        registry: Registry | None = None,
        children: ChildLink | None = None,
        doors: Doors | None = None,
        devices: Devices | None = None,
        peers: PeerDoor | None = None,
    ) -> None:
        self._info = info
        self._link = link
        self._executor = executor
        self._clock = clock
        self._rng = rng
        self._credential = credential
        self._boot = boot
        self._settings = settings or AgentSettings()
        self._collect = collect
        # Tells a dead control plane from one that cannot be reached. None: this node cannot tell.
        self._witness = witness
        # By which files of projects come. None: attempts that need any cannot start here.
        self._files = files
        # By which images come that jobs name at registries. None: by none.
        self._registry = registry
        # By which jobs submit jobs, and where they call for it. None: they cannot from here.
        self._children, self._doors = children, doors
        # Where other nodes read datasets that are here. None: they do not.
        self._peers = peers
        # Tells what GPUs do now. None: it is not known here.
        self._devices = devices
        # All attempts together: the control plane has others to serve.
        self._asking = asyncio.Semaphore(_ASKING_MAX)
        self._cache = NodeCache(state_dir / "cache", self._settings.cache_bytes_max)
        self._datasets = DatasetShelf(state_dir / "cache", self._settings.dataset_bytes_max)
        self._images = ImageStore(state_dir / "cache", self._settings.image_limits)
        # By which all bulk bytes of this node go.
        self.transfers = Transfers(clock, self._settings.link_bytes_per_s)
        self._workspace = Workspace(state_dir)
        self._mailbox = Mailbox()
        if self._settings.span_desk is not None:
            self._settings.span_desk.send = self._mailbox.spans
        self._inputs: StagedInputs | None = None
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Asks `run` to end its attempts, report and return. Safe in a signal handler of the loop."""
        self._stopping.set()

    async def run(self) -> None:
        """Serves until `stop`. Raises LinkRefused when the control plane does not accept this node."""
        # What an earlier process left is ended before this one registers.
        await self._executor.open()
        try:
            self._clear()
            await self._live()
        finally:
            await self._executor.close()
            self._clear()

    def _clear(self) -> None:
        self._workspace.clear()
        Shelter(self._workspace.root).clear()

    async def _live(self) -> None:
        sandbox = self._executor.sandbox()
        info = msgspec.structs.replace(
            self._info, isolation=self._executor.isolation(), isolation_level=sandbox.level, sandbox=sandbox.parts
        )
        run_right = RunRight(self._clock)
        attempts = Attempts(
            info=info,
            executor=self._executor,
            clock=self._clock,
            run_right=run_right,
            mailbox=self._mailbox,
            workspace=self._workspace,
            settings=self._settings,
            preparation=self._preparation(),
            collect=self._collect,
            open_door=self._door,
            transfers=self.transfers,
        )
        gpu_use = dict if self._devices is None else self._devices.gpu_use
        entrance = Entrance(info, attempts, self._settings, self._clock, gpu_use)
        conversation = Conversation(
            info=info,
            link=self._link,
            credential=self._credential,
            boot=self._boot,
            clock=self._clock,
            rng=self._rng,
            run_right=run_right,
            mailbox=self._mailbox,
            attempts=attempts,
            entrance=entrance,
            rates=LeasedRates(self.transfers),
        )
        _log.info("agent.started", node=info.name, isolation=info.isolation_level, by=info.sandbox, gpus=len(info.gpus))
        if short := shortfall(info.sandbox):
            _log.warning("agent.jobs_not_apart", node=info.name, means=short, see="docs/concepts/sandbox.md")
        talking = asyncio.create_task(conversation.run())
        tasks: list[asyncio.Task[Any]] = [talking, *map(asyncio.create_task, self._loops(attempts, conversation))]
        if self._witness is not None:
            absence = Absence(self._witness, run_right, attempts, self._clock, lambda: conversation.welcome)
            tasks.append(asyncio.create_task(absence.run()))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if self._stopping.is_set():
                await self._leave(attempts, talking)
        finally:
            entrance.close()
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        for outcome in ended:
            if isinstance(outcome, Exception):
                raise outcome

    def _loops(self, attempts: Attempts, conversation: Conversation) -> list[Coroutine[Any, Any, Any]]:
        """What a node does beside its session."""
        loops: list[Coroutine[Any, Any, Any]] = [
            self._look(attempts),
            self._guard(attempts).run(),
            self._stopping.wait(),
            MoveReports(self.transfers, self._mailbox, self._clock).run(),
        ]
        if self._settings.caches is not None:
            loops.append(self._settings.caches.run(self._clock))
        if self._inputs is not None:
            loops.append(self._inputs.tell(self._clock))
        if self._peers is not None:
            files = PeerFiles(self._datasets, lambda: conversation.welcome.peer_key, self.transfers, self._clock)
            loops.append(self._peers.serve(files.answer))
        return loops

    def _preparation(self) -> Preparation:
        settings, stager, restorer = self._settings, None, None
        if self._files is not None:
            self._cache.open()
            self._datasets.open()
            fetch = partial(self._files.fetch, self._credential)
            stager = Stager(self._cache, fetch, self._clock, self.transfers)
            self._inputs = StagedInputs(self._datasets, stager, self._mailbox)
            restorer = Restorer(fetch, self._mailbox, self._clock, self.transfers)
        self._images.open()
        images = Images(self._images, stager, self._registry, settings.image_terms, self.transfers)
        state_dir = self._workspace.root.parent
        environments = Environments(state_dir, stager, self._executor, self._mailbox, settings)
        return Preparation(stager, images, environments, self._inputs, restorer)

    def _door(self, attempt: Attempt, uid: int | None) -> ChildDoor | None:
        """For a job that may submit jobs, and for its first rank."""
        link, doors = self._children, self._doors
        if link is None or doors is None or not attempt.start.spec.children or attempt.start.placement.rank:
            return None

        async def submit(call: ChildCall) -> ChildAnswer:
            async with self._asking:
                return await link.submit_child(self._credential, call)

        door = doors.open(attempt.folder.path, os.path.basename(attempt.folder.door))
        return ChildDoor(attempt, uid, door, submit, self._clock)

    def _guard(self, attempts: Attempts) -> DiskGuard:
        root = str(self._workspace.root)
        settings = self._settings
        limits = (settings.disk_reserve_bytes, settings.workspace_bytes_max)
        return DiskGuard(attempts, self._clock, limits, lambda: free_bytes(root), settings.disk_look_every_s)

    async def _look(self, attempts: Attempts) -> None:
        while True:
            await self._clock.sleep(self._settings.poll_every_s)
            attempts.look()

    async def _leave(self, attempts: Attempts, talking: "asyncio.Task[None]") -> None:
        """Drains the node: attempts save their work and end. Waits for their reports while the session lasts."""
        _log.info("agent.leaving", attempts=attempts.processes_left())
        attempts.leaving = True
        self._mailbox.leave()
        settings, began = self._settings, self._clock.monotonic()
        save_s = max(0.0, settings.drain_s - settings.shutdown_grace_s)
        attempts.stop_all(settings.shutdown_grace_s, "the agent is shutting down", save_s)
        gone_by = began + save_s + settings.shutdown_grace_s + _KILL_S
        while attempts.processes_left() and self._clock.monotonic() < gone_by:
            await self._clock.sleep(_CHECK_S)
        # An upload that is not complete by now is given up.
        attempts.stop_all(0.0, "the agent is shutting down")
        heard_by = self._clock.monotonic() + self._settings.farewell_s
        while len(self._mailbox.outbox) and not talking.done() and self._clock.monotonic() < heard_by:
            await self._clock.sleep(_CHECK_S)
