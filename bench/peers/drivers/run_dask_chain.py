"""Dask's own local cluster, a worker process with two threads: a chain of N tasks, each runs `true`."""

import json
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

from dask.distributed import Client, LocalCluster
from spent import cpu_s


def link(_before: object) -> tuple[float, float]:
    """When it began and ended, by the clock of the one worker."""
    began = time.monotonic()
    subprocess.run(["true"], check=True)
    return began, time.monotonic()


def run(client: Client, count: int) -> tuple[float, float, list[float]]:
    """The seconds and the CPU seconds of a chain, and how long it took from one task's end to the next one's begin."""
    began, cpu = time.monotonic(), cpu_s()
    last: object = None
    links = []
    for number in range(count):
        last = client.submit(link, last, key=f"{count}-{number}", pure=False)
        links.append(last)
    links[-1].result()
    seconds, spent = time.monotonic() - began, cpu_s() - cpu
    times = client.gather(links)
    return seconds, spent, sorted(after[0] - before[1] for before, after in pairwise(times))


def main(jobs: int, folder: Path) -> None:
    options = {"n_workers": 1, "threads_per_worker": 2, "dashboard_address": None, "local_directory": str(folder)}
    with LocalCluster(host="127.0.0.1", **options) as cluster, Client(cluster) as client:
        run(client, 20)
        seconds, cpu, gaps = run(client, jobs)
    between = {"p50_s": gaps[len(gaps) // 2], "p99_s": gaps[int(len(gaps) * 0.99)]}
    print(json.dumps({"jobs": jobs, "seconds": seconds, "cpu_s": cpu, **between}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
