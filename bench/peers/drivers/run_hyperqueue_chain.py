"""HyperQueue's own local cluster: one job whose N tasks follow each other, each runs `date`."""

import json
import os
import sys
import time
from itertools import pairwise
from pathlib import Path

from hyperqueue import LocalCluster
from hyperqueue.cluster import WorkerConfig
from hyperqueue.job import Job
from spent import cpu_s


def run(client, folder: Path, count: int) -> tuple[float, float, list[float]]:
    """The seconds and the CPU seconds of a chain, and how long it took from one task to the next. Its client asks once
    a second, so the tasks note the time."""
    job, notes = Job(max_fails=0, default_workdir=str(folder)), folder / f"notes-{count}"
    notes.mkdir()
    last = None
    for number in range(count):
        note = str(notes / str(number))
        last = job.program(["date", "+%s.%N"], stdout=note, stderr=None, deps=() if last is None else (last,))
    began, cpu = time.time(), cpu_s()
    submitted = client.submit(job)
    if failed := client.connection.wait_for_jobs((submitted.id,), lambda _: None):
        sys.exit(f"hyperqueue: failed jobs: {failed}")
    spent = cpu_s() - cpu
    times = [float((notes / str(number)).read_text()) for number in range(count)]
    return times[-1] - began, spent, sorted(after - before for before, after in pairwise(times))


def main(jobs: int, folder: Path) -> None:
    with LocalCluster() as cluster:
        cluster.start_worker(WorkerConfig(cores=os.cpu_count() or 2))
        client = cluster.client()
        run(client, folder, 20)
        seconds, cpu, gaps = run(client, folder, jobs)
    between = {"p50_s": gaps[len(gaps) // 2], "p99_s": gaps[int(len(gaps) * 0.99)]}
    print(json.dumps({"jobs": jobs, "seconds": seconds, "cpu_s": cpu, **between}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
