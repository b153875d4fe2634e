"""Lifecycle transcripts: commands, dashes, and what came of them, as plain text.

A block is one or more commands, a line of dashes, and the outcome of each.
`python -m tests.unit.core.lifecycle.transcript` (with src on the path) writes the outcomes anew;
read the difference before you commit it.
"""

import shlex
from pathlib import Path
from typing import Any

from ares.core.lifecycle import inputs
from ares.core.lifecycle.graph import begin, step
from ares.core.refusal import Refusal
from ares.model.job import Gang, JobSpec, Need, RetryPolicy
from ares.model.state import ExitInfo, Fence, Job, JobState, LedgerEvent, Placement

FOLDER = Path(__file__).parent / "transcripts"
DASHES = "----"


class Player:
    """One job, a clock that moves a second per command, and no chance."""

    def __init__(self) -> None:
        self.job: Job | None = None
        self.ledger: list[LedgerEvent] = []
        self.context = inputs.Context(now=0.0, jitter=0.5, epoch=1)

    def play(self, line: str) -> list[str]:
        name, *words = shlex.split(line)
        options = dict(word.split("=", 1) for word in words if "=" in word)
        rest = [word for word in words if "=" not in word]
        self.context = inputs.Context(now=self.context.now + 1.0, jitter=0.5, epoch=self.context.epoch)
        if name == "epoch":
            self.context = inputs.Context(now=self.context.now, jitter=0.5, epoch=int(rest[0]))
            return [f"the store's epoch is {rest[0]}"]
        if name == "job":
            return self._submit(options)
        assert self.job is not None, "a transcript begins with job"
        done = step(self.job, self._input(name, rest, options), self.context)
        if isinstance(done, Refusal):
            return [f"refused {done.code}: {done.message}"]
        self.job = Job(spec=self.job.spec, state=done.state)
        self.ledger += done.events
        return describe(done)

    def _submit(self, options: dict[str, str]) -> list[str]:
        limits: dict[Any, int] = {k[6:]: int(v) for k, v in options.items() if k.startswith("limit.")}
        retry = RetryPolicy(
            limit=int(options.get("limit", "3")),
            class_limits=limits,
            final_exit_codes=tuple(int(v) for k, v in options.items() if k == "final"),
        )
        known: dict[str, Any] = {key: value for key, value in options.items() if key in {"effects", "restart"}}
        if "ranks" in options:
            least = int(options["min"]) if "min" in options else None
            known["gang"] = Gang(ranks=int(options["ranks"]), min_ranks=least)
        if "needs" in options:
            known["needs"] = (Need(job=options["needs"]),)
        if "begin" in options:
            known["begin_at"] = float(options["begin"])
        spec = JobSpec(command=("true",), retry=retry, held="held" in options, **known)
        done = begin(id="j1", tenant="t", spec=spec, name="demo", submitted_by="ann", context=self.context)
        self.job = Job(spec=spec, state=done.state)
        self.ledger = list(done.events)
        return describe(done)

    def _input(self, name: str, rest: list[str], options: dict[str, str]) -> inputs.Input:
        assert self.job is not None
        fence = parse_fence(options["fence"]) if "fence" in options else self.job.state.fence
        ranks = _numbers(options.get("ranks", ""))
        if name == "bind":
            places = tuple(place(n, node, options) for n, node in enumerate(rest))
            return inputs.Bind(placements=places, decision=options.get("decision", ""))
        if name == "resize":
            # "0:n1 3:n4": the ranks to go on with, and where they are.
            pairs = [word.split(":") for word in rest]
            places = tuple(place(int(rank), node, options) for rank, node in pairs)
            return inputs.RanksResized(fence=fence, placements=places, reason="the cluster has changed")
        if name == "exit":
            code = int(options["code"]) if "code" in options else None
            failure: Any = options.get("failure", "exit" if code else None)
            ended = ExitInfo(code=code, signal=options.get("signal"), failure=failure)
            rank = int(options.get("rank", "0"))
            blames = int(options["blames"]) if "blames" in options else None
            return inputs.Exit(fence=fence, exit=ended, rank=rank, value=options.get("value"), blames=blames)
        made: dict[str, inputs.Input] = {
            "hold": inputs.HoldBack(by="bob", reason=" ".join(rest)),
            "unhold": inputs.LetGo(by="bob", reason=" ".join(rest)),
            "begin-due": inputs.BeginDue(),
            "needs-met": inputs.NeedsMet(reason=" ".join(rest)),
            "needs-unmet": inputs.NeedsUnmet(reason=" ".join(rest), then=_then(options)),
            "start": inputs.RankStarted(
                fence=fence, rank=int(options.get("rank", "0")), at=float(options.get("at", "0"))
            ),
            "lease-lost": inputs.LeaseLost(fence=fence, reason=" ".join(rest), ranks=ranks),
            "verdict": inputs.VerdictDue(fence=fence),
            "assembly-over": inputs.AssemblyOver(fence=fence, reason=" ".join(rest)),
            "preempt": inputs.Preempt(
                fence=fence, by="j9", reason=" ".join(rest), record={"preemptor": "j9", "lostGpuS": 0}
            ),
            "nominate": inputs.Nominate(
                hold=tuple(place(n, node, options) for n, node in enumerate(rest)),
                evicting=tuple(one for one in options.get("evicting", "").split(",") if one),
                reason="makes room" if rest else "the room is not needed",
            ),
            "cancel": inputs.Cancel(by="bob", reason=" ".join(rest)),
            "retry-due": inputs.RetryDue(seq=self.job.state.seq),
            "retry-now": inputs.RetryNow(by="bob", reason=" ".join(rest)),
            "release": inputs.Release(fence=fence, ranks=ranks),
        }
        return made[name]


