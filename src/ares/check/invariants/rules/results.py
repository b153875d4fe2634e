"""E5: one result, of the attempt that had the fence, and no client is shown another."""

import re
from typing import Any

from ares.check.invariants.books import CommittedStep, LedgerBooks
from ares.check.invariants.history import Answered, Asked, Event, digest_of
from ares.check.invariants.records import BOUND, ENDED, Result
from ares.check.invariants.rule import Rule
from ares.check.invariants.scene import Scene

_FENCE = re.compile(r"[0-9]+\.[0-9]+\Z")
_KEEPS_RESULT = ("SUCCEEDED", "FAILED")


class OneResult(Rule):
    """A job has at most one result, written in the commit that ends it, by the attempt whose fence was valid then.

    SUCCEEDED has a result without a failure and FAILED one with it, unless its needs were not met; whatever else has
    none. A value that is an object with a "fence" was made by a process with that fence. What clients were shown is
    what was committed before."""

    id = "E5"
    title = "one result, and everybody sees the same"
    hears = (Asked, Answered)
    notes = ("/results/",)

    def __init__(self, books: LedgerBooks, scene: Scene) -> None:
        super().__init__(books, scene)
        self._asked: dict[int, Asked] = {}

    def step(self, step: CommittedStep) -> None:
        before, after, result = step.before, step.after, step.result
        if result is not None:
            self.tested += 1
            if before is None or before.phase not in BOUND:
                self.blame(step.job, f"a result was committed for a job that was {before and before.phase}")
            elif result.fence != before.fence:
                self.blame(step.job, f"a result of fence {result.fence} was committed, {before.fence} was valid")
            self._made_by(step.job, result)
            if len({file.path for file in result.outputs}) < len(result.outputs):
                self.blame(step.job, "its result has two files of one path")
        if after is None or not step.wrote:
            return
        if any(entry.kind == "unmet" for entry in step.entries):
            # Nothing of it ever ran.
            self.tested += 1
            if result is not None:
                self.blame(step.job, f"a result was committed, and its needs were not met: it is {after.phase}")
        elif after.phase in _KEEPS_RESULT and (before is None or before.phase not in ENDED):
            self.tested += 1
            if result is None:
                self.blame(step.job, f"became {after.phase} without a result")
            elif (result.exit.failure is None) != (after.phase == "SUCCEEDED"):
                self.blame(step.job, f"is {after.phase}, and its result says {result.exit.failure or 'success'}")
        elif result is not None and after.phase not in _KEEPS_RESULT:
            self.blame(step.job, f"a result was committed, and it is {after.phase}")

    def _made_by(self, job: str, result: Result) -> None:
        value: Any = result.value
        made: Any = value.get("fence") if isinstance(value, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if isinstance(made, str) and _FENCE.match(made) and made != str(result.fence):
            self.blame(job, f"the result of fence {result.fence} was made by a process of fence {made}")

    def note(self, name: str, before: Result | None, after: Result | None) -> None:
        if before is not None and after is not None:
            self.blame(name, "its result was written a second time")
        elif after is None and name in self.books.states:
            self.blame(name, "its result was removed, and the job is kept")
        elif after is not None and after.job != name:
            self.blame(name, f"its result says it is that of {after.job}")

    def hear(self, event: Event) -> None:
        if isinstance(event, Asked):
            if event.verb in ("result", "outputs"):
                self._asked[event.op] = event
        elif isinstance(event, Answered):
            asked = self._asked.pop(event.op, None)
            if asked is not None and event.outcome == "ok" and event.seen:
                self._shown(asked.job, event.seen)

    def _shown(self, job: str, seen: dict[str, str]) -> None:
        result = self.books.results.get(job)
        if result is None:
            # Forgotten while the answer was on its way.
            if job in self.books.states:
                self.blame(job, f"a client was shown {len(seen)} of its results, and none is committed")
            return
        committed = {"": digest_of(result.value), **{file.path: file.sha256 for file in result.outputs}}
        for path, digest in seen.items():
            self.tested += 1
            if committed.get(path) != digest:
                shown = f"file {path!r}" if path else "a value"
                self.blame(job, f"a client was shown {shown} with digest {digest[:12]}, which was never committed")

    def restored(self) -> None:
        """What was asked before may be answered from before."""
        self._asked.clear()
