"""A process that plays seeds: `python -m ares.sim.world.worker FIRST COUNT STEP MUTANT CASE WORLDS`.

MUTANT and CASE may be empty.
"""

import sys

from ares.sim.world.seeds import work


def _say(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    first, count, step, mutant, case, worlds = sys.argv[1:]
    work(int(first), int(count), int(step), mutant, case, worlds == "federation", _say)
