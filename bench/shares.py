"""How near teams come to their shares on a real log: `python -m bench.shares`.

The users with the most work are teams of one tenant, and their jobs come faster than the machine can run them. At every
moment each team is entitled to an equal part of the machine, or to less where it asks for less (what it leaves is the
others'). What was delivered is compared with that, added up over time: the distance is the part of the machine's time
that went to other teams than it should have.
"""

import argparse
import dataclasses
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from ares.check.replay.trace import Trace, TraceJob
from ares.core.schedule.profiles import changed
from ares.sim.traces.engine import replay
from ares.sim.traces.formats.detect import read
from ares.sim.traces.outcome import Floats, Ints, Outcome
from ares.sim.traces.policies import policy
from ares.sim.traces.summary import summary

_DAY_S = 86_400.0


class ShareGap(NamedTuple):
    """Over the time in which some team waits: CPU-seconds of each team, and how far apart they are."""

    entitled: Floats
    delivered: Floats

    @property
    def distance(self) -> float:
        return float(np.abs(self.entitled - self.delivered).sum() / 2.0 / max(self.delivered.sum(), 1.0))


def teams_of(trace: Trace, count: int, load: float) -> Trace:
    """The jobs of the users with the most work, as teams of one tenant, coming `load` times as fast."""
    work: Counter[str] = Counter()
    for job in trace.jobs:
        work[job.user] += int(job.run_s * job.spec.resources.cpu_milli)
    chosen = [user for user, _ in work.most_common(count)]
    jobs = [job for job in trace.jobs if job.user in chosen]
    began = jobs[0].submit
    return dataclasses.replace(trace, jobs=tuple(_of_team(job, began, load) for job in jobs))


def _of_team(job: TraceJob, began: float, load: float) -> TraceJob:
    spec = replace(job.spec, team=f"team-{job.user}")
    return replace(job, submit=(job.submit - began) / load, spec=spec, tenant="kth", user="all")


def gap(trace: Trace, found: Outcome, since: float, until: float) -> ShareGap:
    """Between two moments, by the events in between."""
    names = sorted({job.spec.team or "" for job in trace.jobs})
    team = np.array([names.index(job.spec.team or "") for job in trace.jobs], np.int64)
    jobs, cpus = found.jobs, found.jobs.cpus
    moments = np.unique(np.concatenate([jobs.submit, jobs.first_start, jobs.end, [since, until]]))
    moments = moments[(moments >= since) & (moments <= until)]
    entitled, delivered = np.zeros(len(names)), np.zeros(len(names))
    whole = found.facts.cpu_milli / 1000.0
    for begin, end in pairwise(moments.tolist()):
        here = (jobs.submit <= begin) & (jobs.end > begin)
        runs = here & (jobs.first_start <= begin)
        if not (here & ~runs).any():
            continue
        asked = _by_team(team[here], cpus[here], len(names))
        held = _by_team(team[runs], cpus[runs], len(names))
        # Of what is in use: what stands empty for a wide job is no team's.
        entitled += (end - begin) * filled(asked, min(whole, float(held.sum())))
        delivered += (end - begin) * held
    return ShareGap(entitled, delivered)


def _by_team(team: Ints, cpus: Floats, count: int) -> Floats:
    return np.bincount(team, weights=cpus, minlength=count).astype(np.float64)


def filled(asked: Floats, whole: float) -> Floats:
    """Equal parts, and to none more than it asks for."""
    given, left = np.zeros(len(asked)), np.array(asked, dtype=np.float64)
    while whole > 1e-9 and (left > 1e-9).any():
        open_ = left > 1e-9
        step = min(whole / open_.sum(), float(left[open_].min()))
        given[open_] += step
        left[open_] -= step
        whole -= step * open_.sum()
    return given


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--trace", type=Path, default=Path("../shared/data/easy/KTH-SP2-1996-2.1-cln.swf.gz"))
    given.add_argument("--teams", type=int, default=8)
    given.add_argument("--load", type=float, default=4.0)
    given.add_argument("--days", type=float, nargs="*", default=[7.0, 14.0, 28.0, 56.0])
    given.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the profile")
    asked = given.parse_args()
    trace = teams_of(read(asked.trace), asked.teams, asked.load)
    base = policy("default")
    sets = dict(pair.split("=", 1) for pair in asked.set)
    found = replay(trace, replace(base, profile=changed(base.profile, sets)) if sets else base)
    told = summary(found)
    print(
        f"{len(trace.jobs):,} jobs of {asked.teams} users as teams, {asked.load:g} times as fast; default {sets or ''}"
    )
    print(f"utilisation {100 * told.cpu_utilisation:.1f} %, longest wait {told.longest_wait_s / _DAY_S:.2f} days")
    print("DAYS  DISTANCE  LARGEST GAP OF A TEAM")
    for days in asked.days:
        apart = gap(trace, found, 0.0, days * _DAY_S)
        worst = float((np.abs(apart.entitled - apart.delivered) / max(apart.delivered.sum(), 1.0)).max())
        print(f"{days:4g}  {100 * apart.distance:6.2f} %  {100 * worst:6.2f} % of the machine")


if __name__ == "__main__":
    main()
