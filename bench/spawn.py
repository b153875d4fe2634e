"""Spawns and reaps `true` by posix_spawn, some at a time: the machine's own rate of starting jobs.

`python -m bench.spawn COUNT AT_A_TIME` prints processes per second and CPU milliseconds of each.
A process of its own, so that it may reap any child.
"""

import os
import shutil
import sys
import time


def main(count: int, at_a_time: int) -> None:
    path = shutil.which("true") or "/bin/true"
    began = time.perf_counter()
    for number in range(count):
        if number >= at_a_time:
            os.waitpid(-1, 0)
        os.posix_spawn(path, ["true"], {})
    for _ in range(min(count, at_a_time)):
        os.waitpid(-1, 0)
    took = time.perf_counter() - began
    spent = sum(os.times()[:4])
    print(count / took, spent * 1000 / count)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
