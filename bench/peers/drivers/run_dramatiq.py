"""Dramatiq with Redis: each message starts `true`, waits for it and counts itself as done.

The worker processes import this very file to find the actor.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import dramatiq
import redis
from dramatiq.brokers.redis import RedisBroker
from spent import cpu_s

PORT = 16379
START_S = 30.0
PROCESSES, THREADS = os.cpu_count() or 2, 8

broker = RedisBroker(host="127.0.0.1", port=PORT)
dramatiq.set_broker(broker)
counter = redis.Redis(host="127.0.0.1", port=PORT, socket_timeout=10)


@dramatiq.actor(max_retries=0)
def noop() -> None:
    subprocess.run(["true"], check=True)
    counter.incr("done")


def until_done(count: int, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while int(counter.get("done") or 0) < count:
        if time.monotonic() > deadline:
            sys.exit(f"dramatiq: {count} messages were not done within {timeout_s:g} s")
        time.sleep(0.01)


def start(folder: Path) -> None:
    server = shutil.which("redis-server")
    if server is None:
        sys.exit("redis-server is missing")
    with (folder / "redis.log").open("wb") as log:
        subprocess.Popen(
            [server, "--port", str(PORT), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)], stdout=log
        )
    deadline = time.monotonic() + START_S
    while True:
        try:
            counter.ping()
            break
        except redis.ConnectionError:
            if time.monotonic() > deadline:
                sys.exit("redis did not start")
            time.sleep(0.05)
    worker = Path(sys.executable).with_name("dramatiq")
    numbers = ["--processes", str(PROCESSES), "--threads", str(THREADS)]
    with (folder / "worker.log").open("wb") as log:
        subprocess.Popen(
            [str(worker), "run_dramatiq", *numbers, "--path", str(Path(__file__).parent)], stdout=log, stderr=log
        )


def main(jobs: int, folder: Path) -> None:
    start(folder)
    for _ in range(50):
        noop.send()
    until_done(50, START_S)
    began, cpu = time.monotonic(), cpu_s()
    for _ in range(jobs):
        noop.send()
    until_done(jobs + 50, 600.0)
    seconds = time.monotonic() - began
    print(json.dumps({"jobs": jobs, "seconds": seconds, "cpu_s": cpu_s() - cpu}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
