"""The attempts this node holds: started once each, watched, stopped, reported."""

import asyncio
from collections.abc import Iterable
from functools import partial

import msgspec

from ares.agent.attempts import exits
from ares.agent.attempts.attempt import Attempt, OpenDoor, no_door
from ares.agent.attempts.ending import Farewell, end, farewell_of
from ares.agent.attempts.gang_place import take_world
from ares.agent.attempts.launch import launch_of
from ares.agent.attempts.owners import NoUidLeft
from ares.agent.attempts.recent import CommandMemory
from ares.agent.attempts.runtime import NoRuntime, equipped, noted
from ares.agent.attempts.secret_store import Shelter, Uncovered
from ares.agent.attempts.time_limit import arm, take_limit
from ares.agent.attempts.workspace import Workspace, written_in
from ares.agent.files.checkpoints import AttemptCheckpoints
from ares.agent.files.job_files import read_result
from ares.agent.files.log_shipping import Shipping
from ares.agent.files.outputs import Collect, collect
from ares.agent.files.spool import OutputPace, Tail
from ares.agent.files.uploads import AttemptUploads
from ares.agent.link.mailbox import Mailbox
from ares.agent.link.outbox import Key, Report
from ares.agent.link.run_right import RunRight
from ares.agent.settings import AgentSettings
from ares.agent.staging.preparation import Preparation
from ares.agent.staging.stager import StagingFailed
from ares.agent.staging.unpack import NotWanted
from ares.agent.transfer.transfers import Transfers
from ares.model.checkpoint import Checkpointed
from ares.model.link import AttemptRef, Exited, Fenced, LogAck, OutputAck, Resize, Start, Stop
from ares.model.node import NodeInfo
from ares.model.state import ExitInfo, OutputFile
from ares.ports.clock import Clock
from ares.ports.executor import CannotStart, Executor, Finished, Launch, Running

_EXPIRED = "its right to run ended: no renewal was acknowledged in time"


