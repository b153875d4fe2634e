"""A process that plays seeds: `python -m ares.sim.world.worker FIRST COUNT STEP [MUTANT]`."""

import sys

from ares.sim.world.seeds import work


def _say(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    first, count, step, *mutant = sys.argv[1:]
    work(int(first), int(count), int(step), "".join(mutant), _say)
