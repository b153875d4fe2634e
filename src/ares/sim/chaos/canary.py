"""The jobs of a run. Each leaves marks by which it proves when it ran, under which fence, and how often."""

from pathlib import Path
from typing import NamedTuple

from ares.model.job import JobSpec, Resources, RetryPolicy, Toleration

# Label and taint of the canary machines: they run canary jobs only, and canary jobs run only there.
LABEL = "ares-chaos"
GRACE_S = 1.0

# A mark that can be made only once for a job and fence, a line for every beat, and the fence as the result.
_SCRIPT = r"""
mark="$MARKS/$ARES_JOB_ID.$ARES_FENCE"
now() { read -r up _ < /proc/uptime; echo "$up"; }
set -C
now > "$mark" || now >> "$MARKS/twice.$ARES_JOB_ID.$ARES_FENCE"
set +C
[ "$ARES_ATTEMPT" -le "$FAILS" ] && exit 3
beats=$BEATS
while [ "$beats" -gt 0 ]; do sleep 0.1; now >> "$mark"; beats=$((beats - 1)); done
echo "\"$ARES_FENCE\"" > "$ARES_RESULT_FILE"
"""


class Canary(NamedTuple):
    """A canary: so many tenths of a second, and so many attempts that fail first."""

    beats: int = 0
    fails: int = 0


def spec_of(wish: Canary, marks: Path, run: str, lease_s: float) -> JobSpec:
    """Runs on this run's machines, and nowhere else."""
    return JobSpec(
        command=("sh", "-c", _SCRIPT),
        name=f"canary-{wish.beats}-{wish.fails}",
        env={"MARKS": str(marks), "BEATS": str(wish.beats), "FAILS": str(wish.fails)},
        resources=Resources(cpu_milli=20, memory_mib=16),
        retry=RetryPolicy(limit=50, base_s=0.1, max_s=1.0, class_limits={"node-lost": 100, "staging": 50}),
        grace_s=GRACE_S,
        lease_s=lease_s,
        labels={LABEL: run},
        selector={LABEL: run},
        tolerations=(Toleration(key=LABEL, value=run),),
    )


class CanaryMark(NamedTuple):
    """One attempt as it left its marks: its fence, and when it began and last gave a sign."""

    job: str
    fence: str
    beats: tuple[float, ...]


class Marks(NamedTuple):
    attempts: tuple[CanaryMark, ...]
    # Started a second time under one fence: "JOB.FENCE".
    twice: tuple[str, ...]


def read_marks(folder: Path) -> Marks:
    twice = tuple(sorted(path.name.removeprefix("twice.") for path in folder.glob("twice.*")))
    attempts: list[CanaryMark] = []
    for path in sorted(folder.iterdir()):
        job, _, fence = path.name.partition(".")
        # Empty: it was killed between making the mark and writing to it.
        if job != "twice" and (beats := _beats(path)):
            attempts.append(CanaryMark(job, fence, beats))
    return Marks(tuple(attempts), twice)


def _beats(path: Path) -> tuple[float, ...]:
    """What a kill cut off in the middle of a line does not count."""
    lines = path.read_text(errors="replace").splitlines()
    return tuple(float(line) for line in lines if line.count(".") == 1 and line.replace(".", "").isdecimal())
