"""Looks for garbage stop everything for a moment: none of them looks at very many objects that are new."""

import subprocess
import sys

# What many submitted jobs leave in a server's memory; prints how many new objects each kind of look may have met.
LOOK = """
import gc
from ares.app.processes import look_for_garbage_less_often

looks = [0, 0, 0]
look_for_garbage_less_often()

def count(phase, info):
    looks[info["generation"]] += phase == "stop"

gc.callbacks.append(count)
kept = [[number] for number in range(1_000_000)]
print(*(len(kept) // count if count else 0 for count in looks))
"""


def test_no_look_for_garbage_meets_very_many_new_objects() -> None:
    done = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=True)
    young, middle, whole = (int(count) for count in done.stdout.split())
    assert 5_000 < young < 15_000
    # Until 0.1 there was none among two million: the next one looked at all of them.
    assert 0 < middle < 60_000
    assert whole == 0


_ARRAYS = """
import resource, sys
import numpy as np
from ares.app.processes import keep_freed_memory
if sys.argv[1] == "kept":
    keep_freed_memory()
np.ones(200_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(100):
    np.ones(40_000) + np.ones(40_000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_memory_of_arrays_is_used_again() -> None:
    """Columns of 40,000 nodes, again and again: their pages are asked of the system once."""
    faults: dict[str, int] = {}
    for how in ("kept", "given back"):
        done = subprocess.run([sys.executable, "-c", _ARRAYS, how], capture_output=True, text=True, check=True)
        faults[how] = int(done.stdout)
    assert faults["kept"] < 1000, faults
    assert faults["kept"] < faults["given back"] / 5, faults
