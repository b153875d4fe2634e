"""Bugs on the node: when to start, and when to end."""
# pyright: reportPrivateUsage=false

import os
from collections.abc import Iterable
from math import inf
from typing import Any

import msgspec

from ares.agent.attempts import attempts
from ares.agent.attempts.attempts import Attempt, Attempts
from ares.agent.attempts.workspace import Folder, Workspace
from ares.agent.link.absence import Absence
from ares.agent.link.run_right import RunRight
from ares.agent.link.session import Conversation
from ares.control.execution.handover import Handover
from ares.control.execution.reports import Report
from ares.control.execution.session import AgentSession
from ares.model.link import AttemptRef, Exited, Fenced, Start, Started, StoreLock
from ares.ports.executor import Finished
from ares.sim.mutants.judging import on_wall_clock
from ares.sim.mutants.mutant import Mutant
from ares.sim.mutants.patching import replace, together

_acknowledged, _launch_of, _is_new = RunRight.acknowledged, attempts.launch_of, Attempts._is_new
_finished, _report = Attempts._finished, Report.of

_CLOCKED = (RunRight, Attempts, Conversation)


def _from_its_answer(self: RunRight, nonce: int, dead_after_s: float = 0.0) -> bool:
    moved = _acknowledged(self, nonce, dead_after_s)
    if moved:
        self._held_since = self._clock.monotonic()
    return moved


def _for_ever(self: RunRight, lease_s: float) -> float:
    return inf


def _without_deadline(*args: Any, **named: Any) -> Any:
    return msgspec.structs.replace(_launch_of(*args, **named), deadline=inf)


def _renew_no_slot(self: Attempts) -> None:
    for attempt in self._live.values():
        if not attempt.ended:
            attempt.deadline = self._run_right.deadline(attempt.start.spec.lease_s)
    held, self._held = self._held, {}
    for start in held.values():
        self.begin(start)


def _every_start(self: Attempts, start: Start) -> bool:
    key = (start.ref, start.placement.rank)
    if key in self._live and start.placement.incarnation == self.incarnation:
        self._live.pop(key)
        return True
    return _is_new(self, start)


def _beside(self: Workspace, folder: Folder, uid: int | None = None, *, fresh: bool = False) -> None:
    """A directory that is there already will do."""
    for path in (folder.path, folder.work, folder.outputs):
        os.makedirs(path, 0o700, exist_ok=True)


def _keep_all(self: Attempts, refs: Iterable[AttemptRef]) -> None:
    """Whatever the control plane says, what runs goes on."""


async def _nobody_answers(self: Absence, lock: StoreLock) -> bool:
    """Silence is taken for absence."""
    return True


def _blames_the_job(cls: type[Report], message: Started | Exited | Fenced, leaving: str = "") -> Report:
    return _report(message)


async def _moves_nothing(self: Handover, session: AgentSession) -> None:
    """An agent that goes is like one that is lost."""


def _dead_or_not(self: Attempts, attempt: Attempt, finished: Finished) -> None:
    """Only what says goodbye is heard, and what was told to end."""
    if finished.code is not None or attempt.fenced or finished.expired:
        _finished(self, attempt, finished)


MUTANTS = {
    "stopped-agent-costs-retry": Mutant(
        "what an agent ends because it is told to stop counts as the job's failure",
        ("E7",),
        together(replace(Handover, "_move", _moves_nothing), replace(Report, "of", classmethod(_blames_the_job))),
        case="told-to-stop",
    ),
    "death-unheard": Mutant(
        "a process that dies without a word counts as running",
        ("E11", "E12"),
        replace(Attempts, "_finished", _dead_or_not),
        case="killed-process",
    ),
    "renewal-dated-from-answer": Mutant(
        "the right to run counts from when the answer came",
        ("E9", "E10"),
        replace(RunRight, "acknowledged", _from_its_answer),
        case="late-answer",
    ),
    "no-self-fencing": Mutant(
        "nothing ends by itself when renewals fail",
        ("E9", "E10"),
        replace(RunRight, "deadline", _for_ever),
        case="frozen-agent",
    ),
    "slot-does-not-fence": Mutant(
        "only the agent ends what lost its right: not while it is stopped",
        ("E9", "E10"),
        together(replace(attempts, "launch_of", _without_deadline), replace(Attempts, "renewed", _renew_no_slot)),
        case="frozen-agent",
    ),
    "leash-on-wall-clock": Mutant(
        "the right to run is measured by the time of day",
        ("E9", "E10"),
        together(*(replace(part, "__init__", on_wall_clock(part.__init__)) for part in _CLOCKED)),
        case="jump-and-cut",
    ),
    "silence-is-absence": Mutant(
        "an agent whose server is silent takes it for gone",
        ("E9", "E10"),
        replace(Absence, "_free", _nobody_answers),
        case="cut-beside",
    ),
    "started-again": Mutant(
        "a start that comes twice starts twice",
        ("E18",),
        together(replace(Attempts, "_is_new", _every_start), replace(Workspace, "create", _beside)),
        case="doubled",
    ),
    "keeps-what-was-taken": Mutant(
        "after a reconnect the agent goes on with what is no longer granted",
        ("E9", "E10"),
        replace(Attempts, "keep_only", _keep_all),
        case="restored",
    ),
}
