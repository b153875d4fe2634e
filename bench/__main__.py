"""`python -m bench`: measures Ares side by side with the machine and with peers, and prints ratios."""

import argparse
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import uvloop

from bench import (
    budget,
    dashboard,
    etcd,
    federation,
    images,
    latency,
    launches,
    logs,
    losses,
    machine,
    masking,
    memory,
    neighbours,
    noops,
    pauses,
    planners,
    pods,
    predictions,
    replays,
    replicas,
    scheduling,
    shipping,
    staging,
    starvation,
    submissions,
    tenants,
    transfers,
    workflows,
)
from bench.processes import NotMeasured
from bench.report import Row, missing, show, write_json, write_page
from bench.scale import FULL, QUICK, Scale

Benchmark = Callable[[Scale, Path], Coroutine[Any, Any, list[Row]]]

TITLES = {
    "a": "durable submissions by REST",
    "b": "no-op jobs with real processes",
    "c": "submit-to-start latency",
    "d": "the same on etcd",
    "e": "memory for queued jobs",
    "f": "the scheduling core",
    "g": "replays of traces",
    "h": "lost nodes",
    "i": "many tenants",
    "j": "secrets in output",
    "k": "a noisy neighbour",
    "l": "pauses while plans are made",
    "m": "a wide job among small ones",
    "n": "workflows",
    "o": "shipping a project",
    "p": "several planners",
    "q": "replicas that share the work",
    "r": "jobs in images",
    "s": "a federation of three clusters",
    "mpi": "launches of MPI programs",
    "kube": "pods on a real API server of Kubernetes",
    "transfer": "bulk bytes over a shared link",
    "data": "datasets and checkpoints",
    "logs": "lines of output at their readers",
    "ui": "the dashboard, and what watching costs",
    "predict": "predictions beside users' estimates",
    "budget": "CPU time of a job, a submission and a placement",
}


def main() -> int:
    asked = _arguments()
    scale = QUICK if asked.quick else FULL

    def noop_rows(scale: Scale, folder: Path) -> Coroutine[Any, Any, list[Row]]:
        return noops.rows(scale, folder, peers=not asked.no_peers)

    def workflow_rows(scale: Scale, folder: Path) -> Coroutine[Any, Any, list[Row]]:
        return workflows.rows(scale, folder, peers=not asked.no_peers)

    def budget_rows(scale: Scale, folder: Path) -> Coroutine[Any, Any, list[Row]]:
        return budget.rows(scale, folder, record=asked.record)

    benchmarks: dict[str, Benchmark] = {
        "a": submissions.rows, "b": noop_rows, "c": latency.rows, "d": etcd.rows, "e": memory.rows,
        "f": scheduling.rows, "g": replays.rows, "h": losses.rows, "i": tenants.rows,
        "j": masking.rows, "k": neighbours.rows, "l": pauses.rows, "m": starvation.rows,
        "n": workflow_rows,
        "o": shipping.rows,
        "p": planners.rows,
        "q": replicas.rows,
        "r": images.rows,
        "s": federation.rows,
        "mpi": launches.rows,
        "kube": pods.rows,
        "transfer": transfers.rows,
        "data": staging.rows,
        "logs": logs.rows,
        "ui": dashboard.rows,
        "predict": predictions.rows,
        "budget": budget_rows,
    }  # fmt: skip
    about = machine.describe() + (", quick counts" if asked.quick else "")
    rows: list[Row] = []
    for letter in asked.only:
        print(f"bench: ({letter}) {TITLES[letter]}", file=sys.stderr)
        rows += _measure(letter, benchmarks[letter], scale)
    show(rows)
    if asked.json:
        write_json(asked.json, about, rows)
    if asked.write_docs:
        write_page(f"{about}, {time.strftime('%Y-%m-%d')}", rows)
    return 0


def _measure(letter: str, benchmark: Benchmark, scale: Scale) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="ares-bench-") as folder:
        try:
            return uvloop.run(benchmark(scale, Path(folder)))
        except NotMeasured as error:
            return [missing(letter, TITLES[letter], error)]
        except Exception as error:
            # One that breaks must not hide what the others found.
            traceback.print_exc()
            return [missing(letter, TITLES[letter], repr(error))]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", type=_letters, default=list(TITLES), metavar="a,b", help="these benchmarks only")
    parser.add_argument("--quick", action="store_true", help="small counts: shows that it works, not how fast it is")
    parser.add_argument("--no-peers", action="store_true", help="do not install or run other systems")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to FILE as well")
    parser.add_argument("--record", action="store_true", help="keep the budget's figures in bench/budget.json")
    parser.add_argument("--write-docs", action="store_true", help="replace the measured table in docs/performance.md")
    return parser.parse_args()


def _letters(text: str) -> list[str]:
    letters = text.split(",")
    if unknown := [letter for letter in letters if letter not in TITLES]:
        raise argparse.ArgumentTypeError(f"no benchmark {', '.join(unknown)}; there are {', '.join(TITLES)}")
    return letters


if __name__ == "__main__":
    sys.exit(main())
