"""How good insights are: `python -m bench.insights [--quick]`.

Forecasts are made over the two public traces, every 15.5 hours, each from the 90 days before it, and compared with what
came. Anomalies are looked for minute by minute in numbers of a made-up cluster with days and weeks, bursts and noise:
weeks in which nothing is wrong tell the false alarms, and faults that are put in tell how many are seen, and how soon.
Where a trace is not there, it is said. Neither is a measure of the other: no trace has its faults written down.
"""

import argparse
import csv
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ares.core.insight.anomalies import HISTORY_MAX, Floats
from ares.core.insight.demand import STEP_S, DemandForecast, forecast
from ares.core.insight.watched import QUEUE, oddity
from ares.core.series import SeriesKey

DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data" / "easy"
TRACES = (("KTH-SP2.csv.gz", 100), ("SDSC-SP2-user-estimate.csv.gz", 128))
_WINDOW = 90 * 96
_EVERY = 62
_MINUTES_A_DAY = 1440


# ---- forecasts


def demand_of(file: Path) -> Floats:
    """Processors that jobs hold or wait for, by quarters of an hour."""
    with gzip.open(file, "rt") as source:
        rows = list(csv.DictReader(source))
    submit, run, procs, wait = (
        np.array([float(row[name]) for row in rows]) for name in ("submit", "run", "procs", "wait_easy_user_estimate")
    )
    times = np.concatenate([submit, submit + wait + run])
    order = np.argsort(times, kind="stable")
    level = np.cumsum(np.concatenate([procs, -procs])[order])
    grid = np.arange(int(submit.max() // STEP_S)) * float(STEP_S)
    place = np.searchsorted(times[order], grid, side="right") - 1
    return np.where(place >= 0, level[np.maximum(place, 0)], 0.0)


def judge_forecasts(name: str, capacity: int, hours: int, every: int) -> str:
    demand = demand_of(DATA / name)
    bound, steps = np.full(len(demand), float(capacity)), hours * 3600 // STEP_S
    made: list[tuple[DemandForecast, float, bool, float]] = []
    silent = 0
    for end in range(_WINDOW, len(demand) - steps, every):
        part = slice(end - _WINDOW, end)
        said = forecast(demand[part], bound[part], end - _WINDOW, hours * 3600.0)
        if isinstance(said, str):
            silent += 1
            continue
        share = float((demand[part] >= capacity).mean())
        made.append((said, demand[end - 1 + steps], bool(demand[end - 1] >= capacity), share))
    came = np.array([value >= capacity for _, value, _, _ in made])
    brier = np.mean((np.array([said.probability for said, _, _, _ in made]) - came) ** 2)
    plain = np.mean((np.array([share for _, _, _, share in made]) - came) ** 2)
    as_now = float(np.array([now != (value >= capacity) for _, value, now, _ in made]).mean())
    inside = np.mean([said.low <= value <= said.high for said, value, _, _ in made])
    return (
        f"{name} {hours} h: said {len(made)}, silent {silent}; Brier {brier:.3f}, share {plain:.3f}, "
        f"as now {as_now:.3f}; skill {1 - brier / min(plain, as_now):.2f}; in the range {inside:.1%}"
    )


# ---- anomalies


class Fault(NamedTuple):
    kind: str
    at: int
    lasts: int


FAULTS = ("machines lost", "failures", "slow store", "queue stuck", "denials")


def cluster(rng: np.random.Generator, days: int, faults: list[Fault]) -> dict[SeriesKey, Floats]:
    """Numbers of a cluster by minutes. Jobs come by day and week and in bursts, a queue fills and drains."""
    count = days * _MINUTES_A_DAY
    minute = np.arange(count)
    day = 1.0 + 0.6 * np.sin(2 * np.pi * (minute / _MINUTES_A_DAY - 0.3))
    week = np.where((minute // _MINUTES_A_DAY) % 7 >= 5, 0.5, 1.0)
    bursts = np.exp(_wander(rng, count, 0.99, 0.04))
    arrivals = rng.poisson(8.0 * day * week * bursts).astype(float)
    during = {fault.kind: np.zeros(count, bool) for fault in faults}
    for fault in faults:
        during[fault.kind][fault.at : fault.at + fault.lasts] = True
    off = np.zeros(count, bool)
    machines = np.where(during.get("machines lost", off), 170.0, 200.0)
    queue, running, started, waits = np.zeros(count), np.zeros(count), np.zeros(count), 0.0
    held = 150.0
    for now in range(count):
        stuck = during.get("queue stuck", off)[now]
        held -= rng.binomial(int(held), 1 / 20)
        waits += arrivals[now]
        starts = 0.0 if stuck else min(waits, max(0.0, machines[now] - held))
        held, waits = min(machines[now], held + starts), waits - starts
        queue[now], running[now], started[now] = waits, held, starts
    ends = running / 20
    bad = np.where(during.get("failures", off), 0.4, 0.03)
    slow = np.where(during.get("slow store", off), 12.0, 1.0)
    lost = np.where(np.diff(machines, prepend=200.0) < 0, 25.0, 0.0)
    return {
        ("ares_nodes", (("health", "ready"),)): machines,
        ("ares_jobs_running", (("pool", "default"),)): running,
        ("ares_queue_depth", ()): queue,
        ("ares_oldest_pending_seconds", ()): np.where(queue > 0, 60.0 * queue / np.maximum(1.0, ends), 0.0),
        ("ares_jobs_total:rate", (("state", "running"),)): started / 60.0,
        ("ares_jobs_total:rate", (("state", "failed"),)): rng.poisson(ends * bad) / 60.0,
        ("ares_lease_losses_total:rate", ()): (lost + rng.poisson(0.002, count)) / 60.0,
        ("ares_auth_denials_total:rate", (("reason", "role"),)): rng.poisson(
            np.where(during.get("denials", off), 6.0, 0.05)
        ) / 60.0,
        ("ares_store_latency_seconds:p99", ()): 0.03 * slow * np.exp(rng.normal(0, 0.3, count)),
        ("ares_loop_lag_seconds:p99", ()): 0.01 * np.exp(rng.normal(0, 0.5, count)),
        ("ares_submit_seconds:p99", ()): 0.05 * slow * np.exp(rng.normal(0, 0.3, count)),
    }  # fmt: skip


def _wander(rng: np.random.Generator, count: int, stays: float, scatter: float) -> Floats:
    found, level = np.zeros(count), 0.0
    for now, step in enumerate(rng.normal(0, scatter, count)):
        level = stays * level + step
        found[now] = level
    return found


def seen(numbers: dict[SeriesKey, Floats], minutes: range) -> Iterator[tuple[int, SeriesKey]]:
    """Episodes, as the product has them: a series that was odd within half an hour before is the same one."""
    last: dict[SeriesKey, int] = {}
    for now in minutes:
        for key, values in numbers.items():
            part = slice(max(0, now - HISTORY_MAX), now + 1)
            if oddity(key, values[part], numbers[QUEUE][part]) is not None:
                if now - last.get(key, -10_000) > 30:
                    yield now, key
                last[key] = now


def judge_anomalies(seeds: int, clean_days: int) -> list[str]:
    false, weeks = 0, 0.0
    for seed in range(seeds):
        numbers = cluster(np.random.default_rng(seed), 2 + clean_days, [])
        false += sum(1 for _ in seen(numbers, range(2 * _MINUTES_A_DAY, (2 + clean_days) * _MINUTES_A_DAY)))
        weeks += clean_days / 7
    lines = [f"weeks without a fault: {weeks:.1f}, false alarms {false}, {false / weeks:.2f} a week"]
    delays: list[int] = []
    missed: list[str] = []
    for seed in range(seeds):
        for number, kind in enumerate(FAULTS):
            rng = np.random.default_rng(1000 * seed + number)
            at = 2 * _MINUTES_A_DAY + int(rng.integers(0, 600))
            numbers = cluster(rng, 3, [Fault(kind, at, 40)])
            found = next((now for now, _ in seen(numbers, range(at, at + 40))), None)
            (missed.append(kind) if found is None else delays.append(found - at))
    tried = seeds * len(FAULTS)
    lines.append(
        f"faults: {tried}, seen {len(delays)} ({len(delays) / tried:.0%}), median delay {np.median(delays):.0f} min, "
        f"longest {max(delays, default=0)} min; missed {missed or 'none'}"
    )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    for line in judge_anomalies(2 if quick else 8, 3 if quick else 7):
        print(line)
    for name, capacity in TRACES:
        if not (DATA / name).exists():
            print(f"{name}: not measured, the trace is not at {DATA}")
            continue
        for hours in (2, 6):
            print(judge_forecasts(name, capacity, hours, 8 * _EVERY if quick else _EVERY))


if __name__ == "__main__":
    main()
