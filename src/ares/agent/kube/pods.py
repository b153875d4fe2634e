"""The attempts of one node of Kubernetes: started once each as pods, watched, stopped, reported, collected."""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import structlog

from ares.agent.attempts.exits import starts_once
from ares.agent.attempts.recent import CommandMemory
from ares.agent.files.log_shipping import Shipping
from ares.agent.files.spool import Tail
from ares.agent.kube.arrival import place
from ares.agent.kube.ends import Surroundings, final_report, pod_end, with_result
from ares.agent.kube.placing import NeverRan, never_bound, removed, until_known
from ares.agent.kube.pod_attempt import PodAttempt
from ares.agent.kube.pod_devices import drop_devices
from ares.agent.kube.pod_log import PodLog
from ares.agent.kube.pod_outputs import PodOutputs
from ares.agent.kube.pod_secrets import drop_secret, mask_of, masked, recall_secrets
from ares.agent.link.mailbox import Mailbox
from ares.agent.link.outbox import Key, Report
from ares.agent.staging.stager import Stager
from ares.agent.transfer.transfers import Transfers
from ares.core.kube.ending import EndKind, PodEnd, main_state, pull_trouble, unschedulable
from ares.core.kube.pod import PodClaim, claim_of, read_claim, same_attempt
from ares.model.kube import Pod
from ares.model.link import AttemptRef, Fenced, LogAck, OutputAck, Resize, Start, Started, Stop
from ares.model.state import ExitInfo
from ares.ports.clock import Clock
from ares.ports.kubernetes import KubeRefused, PodApi

_log = structlog.get_logger(__name__)

_LOOK_S: Final = 0.2
_LOG_BYTES_MAX: Final = 64 * 1024 * 1024
_LOG_WAIT_S: Final = 60.0
# The most that is waited for the log of a pod that is over, and of one whose node is gone.
_LAST_LINES_S: Final = 30.0
_LOST_LINES_S: Final = 2.0
# A deletion is repeated so often: a person may have put a finalizer of their own on the pod.
_TELL_AGAIN_S: Final = 30.0


