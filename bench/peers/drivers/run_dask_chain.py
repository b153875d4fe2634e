"""Dask's own local cluster, a worker process with two threads: a chain of N tasks, each runs `true`."""

import json
import subprocess
import sys
import time
from pathlib import Path

from dask.distributed import Client, LocalCluster
from spent import cpu_s


def link(_before: object) -> int:
    return subprocess.run(["true"], check=True).returncode


def run(client: Client, count: int) -> tuple[float, float]:
    """The seconds and the CPU seconds of a chain."""
    began, cpu = time.monotonic(), cpu_s()
    last: object = None
    links = []
    for number in range(count):
        last = client.submit(link, last, key=f"{count}-{number}", pure=False)
        links.append(last)
    links[-1].result()
    return time.monotonic() - began, cpu_s() - cpu


def main(jobs: int, folder: Path) -> None:
    options = {"n_workers": 1, "threads_per_worker": 2, "dashboard_address": None, "local_directory": str(folder)}
    with LocalCluster(host="127.0.0.1", **options) as cluster, Client(cluster) as client:
        run(client, 20)
        seconds, cpu = run(client, jobs)
    print(json.dumps({"jobs": jobs, "seconds": seconds, "cpu_s": cpu}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