class Attempts:
    def __init__(
        self,
        *,
        info: NodeInfo,
        executor: Executor,
        clock: Clock,
        run_right: RunRight,
        mailbox: Mailbox,
        workspace: Workspace,
        settings: AgentSettings,
        transfers: Transfers,
        preparation: Preparation | None = None,
        collect: Collect = collect,
        open_door: OpenDoor = no_door,
    ) -> None:
        self._info, self._executor, self._clock = info, executor, clock
        self._run_right, self._mailbox = run_right, mailbox
        self._workspace = workspace
        self._shelter = Shelter(workspace.root)
        self._settings = settings
        self._preparation = preparation or Preparation(None, None)
        self._open_door = open_door
        self._shipping = Shipping(mailbox, clock, settings.log_wait_s)
        self.checkpoints = AttemptCheckpoints(mailbox, clock, collect, self._part, transfers)
        self.uploads = AttemptUploads(mailbox, collect, self._handed_over, workspace.has_outputs, transfers)
        self.incarnation, self.leaving = 0, False
        self._live: dict[Key, Attempt] = {}
        self._held: dict[Key, Start] = {}
        self._memory = CommandMemory()
        self._removals: set[asyncio.Task[None]] = set()

    def take_limit(self, output_bytes_max: int) -> None:
        self.uploads.bytes_max = self.checkpoints.bytes_max = output_bytes_max

    # ---- queries

    def refs(self) -> tuple[AttemptRef, ...]:
        """Attempts whose end the control plane has not acknowledged."""
        return tuple(dict.fromkeys(a.start.ref for a in self._live.values() if not a.heard))

    def processes_left(self) -> int:
        return sum(not attempt.ended for attempt in self._live.values())

    def running(self) -> list[Attempt]:
        return [attempt for attempt in self._live.values() if attempt.running is not None]

    # ---- commands

    def begin(self, start: Start) -> None:
        if not self._is_new(start):
            return
        self._memory.started(start.ref)
        if self._run_right.deadline(start.spec.lease_s) > self._clock.monotonic():
            self._launch(start)
        else:
            # The lease has run out: the attempt starts with the next renewal.
            self._held[(start.ref, start.placement.rank)] = start

    def _is_new(self, start: Start) -> bool:
        key = (start.ref, start.placement.rank)
        if (attempt := self._live.get(key)) is not None and not attempt.heard:
            if attempt.final is not None:
                self._mailbox.again(attempt.final)
            take_world(attempt, start.world)
            if start.updates > attempt.start.updates:
                take_limit(attempt, start, self._clock, self.checkpoints)
            return False
        if key in self._held or start.placement.incarnation != self.incarnation:
            return False
        if objection := self._memory.objection(start, heard=attempt is not None):
            self._fence_unstarted(key, objection)
            return False
        if self.leaving:
            self._refuse(start, "the agent is shutting down")
            return False
        return True

    def stop(self, command: Stop) -> None:
        """Ends the ranks that the command names, or all. A rank that is not on this node is reported as gone."""
        here = tuple(rank for ref, rank in (*self._live, *self._held) if ref == command.ref)
        for rank in command.ranks or (None,):
            self._memory.stopped(command.ref, rank)
        for rank in command.ranks or here or (0,):
            self._stop_rank((command.ref, rank), command)

    def _stop_rank(self, key: Key, command: Stop) -> None:
        attempt = self._live.get(key)
        if attempt is None or attempt.heard:
            self._held.pop(key, None)
            self._fence_unstarted(key, "not running here")
        elif attempt.final is not None:
            self._mailbox.again(attempt.final)
        else:
            farewell = Farewell(command.grace_s, command.checkpoint_signal, command.wait_s, command.saves)
            # A job that is cancelled while it is preempted need not save its work.
            hurry = attempt.saving and not farewell.waits
            self._stop(attempt, farewell, command.reason or "stopped", anew=hurry)

    def resize(self, command: Resize) -> None:
        """Tells every remaining rank of the gang which ranks take part now."""
        for key, start in self._held.items():
            if key[0] == command.ref and start.world.generation < command.world.generation:
                self._held[key] = msgspec.structs.replace(start, world=command.world)
        for attempt in self._live.values():
            if attempt.start.ref == command.ref:
                take_world(attempt, command.world)

    def keep_only(self, refs: Iterable[AttemptRef]) -> None:
        """After a reconnect: an attempt that the control plane no longer grants ends at once."""
        granted = set(refs)
        for attempt in self._live.values():
            if attempt.start.ref not in granted:
                self._stop(attempt, Farewell(), "no longer granted to this node")

    def stop_all(self, grace_s: float, reason: str, save_s: float = 0.0) -> None:
        """`save_s`: the time that attempts which can go on elsewhere have to save their work first."""
        held, self._held = self._held, {}
        for start in held.values():
            self._refuse(start, reason)
        for attempt in self._live.values():
            if attempt.handing_over and grace_s > 0:
                # Its processes are gone already; stopping its upload would only lose its files.
                continue
            farewell, saving = farewell_of(attempt.start.spec, grace_s, save_s), attempt.saving and save_s > 0
            self._stop(attempt, farewell, reason, anew=not saving)

    def end_by_force(self, attempt: Attempt, note: str) -> None:
        """Ends an attempt to protect the node. It is reported as exited, with the reason."""
        attempt.note = attempt.note or note
        end(attempt, Farewell())

    def drop_held(self) -> None:
        """The session ended: the control plane will repeat the Starts that are still held."""
        self._held.clear()

    # ---- the right to run

    def renewed(self) -> None:
        for attempt in self._live.values():
            if not attempt.ended:
                attempt.deadline = self._run_right.deadline(attempt.start.spec.lease_s)
                attempt.extended = True
                if (process := attempt.running or attempt.building) is not None:
                    process.extend(attempt.deadline)
        held, self._held = self._held, {}
        for start in held.values():
            self.begin(start)

    def fence_expired(self) -> None:
        """Ends attempts whose lease has run out. Their slots do so too, even while this process is frozen."""
        now = self._clock.monotonic()
        for attempt in self._live.values():
            if attempt.deadline <= now and not attempt.ended and not attempt.fenced:
                self._stop(attempt, Farewell(), _EXPIRED)

    # ---- starting

    def _launch(self, start: Start) -> None:
        folder = self._workspace.folder(start.ref, start.placement.rank)
        rate = self._settings.log_bytes_per_s
        tail = Tail(folder.log, self._settings.log_bytes_max, OutputPace(self._clock, rate) if rate else None)
        attempt = Attempt(start, folder, tail, self._run_right.deadline(start.spec.lease_s), start.world)
        self._live[attempt.key] = attempt
        self._mailbox.watch(attempt)
        try:
            launch = launch_of(start, folder, self._info, self._settings, attempt.deadline)
            self._workspace.create(folder, launch.uid, fresh=written_in(start))
            launch = equipped(launch, start, folder, self._run_right.holds_by_s)
            attempt.cover = self._shelter.cover(start, folder, self._clock)
            attempt.door = self._open_door(attempt, launch.uid)
            self.checkpoints.open(attempt)
        except (OSError, Uncovered, NoUidLeft, NoRuntime) as error:
            self._end(attempt, exits.not_prepared(error))
            return
        if attempt.cover is not None:
            launch = attempt.cover.dress(launch)
        if Preparation.needed(start):
            attempt.staging = asyncio.create_task(self._stage(attempt, launch))
            return
        self._start(attempt, launch)

    def _start(self, attempt: Attempt, launch: Launch) -> None:
        answer = asyncio.ensure_future(self._executor.start(launch))
        answer.add_done_callback(partial(self._answered, attempt))

    async def _stage(self, attempt: Attempt, launch: Launch) -> None:
        try:
            ready = await self._preparation.prepare(attempt, launch)
        except (StagingFailed, NotWanted, asyncio.CancelledError) as failed:
            lasting = isinstance(failed, StagingFailed) and failed.lasting
            self._end(attempt, exits.not_started(str(failed) or "it was told to end", lasting=lasting))
        else:
            attempt.staging = None
            self._start(attempt, ready)

    def _answered(self, attempt: Attempt, answer: "asyncio.Future[Running | CannotStart]") -> None:
        outcome = answer.result()
        if isinstance(outcome, CannotStart):
            if outcome.expired:
                # The slot says that it did not start the process: that is proof, whatever was ordered meanwhile.
                attempt.fenced = "" if exits.starts_once(attempt.start.spec) else attempt.fenced or _EXPIRED
            if outcome.uncertain:
                attempt.fenced = attempt.fenced or outcome.message
            self._end(attempt, exits.not_started(outcome.message))
            return
        attempt.running = outcome
        self._mailbox.report(exits.begun(attempt, outcome.pid, self._mailbox.outbox.number(), self._clock.wall()))
        if attempt.extended:
            outcome.extend(attempt.deadline)
        if attempt.fenced:
            outcome.kill()
        else:
            arm(attempt, self._clock, self.checkpoints)
        outcome.on_finished(partial(self._finished, attempt))

    # ---- stopping

    def _stop(self, attempt: Attempt, farewell: Farewell, reason: str, *, anew: bool = False) -> None:
        if attempt.ended:
            return
        attempt.fenced = attempt.fenced or reason
        if self.checkpoints.told_to_end(attempt, saves=farewell.saves):
            return
        if attempt.outcome is not None:
            self._end(attempt, *attempt.outcome)
        elif attempt.staging is not None:
            attempt.staging.cancel()
        else:
            end(attempt, farewell, anew=anew)

    # ---- the end

    def _finished(self, attempt: Attempt, finished: Finished) -> None:
        if finished.expired:
            attempt.fenced = attempt.fenced or _EXPIRED
        result = read_result(attempt.folder.result)
        ended = exits.exit_info(finished, attempt, self._settings.processes_max)
        ended, attempt.blames = noted(ended, attempt.start, attempt.folder)
        result = result if attempt.cover is None else attempt.cover.result(result)
        if result.trouble:
            ended = exits.unkept(ended, result.trouble)
        attempt.outcome = (ended, result.value)
        if attempt.may_save and self.checkpoints.pending(attempt):
            self._quiet(attempt)
            self.checkpoints.see_out(attempt, self._settings.checkpoint_wait_s)
        else:
            self._part(attempt)

    def _part(self, attempt: Attempt) -> None:
        """All its checkpoints are kept, or given up: its outputs are next, and its end."""
        assert attempt.outcome is not None, "only what has ended parts"
        self.checkpoints.drop(attempt)
        if attempt.outcome[0].failure is None and not attempt.fenced and self.uploads.wanted(attempt):
            self._quiet(attempt)
            self.uploads.begin(attempt)
        else:
            self._end(attempt, *attempt.outcome)

    def _handed_over(self, attempt: Attempt, trouble: str, files: tuple[OutputFile, ...]) -> None:
        assert attempt.outcome is not None, "only what has ended hands over files"
        ended, value = attempt.outcome
        if trouble:
            ended = exits.unkept(ended, f"its outputs cannot be kept: {trouble}")
        if attempt.final is not None:
            # The control plane has lost the files, and they cannot be sent again.
            self._mailbox.outbox.settle((attempt.final,))
        self._end(attempt, ended, value, files)

    def _quiet(self, attempt: Attempt) -> None:
        """The attempt has no process any more: its timers and secrets go, and the rest of its log is sent."""
        attempt.settle()
        self._preparation.ended(attempt)
        if attempt.cover is not None:
            attempt.cover.finish()
        attempt.tail.finish()
        attempt.running = None
        if not attempt.tail.drained:
            self._mailbox.output(attempt)

    def _end(self, attempt: Attempt, ended: ExitInfo, value: bytes = b"", files: tuple[OutputFile, ...] = ()) -> None:
        self._quiet(attempt)
        if attempt.cover is not None:
            ended = attempt.cover.exit(ended)
        if not files:
            self.uploads.drop(attempt)
        self.checkpoints.drop(attempt)
        attempt.final = self._mailbox.outbox.number()
        self._mailbox.report(exits.final_report(attempt, ended, self._clock.wall(), value, files))

    def _fence_unstarted(self, key: Key, reason: str) -> None:
        self._mailbox.report(Fenced(number=self._mailbox.outbox.number(), ref=key[0], rank=key[1], reason=reason))

    def _refuse(self, start: Start, reason: str) -> None:
        """Reports a Start for which no process ever ran, and none will."""
        key = ref, rank = (start.ref, start.placement.rank)
        if not exits.starts_once(start.spec):
            self._fence_unstarted(key, reason)
            return
        self._memory.ended(*key)
        number, at = self._mailbox.outbox.number(), self._clock.wall()
        self._mailbox.report(Exited(number=number, ref=ref, rank=rank, exit=exits.not_started(reason), at=at))

    # ---- answers to reports

    def settled(self, reports: Iterable[Report]) -> None:
        for report in reports:
            attempt = self._live.get((report.ref, report.rank))
            if attempt is not None and isinstance(report, Checkpointed):
                self.checkpoints.settled(attempt, report)
            elif attempt is not None and attempt.final == report.number:
                attempt.heard = True
                self._forget_if_done(attempt)

    def log_kept(self, ack: LogAck) -> None:
        if (attempt := self._live.get((ack.ref, ack.rank))) is not None:
            self._shipping.kept(attempt, ack)
            self._forget_if_done(attempt)

    def output_kept(self, ack: OutputAck) -> None:
        attempt = self._live.get((ack.ref, ack.rank))
        if attempt is None:
            return
        if ack.seq is not None:
            self.checkpoints.kept(attempt, ack)
        elif not ack.refused:
            self.uploads.kept(attempt, ack)
        elif attempt.final is None:
            self._stop(attempt, Farewell(), ack.refused)
        else:
            self.uploads.drop(attempt)
            self._mailbox.again(attempt.final)

    def _forget_if_done(self, attempt: Attempt) -> None:
        if not (attempt.heard and attempt.tail.settled):
            return
        del self._live[attempt.key]
        self._memory.ended(*attempt.key)
        self._mailbox.forget(attempt)
        attempt.tail.close()
        self.uploads.drop(attempt)
        if attempt.start.spec.image is not None or not self._workspace.recycle(attempt.folder):
            task = asyncio.create_task(asyncio.to_thread(self._workspace.remove, attempt.folder))
            self._removals.add(task)
            task.add_done_callback(self._removals.discard)

    # ---- watching

    def look(self) -> None:
        """Sends new output and progress of running attempts, and ends attempts whose lease has run out."""
        for attempt in self._live.values():
            self._shipping.look(attempt, leaving=self.leaving)
            if attempt.running is not None and (news := attempt.progress()) is not None:
                self._mailbox.progress(news)
            if attempt.checkpoints is not None and not attempt.ended:
                self.checkpoints.look(attempt)
        self.fence_expired()
