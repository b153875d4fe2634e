"""One scheduling cycle: waiting jobs in order, each to its best place, and a reason for every class left out."""

import heapq

from ares.core.queue.order import Rank, job_of
from ares.core.schedule.actions.allocate import Allocation
from ares.core.schedule.plan import LeftOut, Placed, Plan
from ares.core.schedule.profile import Profile
from ares.core.schedule.snapshot import Snapshot

# (level, rank of the next job, position of its class, how many of its jobs are placed)
_Next = tuple[int, Rank, int, int]


def cycle(snapshot: Snapshot, profile: Profile, now: float) -> Plan:
    """The same inputs give the same plan. A class that does not fit is skipped whole; others go on."""
    allocation = Allocation(snapshot, profile)
    order: list[_Next] = [(one.shape.level, one.heads[0], at, 0) for at, one in enumerate(snapshot.classes)]
    heapq.heapify(order)
    placed: list[Placed] = []
    left: list[LeftOut] = []
    more = False
    while order and len(placed) < profile.max_placements_per_cycle:
        level, rank, at, done = order[0]
        waiting = snapshot.classes[at]
        placement = allocation.place(waiting.shape)
        if placement is None:
            heapq.heappop(order)
            reason = allocation.explain(waiting.shape)
            left.append(LeftOut(class_id=waiting.id, jobs=waiting.jobs - done, first_job=job_of(rank), reason=reason))
            continue
        placed.append(Placed(job=job_of(rank), placements=(placement,)))
        done += 1
        if done < len(waiting.heads):
            heapq.heapreplace(order, (level, waiting.heads[done], at, done))
        else:
            heapq.heappop(order)
            more = more or done < waiting.jobs
    return Plan(at=now, placed=tuple(placed), left=tuple(left), more=more or bool(order))
