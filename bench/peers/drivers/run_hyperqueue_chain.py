"""HyperQueue's own local cluster: one job whose N tasks follow each other, each runs `true`."""

import json
import os
import sys
import time
from pathlib import Path

from hyperqueue import LocalCluster
from hyperqueue.cluster import WorkerConfig
from hyperqueue.job import Job
from spent import cpu_s


def run(client, folder: Path, count: int) -> tuple[float, float]:
    """The seconds and the CPU seconds of a chain. Its client asks once a second, so the last task notes the time."""
    job, ended = Job(max_fails=0, default_workdir=str(folder)), folder / f"ended-{count}"
    last = None
    for _ in range(count - 1):
        last = job.program(["true"], stdout=None, stderr=None, deps=() if last is None else (last,))
    job.program(["sh", "-c", f"date +%s.%N >{ended}"], stdout=None, stderr=None, deps=(last,))
    began, cpu = time.time(), cpu_s()
    submitted = client.submit(job)
    if failed := client.connection.wait_for_jobs((submitted.id,), lambda _: None):
        sys.exit(f"hyperqueue: failed jobs: {failed}")
    return float(ended.read_text()) - began, cpu_s() - cpu


def main(jobs: int, folder: Path) -> None:
    with LocalCluster() as cluster:
        cluster.start_worker(WorkerConfig(cores=os.cpu_count() or 2))
        client = cluster.client()
        run(client, folder, 20)
        seconds, cpu = run(client, folder, jobs)
    print(json.dumps({"jobs": jobs, "seconds": seconds, "cpu_s": cpu}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
