"""HyperQueue's own local cluster: one job of N tasks, each runs `true`."""

import json
import sys
import time
from pathlib import Path

from hyperqueue import LocalCluster
from hyperqueue.cluster import WorkerConfig
from hyperqueue.job import Job

SLOTS = 64


def run(client, folder: Path, count: int) -> None:
    job = Job(max_fails=0, default_workdir=str(folder))
    for _ in range(count):
        job.program(["true"], stdout=None, stderr=None)
    client.wait_for_jobs([client.submit(job)], raise_on_error=True)


def main(jobs: int, folder: Path) -> None:
    with LocalCluster() as cluster:
        cluster.start_worker(WorkerConfig(cores=SLOTS))
        client = cluster.client()
        run(client, folder, SLOTS)
        began = time.monotonic()
        run(client, folder, jobs)
        print(json.dumps({"jobs": jobs, "seconds": time.monotonic() - began}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
