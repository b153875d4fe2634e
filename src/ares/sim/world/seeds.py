"""Runs and checks many seeds, in several processes with fixed hashes."""

import gc
import hashlib
import os
import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from ares.check.federation.history import digest as digest_federation
from ares.check.federation.judge import check as check_federation
from ares.check.invariants import linearizability
from ares.check.invariants.history import Violation, encode
from ares.check.invariants.judge import check
from ares.sim.federation.cases import FEDERATION_CASES
from ares.sim.federation.world import PlayedFederation
from ares.sim.federation.world import play as play_federation
from ares.sim.mutants.mutants import switched_on
from ares.sim.world.cases import CASES
from ares.sim.world.world import Played, play

_COLLECT_EVERY = 25
_SHOWN_MAX = 20


class JudgedSeed(msgspec.Struct, frozen=True, omit_defaults=True):
    """One seed's outcome. `failures` are uncaught exceptions: defects, whatever the predicates say."""

    seed: int
    digest: str
    cpu_s: float
    violations: tuple[Violation, ...] = ()
    failures: tuple[str, ...] = ()
    counts: dict[str, int] = {}

    @property
    def clean(self) -> bool:
        return not (self.violations or self.failures)


class SeedSummary(msgspec.Struct, frozen=True):
    """The summary of a range of seeds."""

    seeds: int
    cpu_s: float
    counts: dict[str, int]
    broken: tuple[JudgedSeed, ...]

    @property
    def per_cpu_minute(self) -> float:
        return 60.0 * self.seeds / self.cpu_s if self.cpu_s else 0.0


def replay(seed: int, mutant: str = "", case: str = "") -> tuple[Played, JudgedSeed]:
    """The same every time, in whatever process, as long as PYTHONHASHSEED is 0. `case` names a directed case."""
    began = time.process_time()
    with switched_on(mutant):
        played = play(seed, CASES[case].shape, CASES[case].script) if case else play(seed)
    verdict = check(played.events)
    violations = (*verdict.violations, *linearizability.check(played.events))
    digest = hashlib.sha256(encode(played.events)).hexdigest()
    spent = time.process_time() - began
    return played, JudgedSeed(seed, digest, spent, violations, played.failures, dict(verdict.counts))


def replay_federation(seed: int, mutant: str = "", case: str = "") -> tuple[PlayedFederation, JudgedSeed]:
    """The same for a world of several clusters."""
    began = time.process_time()
    with switched_on(mutant):
        played = play_federation(seed, FEDERATION_CASES[case] if case else None)
    verdict = check_federation(played.events)
    spent = time.process_time() - began
    return played, JudgedSeed(seed, digest_federation(played.events), spent, verdict.violations, (), verdict.counts)


def work(
    first: int, count: int, step: int, mutant: str, case: str, federation: bool, out: Callable[[bytes], object]
) -> None:
    """The worker's side: a line for each seed."""
    gc.disable()
    for number, seed in enumerate(range(first, first + count * step, step)):
        _, judged = replay_federation(seed, mutant, case) if federation else replay(seed, mutant, case)
        out(msgspec.json.encode(judged) + b"\n")
        if number % _COLLECT_EVERY == _COLLECT_EVERY - 1:
            gc.collect()


@dataclass(frozen=True, slots=True)
class Range:
    first: int = 0
    count: int = 2000
    mutant: str = ""
    workers: int = 0
    # Stop at the first that is not clean.
    until_broken: bool = False
    # A directed case instead of the swarm.
    case: str = ""
    # Worlds of a global plane and several clusters.
    federation: bool = False


def run(seeds: Range) -> Generator[JudgedSeed, None, None]:
    """Outcomes as they come. Ends every process it started, also when the caller stops listening."""
    workers = max(1, min(seeds.workers or os.cpu_count() or 1, seeds.count))
    shares = [(seeds.count - place + workers - 1) // workers for place in range(workers)]
    started = [_start(seeds, seeds.first + place, share, workers) for place, share in enumerate(shares)]
    try:
        yield from _listen(started, seeds.until_broken)
    finally:
        for process in started:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def _start(seeds: Range, first: int, count: int, step: int) -> "subprocess.Popen[bytes]":
    worlds = "federation" if seeds.federation else "cluster"
    numbers = (str(number) for number in (first, count, step))
    command = [sys.executable, "-m", "ares.sim.world.worker", *numbers, seeds.mutant, seeds.case, worlds]
    environment = {**os.environ, "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)


def _listen(started: Sequence["subprocess.Popen[bytes]"], until_broken: bool) -> Iterator[JudgedSeed]:
    decode = msgspec.json.Decoder(JudgedSeed).decode
    left = {process.stdout.fileno(): process for process in started if process.stdout is not None}
    rest = dict.fromkeys(left, b"")
    while left:
        for fd in select.select(list(left), [], [])[0]:
            data = os.read(fd, 1 << 16)
            if not data:
                if left.pop(fd).wait() != 0:
                    raise RuntimeError("a worker failed; its error is above")
                continue
            *lines, rest[fd] = (rest[fd] + data).split(b"\n")
            for line in lines:
                judged = decode(line)
                yield judged
                if until_broken and not judged.clean:
                    return


def summarize(outcomes: Sequence[JudgedSeed]) -> SeedSummary:
    counts: Counter[str] = Counter()
    for judged in outcomes:
        counts.update(judged.counts)
    broken = sorted((judged for judged in outcomes if not judged.clean), key=lambda judged: judged.seed)
    return SeedSummary(
        len(outcomes), sum(judged.cpu_s for judged in outcomes), dict(counts), tuple(broken[:_SHOWN_MAX])
    )


def figures(found: SeedSummary) -> dict[str, Any]:
    """For programs."""
    return {
        "seeds": found.seeds,
        "cpuS": round(found.cpu_s, 3),
        "perCpuMinute": round(found.per_cpu_minute, 1),
        "counts": found.counts,
        "broken": [outcome(judged) for judged in found.broken],
    }


def outcome(judged: JudgedSeed) -> dict[str, Any]:
    return msgspec.to_builtins(judged)