class PodAttempts:
    """A `Workload`. Its pods outlive the agent: one that starts anew adopts them."""

    def __init__(
        self, kube_node: str, around: Surroundings, api: PodApi, clock: Clock, mailbox: Mailbox, logs: Path,
        stager: Callable[[], Stager | None],
    ) -> None:  # fmt: skip
        self._kube_node, self._around, self._api, self._clock = kube_node, around, api, clock
        self._mailbox, self._logs = mailbox, logs
        # None while there is no link to fetch by.
        self.stager = stager
        self.outputs = PodOutputs(logs.parent / "outputs", mailbox, Transfers(clock))
        self._shipping = Shipping(mailbox, clock, _LOG_WAIT_S)
        self.incarnation = 0
        # The control plane has said which attempts it grants.
        self.granted = False
        self._live: dict[Key, PodAttempt] = {}
        self._by_name: dict[str, PodAttempt] = {}
        self._memory = CommandMemory()
        self._tasks: set[asyncio.Task[None]] = set()

    # ---- what a session asks

    def refs(self) -> tuple[AttemptRef, ...]:
        return tuple(dict.fromkeys(attempt.claim.ref for attempt in self._live.values() if not attempt.heard))

    def processes_left(self) -> int:
        return sum(not attempt.ended for attempt in self._live.values())

    def holds(self, claim: PodClaim) -> bool:
        return (claim.ref, claim.rank) in self._live

    def ungreeted(self) -> None:
        """The control plane has to say again which attempts it grants."""
        self.granted = False

    def __len__(self) -> int:
        return len(self._live)

    def take_limit(self, output_bytes_max: int) -> None:
        self.outputs.bytes_max = output_bytes_max

    def renewed(self) -> None:
        """A pod does not end with the lease: the control plane knows, see `NodeInfo.fences`."""

    def fence_expired(self) -> None: ...

    def drop_held(self) -> None: ...

    def resize(self, command: Resize) -> None:
        """A gang of pods does not change its size while it runs: the next attempt has the new one."""

    def output_kept(self, ack: OutputAck) -> None:
        attempt = self._live.get((ack.ref, ack.rank))
        if attempt is None:
            return
        if not ack.refused:
            self.outputs.kept(attempt, ack)
        elif attempt.final is None:
            attempt.fence(ack.refused, 0.0)

    def named(self, name: str) -> PodAttempt | None:
        return self._by_name.get(name)

    # ---- commands

    def begin(self, start: Start) -> None:
        key = (start.ref, start.placement.rank)
        attempt = self._live.get(key)
        if attempt is not None and not attempt.heard:
            if attempt.final is not None:
                self._mailbox.again(attempt.final)
            return
        if start.placement.incarnation != self.incarnation:
            return
        if objection := self._memory.objection(start, heard=attempt is not None):
            self._fence_unstarted(key, objection)
            return
        self._memory.started(start.ref)
        token = self._around.new_token()
        devices = self._around.gives_devices(self._kube_node)
        claim = claim_of(start, self._kube_node, once=starts_once(start.spec), token=token, devices=devices)
        self._carry_on(PodAttempt(claim, self._tail(claim), start=start, token=token))

    def adopt(self, pod: Pod, claim: PodClaim) -> None:
        """A pod that an earlier agent made."""
        attempt = PodAttempt(claim, self._tail(claim), pod=pod)
        self.incarnation = max(self.incarnation, claim.incarnation)
        self._memory.started(claim.ref)
        self._carry_on(attempt)

    def _carry_on(self, attempt: PodAttempt) -> None:
        self._live[attempt.key] = self._by_name[attempt.name] = attempt
        self._mailbox.watch(attempt)
        task = asyncio.create_task(self._carry(attempt))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _tail(self, claim: PodClaim) -> Tail:
        return Tail(str(self._log_path(claim)), _LOG_BYTES_MAX)

    def _log_path(self, claim: PodClaim) -> Path:
        fence = claim.ref.fence
        return self._logs / f"{claim.ref.job}-{fence.epoch}-{fence.counter}-{claim.rank}.log"

    def stop(self, command: Stop) -> None:
        here = tuple(rank for ref, rank in self._live if ref == command.ref)
        for rank in command.ranks or (None,):
            self._memory.stopped(command.ref, rank)
        for rank in command.ranks or here or (0,):
            attempt = self._live.get((command.ref, rank))
            if attempt is None or attempt.heard:
                self._fence_unstarted((command.ref, rank), "not running here")
            elif attempt.final is not None:
                self._mailbox.again(attempt.final)
            else:
                # A pod knows one warning: SIGTERM. What it has to save its work comes on top of its grace.
                attempt.fence(command.reason or "stopped", command.grace_s + command.wait_s)

    def keep_only(self, refs: Iterable[AttemptRef]) -> None:
        granted, self.granted = set(refs), True
        for attempt in self._live.values():
            if attempt.claim.ref not in granted and not attempt.ended:
                attempt.fence("no longer granted to this node", 0.0)
        for attempt in self._live.values():
            attempt.turn()

    def stop_all(self, grace_s: float, reason: str) -> None:
        for attempt in self._live.values():
            if not attempt.ended:
                attempt.fence(reason, grace_s)

    def _fence_unstarted(self, key: Key, reason: str) -> None:
        self._mailbox.report(Fenced(number=self._mailbox.outbox.number(), ref=key[0], rank=key[1], reason=reason))

    # ---- news of the cluster

    def observe(self, pod: Pod) -> None:
        attempt = self._by_name.get(pod.metadata.name)
        if attempt is None or (attempt.pod is not None and attempt.pod.metadata.uid != pod.metadata.uid):
            return
        if attempt.pod is not None or same_attempt(attempt.claim, read_claim(pod, self._around.terms.code)):
            attempt.vanished = None
            attempt.see(pod)

    def removed(self, name: str, uid: str) -> None:
        attempt = self._by_name.get(name)
        if attempt is not None and attempt.pod is not None and attempt.pod.metadata.uid == uid:
            attempt.vanished = self._clock.monotonic()
            attempt.news.set()

    def stir(self) -> None:
        """The node changed, or went."""
        for attempt in self._live.values():
            attempt.news.set()

    # ---- an attempt's life

    async def _carry(self, attempt: PodAttempt) -> None:
        """To its end, whatever the cluster answers: an attempt that is given up would count as running for ever."""
        while self._live.get(attempt.key) is attempt:
            try:
                if attempt.final is None:
                    await self._live_through(attempt)
                while not (attempt.heard and attempt.tail.settled):
                    attempt.news.clear()
                    await attempt.news.wait()
                await self._collect(attempt)
            except Exception as error:
                _log.error("kube.attempt_again", pod=attempt.name, error=repr(error), again_after_s=_TELL_AGAIN_S)
                await self._clock.sleep(_TELL_AGAIN_S)

    async def _live_through(self, attempt: PodAttempt) -> None:
        try:
            await recall_secrets(attempt, self._api, self._clock)
            await place(attempt, self._around, self._api, self._clock, lambda: self.granted)
            end = await self._outlive(attempt)
        except NeverRan as never:
            if not await never_bound(attempt, self._api, self._clock):
                end = await self._outlive(attempt)
            else:
                kind: EndKind = "exited" if never.faulty else "refused"
                end = PodEnd(kind, ExitInfo(failure="staging", message=str(never)))
        await self._last_lines(attempt, _LOST_LINES_S if end.kind == "lost" else _LAST_LINES_S)
        self._report_end(attempt, end)

    async def _outlive(self, attempt: PodAttempt) -> PodEnd:
        """Until its pod is known to be over. It is told to end when it has to."""
        while True:
            attempt.news.clear()
            if (end := pod_end(attempt, self._around, self._clock)) is not None:
                return end
            self._notice_start(attempt)
            self._notice_limits(attempt)
            tell = attempt.fenced or attempt.timed_out or attempt.unpulled or attempt.unscheduled
            sooner = attempt.fenced and attempt.grace_s < attempt.told_grace_s
            if tell and attempt.pod is not None and (not attempt.told or sooner):
                await self._tell_to_end(attempt)
                continue
            try:
                await asyncio.wait_for(attempt.news.wait(), self._patience_s(attempt))
            except TimeoutError:
                if tell and attempt.told:
                    await self._tell_to_end(attempt)

    def _patience_s(self, attempt: PodAttempt) -> float:
        limits = [_TELL_AGAIN_S]
        now, limit_s = self._clock.monotonic(), attempt.claim.time_limit_s
        if limit_s and attempt.began is not None and not attempt.timed_out:
            limits.append(attempt.began + limit_s - now)
        if attempt.pulling_since is not None and not attempt.unpulled:
            limits.append(attempt.pulling_since + self._around.terms.pull_s - now)
        if attempt.offered is not None and not (attempt.bound or attempt.unscheduled):
            limits.append(attempt.offered + self._around.terms.schedule_s - now)
        if attempt.vanished is not None:
            limits.append(1.0)
        return max(0.01, min(limits))

    def _notice_start(self, attempt: PodAttempt) -> None:
        pod = attempt.pod
        assert pod is not None
        ended, began_at = main_state(pod)
        if attempt.reported or not (began_at or ended is not None):
            return
        attempt.reported, attempt.pulling_since = True, None
        ran_s = max(0.0, self._clock.wall() - began_at)
        attempt.began = self._clock.monotonic() - ran_s
        number, (ref, rank) = self._mailbox.outbox.number(), attempt.key
        at, given = began_at or self._clock.wall(), attempt.secret_versions
        self._mailbox.report(Started(number=number, ref=ref, rank=rank, pid=0, at=at, secrets=given))
        self._follow(attempt)

    def _follow(self, attempt: PodAttempt) -> None:
        if attempt.following is None:
            log = PodLog(self._log_path(attempt.claim), attempt.name, self._api, self._clock, mask_of(attempt))

            async def follow() -> bool:
                try:
                    return await log.follow(lambda: attempt.silent)
                finally:
                    log.close()

            attempt.following = asyncio.create_task(follow())

    def _notice_limits(self, attempt: PodAttempt) -> None:
        now, pod = self._clock.monotonic(), attempt.pod
        assert pod is not None
        limit_s = attempt.claim.time_limit_s
        if limit_s and attempt.began is not None and now >= attempt.began + limit_s:
            attempt.timed_out = True
        waits = attempt.offered is not None and not (attempt.bound or attempt.unscheduled)
        if waits and now - (attempt.offered or 0.0) >= self._around.terms.schedule_s:
            attempt.unscheduled = unschedulable(pod)
        trouble, lasting = pull_trouble(pod) if not attempt.reported else ("", False)
        if not trouble:
            return
        attempt.pulling_since = now if attempt.pulling_since is None else attempt.pulling_since
        if lasting or now - attempt.pulling_since >= self._around.terms.pull_s:
            attempt.unpulled, attempt.lasting = trouble, lasting

    async def _tell_to_end(self, attempt: PodAttempt) -> None:
        """By this pod's uid: another of the same name is not meant."""
        pod = attempt.pod
        assert pod is not None
        grace_s = attempt.grace_s if attempt.fenced else 0.0 if attempt.unpulled or attempt.unscheduled else 30.0
        attempt.told, attempt.told_grace_s = attempt.told + 1, grace_s
        # A grace of 0 would remove the pod without the kubelet's word that its processes are gone.
        whole = max(1, round(grace_s))
        try:
            await until_known(self._clock, "delete", lambda: self._api.delete(attempt.name, pod.metadata.uid, whole))
        except KubeRefused as refusal:
            _log.error("kube.delete_refused", pod=attempt.name, why=str(refusal), next="it is tried again")

    # ---- the end

    async def _last_lines(self, attempt: PodAttempt, patience_s: float) -> None:
        pod = attempt.pod
        if attempt.following is None and pod is not None and main_state(pod)[0] is not None:
            # It began and ended between two looks.
            self._notice_start(attempt)
        for last in (False, True):
            following = attempt.following
            if following is None or (await asyncio.wait((following,), timeout=patience_s / 2))[0]:
                break
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            if not last:
                # Its connection may be dead: once more, by a new one.
                attempt.following = None
                self._follow(attempt)
        attempt.tail.finish()

    def _report_end(self, attempt: PodAttempt, end: PodEnd) -> None:
        if end.kind == "refused" and not attempt.fenced:
            self._around.refused(attempt.claim.kube_node)
        end = masked(attempt, with_result(self.outputs.judged(attempt, end)))
        attempt.final = self._mailbox.outbox.number()
        self._mailbox.report(final_report(attempt, end, self._clock.wall()))
        if not attempt.tail.drained:
            self._mailbox.output(attempt)
        _log.info("kube.attempt_ended", pod=attempt.name, kind=end.kind, why=attempt.fenced or end.exit.message)

    async def _collect(self, attempt: PodAttempt) -> None:
        """Its exit code and its log are durable, and nothing of it runs: the pod may go, by its uid."""
        pod = attempt.pod or await until_known(self._clock, "get", lambda: self._api.get(attempt.name))
        if pod is not None and same_attempt(attempt.claim, read_claim(pod, self._around.terms.code)):
            await drop_secret(attempt, pod, self._api, self._clock)
            await drop_devices(attempt, pod, self._api, self._clock)
            await removed(attempt.name, pod.metadata.uid, self._api, self._clock)
        self._around.muster.leave(*attempt.key)
        self._live.pop(attempt.key, None)
        if self._by_name.get(attempt.name) is attempt:
            del self._by_name[attempt.name]
        self._memory.ended(*attempt.key)
        self._mailbox.forget(attempt)
        attempt.tail.close()
        self.outputs.drop(attempt)
        for path in (self._log_path(attempt.claim), self._log_path(attempt.claim).with_suffix(".mark")):
            path.unlink(missing_ok=True)

    # ---- answers to reports

    def settled(self, reports: Iterable[Report]) -> None:
        for report in reports:
            attempt = self._live.get((report.ref, report.rank))
            if attempt is not None and attempt.final == report.number:
                attempt.heard = True
                attempt.news.set()

    def log_kept(self, ack: LogAck) -> None:
        if (attempt := self._live.get((ack.ref, ack.rank))) is not None:
            self._shipping.kept(attempt, ack)
            attempt.news.set()

    async def look(self) -> None:
        """Sends new output, for ever."""
        while True:
            await self._clock.sleep(_LOOK_S)
            for attempt in self._live.values():
                self._shipping.look(attempt, leaving=False)

    async def close(self) -> None:
        """The agent ends. Pods go on."""
        tasks: list[asyncio.Task[Any]] = [
            *self._tasks,
            *(a.following for a in self._live.values() if a.following is not None),
        ]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
