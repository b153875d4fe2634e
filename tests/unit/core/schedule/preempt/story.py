"""Stories about evictions as files: what is there, who asks, and what must come of it."""

import re
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from ares.core.schedule.preempt.consolidate import FreeNodes, Goal, MakeRoom, Moves, Vacate, consolidate
from ares.core.schedule.preempt.eligible import Rule
from ares.core.schedule.preempt.holders import (
    Asker,
    EvictionCandidate,
    Freed,
    NodeRoom,
    RoomColumns,
    RoomRequest,
    columns,
)
from ares.core.schedule.preempt.screen import Screened, census, screen
from ares.core.schedule.preempt.victims import NoVictims, Victims, bound_of, choose
from ares.model.job import PRIORITIES
from ares.model.profile import PreemptionPolicy

FOLDER = Path(__file__).parent / "scenarios"
HOURS = 3600.0


class Story(NamedTuple):
    text: dict[str, Any]
    # Node names by slot.
    names: list[str]
    rooms: RoomColumns
    holders: list[EvictionCandidate]

    @property
    def policy(self) -> PreemptionPolicy:
        return PreemptionPolicy(**self.text.get("policy", {}))

    @property
    def asker(self) -> Asker:
        asks = self.text.get("asks", {})
        standing = {path: round(gpus * 1000) for path, gpus in self.text.get("borrowed_gpus", {}).items()}
        level = PRIORITIES.index(asks.get("priority", "NORMAL"))
        return Asker(
            asks.get("job", "asker"),
            level,
            asks.get("account", "ask/er/me"),
            standing,
            self.request.milli if asks else 0,
        )

    @property
    def request(self) -> RoomRequest:
        asks = self.text["asks"]
        cpu, gpus, share = asks.get("cpus", 1), asks.get("gpus", 0), asks.get("gpu_share", 1)
        return RoomRequest(asks.get("ranks", 1), round(cpu * 1000), 1, gpus, round(share * 1000))

    def screened(self, rule: Rule) -> Screened:
        return screen(census(self.holders), self.asker, self.policy, rule)

    def choose(self) -> Victims | NoVictims:
        rule: Rule = self.text.get("rule", "priority")
        bound = bound_of(self.request, self.asker, self.policy, rule)
        return choose(self.request, self.rooms, self.screened(rule), bound)

    def consolidate(self) -> Moves:
        goal, rule = self._goal()
        # Jobs of the story may go anywhere except where their `not_on` says.
        barred = {job["job"]: job.get("not_on", []) for job in self.text["jobs"]}
        return consolidate(
            self.rooms,
            self.screened(rule),
            goal,
            lambda holder, slot: None if self.names[slot] in barred[holder.job] else -1,
        )

    def _goal(self) -> tuple[Goal, Rule]:
        if "vacate" in self.text:
            return Vacate(tuple(self.names.index(name) for name in self.text["vacate"])), "drain"
        if "free_nodes" in self.text:
            return FreeNodes(self.text["free_nodes"]), "consolidate"
        return MakeRoom(self.request), "consolidate"


def names_of(text: str) -> list[str]:
    """ "n1..n4" and "a b" are lists of names."""
    found: list[str] = []
    for word in text.split():
        between = re.fullmatch(r"([a-z]+)(\d+)\.\.\1(\d+)", word)
        numbers = range(int(between[2]), int(between[3]) + 1) if between else ()
        found += [f"{between[1]}{number}" for number in numbers] if between else [word]
    return found


def read(path: Path) -> Story:
    text = tomllib.loads(path.read_text())
    cpu: dict[str, int] = {}
    gpus: dict[str, list[int]] = {}
    for group in text["nodes"]:
        for name in names_of(group["names"]):
            cpu[name], gpus[name] = group.get("cpus", 64) * 1000, [1000] * group.get("gpus", 0)
    names = list(cpu)
    holders = [_holder(job, names, cpu, gpus) for job in text["jobs"]]
    rooms = columns(NodeRoom(slot, cpu[name], 1 << 20, tuple(gpus[name])) for slot, name in enumerate(names))
    return Story(text, names, rooms, holders)


def _holder(
    job: dict[str, Any], names: list[str], cpu: dict[str, int], gpus: dict[str, list[int]]
) -> EvictionCandidate:
    at: list[tuple[int, Freed]] = []
    share = round(job.get("gpu_share", 1) * 1000)
    for name in names_of(job["on"]):
        taken = [index for index, left in enumerate(gpus[name]) if left >= share][: job.get("gpus", 0)]
        need = round(job.get("cpus", 1) * 1000)
        assert len(taken) == job.get("gpus", 0), f"{job['job']} does not fit on {name}"
        assert cpu[name] >= need, f"{job['job']} does not fit on {name}"
        cpu[name] -= need
        for index in taken:
            gpus[name][index] -= share
        at.append((names.index(name), Freed(need, 1, tuple((index, share) for index in taken))))
    ran = job.get("ran_h", 10.0) * HOURS
    return EvictionCandidate(
        job=job["job"],
        level=PRIORITIES.index(job.get("priority", "LOW")),
        account=job.get("account", "other/team/user"),
        gpus_milli=sum(milli for _, freed in at for _, milli in freed.gpus),
        cpu_milli=sum(freed.cpu_milli for _, freed in at),
        ran_s=ran,
        since_checkpoint_s=job["checkpoint_h_ago"] * HOURS if "checkpoint_h_ago" in job else ran,
        preemptions=job.get("preempted_times", 0),
        preempted_s_ago=job["preempted_h_ago"] * HOURS if "preempted_h_ago" in job else None,
        preemptible=job.get("preemptible", True),
        at=tuple(at),
    )
