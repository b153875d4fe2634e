"""Ray tasks on one node: each starts `true` and waits for it."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from spent import cpu_s

# One worker process per core did better than 64 here: a worker is a whole Python.
WORKERS = int(os.environ.get("ARES_BENCH_RAY_WORKERS") or os.cpu_count() or 2)


def main(jobs: int, folder: Path) -> None:
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    ray.init(
        address="local", num_cpus=WORKERS, include_dashboard=False, log_to_driver=False,
        logging_level="error", _temp_dir=str(folder), _node_ip_address="127.0.0.1",
    )  # fmt: skip

    @ray.remote
    def noop() -> int:
        return subprocess.run(["true"], check=True).returncode

    ray.get([noop.remote() for _ in range(200)])
    began, cpu = time.monotonic(), cpu_s()
    ray.get([noop.remote() for _ in range(jobs)])
    seconds = time.monotonic() - began
    print(json.dumps({"jobs": jobs, "seconds": seconds, "cpu_s": cpu_s() - cpu}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
