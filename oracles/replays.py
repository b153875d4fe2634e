"""Decisions on real traces: every start, end and promise of a replay, and every placement of the FGD protocol.

Logs are too long to be recorded: their lines are digested in blocks, and `--keep FOLDER` writes the logs themselves.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import msgspec

from ares.check.replay.trace import Trace
from ares.model.state import Placement
from ares.sim.traces.engine import ReplayOptions
from ares.sim.traces.engine import replay as play
from ares.sim.traces.formats import read
from ares.sim.traces.policies import policy
from bench.fgd.ares import Ares
from bench.fgd.lists import arrivals
from oracles.recording import Part, data

KTH_JOBS = 5000
KTH_POLICIES = ("fcfs", "easy", "conservative", "fair-share", "default")
DEADLINE_POLICIES = ("edf", "deadline", "default")
FGD_LIST, FGD_SEED = "default", 0
_BLOCK = 500


def replays(keep: Path | None) -> Iterator[Part]:
    kth = read(data("easy/KTH-SP2.csv.gz"))
    kth = replace(kth, jobs=kth.jobs[:KTH_JOBS])
    deadlines = read(data("deadlines/20_ddl_first100.csv"))
    for trace, name, policies in ((kth, "kth", KTH_POLICIES), (deadlines, "deadlines", DEADLINE_POLICIES)):
        for chosen in policies:
            yield _part(f"{name} {chosen}", _decisions(trace, chosen), keep)
    data("fgd/openb_node_list_gpu_node.csv.gz")
    data(f"fgd/openb_pod_list_{FGD_LIST}.csv.gz")
    yield _part(f"fgd {FGD_LIST}", _placements(), keep)


def _decisions(trace: Trace, name: str) -> list[bytes]:
    """A line for each cycle; its first value is the time."""
    lines: list[bytes] = []
    play(trace, policy(name), ReplayOptions(log=lambda decision: lines.append(msgspec.json.encode(_values(decision)))))
    return lines


def _values(thing: Any) -> Any:
    """By place, not by name. Placements are stored records: the names of their fields are for ever."""
    if isinstance(thing, Placement):
        return thing
    if isinstance(thing, msgspec.Struct):
        return [_values(getattr(thing, field)) for field in thing.__struct_fields__]
    return [_values(one) for one in cast(tuple[Any, ...], thing)] if isinstance(thing, tuple) else thing


def _placements() -> list[bytes]:
    """A line for each pod that arrives: its node and GPUs, or null."""
    engine = Ares(FGD_LIST, FGD_SEED)
    return [msgspec.json.encode(engine.place(pod)) for pod in arrivals(FGD_LIST, FGD_SEED)]


def _part(name: str, lines: Sequence[bytes], keep: Path | None) -> Part:
    if keep is not None:
        (keep / f"{name}.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    blocks = [lines[at : at + _BLOCK] for at in range(0, len(lines), _BLOCK)]
    digests = [hashlib.sha256(b"\n".join(block)).hexdigest() for block in blocks]
    texts = (f"decisions from {at * _BLOCK + 1}: {digest}\n" for at, digest in enumerate(digests))
    return Part(name, f"{len(lines)} decisions\n{''.join(texts)}")