def place(rank: int, node: str, options: dict[str, str]) -> Placement:
    gpus = _numbers(options.get("gpus", ""))
    return Placement(node=node, incarnation=1, cpu_milli=1000, memory_mib=256, gpus=gpus, rank=rank)


def _then(options: dict[str, str]) -> Any:
    return options.get("then", "skip")


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(",") if number)


def parse_fence(text: str) -> Fence:
    epoch, counter = text.split(".")
    return Fence(epoch=int(epoch), counter=int(counter))


def describe(done: inputs.Stepped) -> list[str]:
    lines = [_state_line(done.state)]
    for event in done.events:
        data = " ".join(f"{key}={value}" for key, value in event.data.items())
        why = f" because {event.reason}" if event.reason else ""
        lines.append(f"  #{event.seq} {event.kind} [{event.fence}] by {event.by}{why} {{{data}}}")
    if done.result is not None:
        one = done.result
        lines.append(f"  result of attempt {one.attempt} [{one.fence}] code={one.exit.code} value={one.value}")
    return lines


def _state_line(state: JobState) -> str:
    parts = [f"{state.phase} attempt={state.attempt} fence={state.fence} seq={state.seq}"]
    ranked = len(state.placements) > 1 or state.generation
    parts += [f"on={f'{p.rank}:' if ranked else ''}{p.node}" for p in state.placements]
    parts += [f"leaving={p.rank}:{p.node}" for p in state.leaving]
    parts += [f"gone={','.join(map(str, state.ended_ranks))}"] if state.ended_ranks else []
    parts += [f"generation={state.generation}"] if state.generation else []
    parts += [f"hold={p.rank}:{p.node}" for p in state.hold]
    parts += ["lingering"] if state.lingering else []
    parts += [f"delay={state.retry_delay_s:g}"] if state.retry_delay_s else []
    parts += [f"ended={state.ended_at:g}"] if state.ended_at is not None else []
    parts += [f"reason={state.reason!r}"] if state.reason else []
    return " ".join(parts)


def replay(text: str) -> str:
    """The transcript with its outcomes computed anew; comments, commands and blank lines stay."""
    player, out, pending, skipping = Player(), list[str](), list[str](), False
    for line in text.splitlines():
        if line == DASHES:
            out.append(line)
            for command in pending:
                out += player.play(command)
            pending, skipping = [], True
        elif not line or line.startswith("#"):
            skipping = False
            out.append(line)
        elif not skipping:
            pending.append(line)
            out.append(line)
    assert not pending, f"no {DASHES} after {pending}"
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    for path in sorted(FOLDER.glob("*.txt")):
        path.write_text(replay(path.read_text()))
