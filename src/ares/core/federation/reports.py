"""How a cluster's reports are ordered, and what their age says about it.

A report is ordered by (incarnation, seq) of its cluster, and its age is counted from when it arrived, by the reader's
own monotonic clock. What a report says about the time of day decides nothing.
"""

from typing import Literal

from ares.core.federation.merge import Version

# UNREACHABLE is how a silent cluster is shown. It is no stage: its jobs stay its own.
Reach = Literal["REACHABLE", "LATE", "UNREACHABLE"]
REPORT_EVERY_S = 2.0
_LATE_S = 3 * REPORT_EVERY_S
UNREACHABLE_S = 15.0


def supersedes(version: Version, known: Version | None) -> bool:
    """Whether a report that arrives is to replace the one that is known."""
    return known is None or version > known


def reach(age_s: float) -> Reach:
    if age_s >= UNREACHABLE_S:
        return "UNREACHABLE"
    return "LATE" if age_s >= _LATE_S else "REACHABLE"
