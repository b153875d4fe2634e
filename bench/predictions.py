"""Predictions beside users' own estimates: EASY, the shortest first, on second halves of logs and on copies of them.

All that predictions go by was chosen on first halves. A copy counts as worse where the whole interval of the ratio of
bounded slowdowns, drawn again over parts of the log, lies above 1.
"""

import random
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ares.check.replay.trace import Trace
from ares.sim.traces.engine import replay
from ares.sim.traces.formats import read
from ares.sim.traces.outcome import Floats, Outcome
from ares.sim.traces.policies import policy
from ares.sim.traces.summary import bounded_slowdowns, summary
from bench.copies import Copy, asked_for, copies, second_half
from bench.report import Row, judged, missing
from bench.scale import Scale

_DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data"
_LOGS = (
    ("KTH-SP2", "easy/KTH-SP2.csv.gz"),
    ("SDSC-SP2", "easy/SDSC-SP2-user-estimate.csv.gz"),
    ("Lublin-256", "easy/lublin_256.swf.gz"),
)
_USERS, _PREDICTED = policy("easy-sjbf"), policy("easy-sjbf@predicted")
# Parts of a log that are drawn, and how often.
_PARTS, _DRAWS = 24, 1000
# With predictions no wait is longer than so many times the longest with users' estimates.
_LONGEST = 2.0


class CopyVerdict(NamedTuple):
    """Bounded slowdowns with predictions over those with users' estimates, and four of five draws of that."""

    ratio: float
    low: float
    high: float
    longest: float


async def rows(scale: Scale, folder: Path) -> list[Row]:
    del folder
    found: list[Row] = []
    for name, file in _LOGS:
        if not (_DATA / file).is_file():
            found.append(missing("predict", name, f"no log beside the project (expected at ../shared/data/{file})"))
            continue
        log = read(_DATA / file)
        log = asked_for(log) if log.jobs[0].spec.time_limit_s is None else log
        found += _of_log(name, second_half(log, scale.logged))
    return found


def _of_log(name: str, log: Trace) -> Iterator[Row]:
    verdicts: list[CopyVerdict] = []
    for copy in copies(log):
        row, verdict = _of_copy(name, copy)
        verdicts.append(verdict)
        yield row
    ratios = sorted(verdict.ratio for verdict in verdicts)
    worse = sum(verdict.low > 1.0 for verdict in verdicts)
    middle, longest = statistics.median(ratios), max(verdict.longest for verdict in verdicts)
    yield Row(
        "predict", f"{name}: all {len(verdicts)} copies", f"{middle:.2f} of users' estimates", middle,
        f"{ratios[0]:.2f} to {ratios[-1]:.2f}", None, "none worse beyond noise", judged(not worse),
        f"{worse} worse beyond noise; longest wait at most {longest:.2f} times",
    )  # fmt: skip


def _of_copy(name: str, copy: Copy) -> tuple[Row, CopyVerdict]:
    users, predicted = replay(copy.trace, _USERS), replay(copy.trace, _PREDICTED)
    verdict = judge(users, predicted)
    before, after = summary(users), summary(predicted)
    waits = (
        f"longest {after.longest_wait_s / 3600:.1f} h to {before.longest_wait_s / 3600:.1f} h, "
        f"p99.9 {after.p999_wait_s / 3600:.1f} h to {before.p999_wait_s / 3600:.1f} h"
    )
    row = Row(
        "predict", f"{name}, {copy.name}, {len(copy.trace.jobs):,} jobs: slowdown", f"{after.bounded_slowdown:.1f}",
        after.bounded_slowdown, f"users' estimates: {before.bounded_slowdown:.1f}", verdict.ratio,
        f"<= 1 within noise, longest <= {_LONGEST:g} times",
        judged(verdict.low <= 1.0 and verdict.longest <= _LONGEST),
        f"{verdict.low:.2f} to {verdict.high:.2f} (80 %); {waits}",
    )  # fmt: skip
    return row, verdict


def judge(users: Outcome, predicted: Outcome) -> CopyVerdict:
    """Jobs that follow each other are drawn together: they are slow together."""
    parts = np.arange(len(users.jobs.id)) * _PARTS // len(users.jobs.id)
    sums = [np.bincount(parts, weights=_slowdowns(outcome)) for outcome in (predicted, users)]
    chance, count, ratios = random.Random(1), len(sums[0]), list[float]()
    for _ in range(_DRAWS):
        drawn = [chance.randrange(count) for _ in range(count)]
        of_predicted, of_users = (float(each[drawn].sum()) for each in sums)
        ratios.append(of_predicted / of_users if of_users else 1.0)
    ratios.sort()
    longest = summary(predicted).longest_wait_s / max(summary(users).longest_wait_s, 1.0)
    whole = float(sums[0].sum()) / float(sums[1].sum())
    return CopyVerdict(whole, ratios[_DRAWS // 10], ratios[-_DRAWS // 10], longest)


def _slowdowns(outcome: Outcome) -> Floats:
    return np.nan_to_num(bounded_slowdowns(outcome), nan=0.0)
