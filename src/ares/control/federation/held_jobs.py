"""All jobs of the global plane that are in this cluster, with how far they have come: what healing compares."""

from ares.control.state.view import View
from ares.core.federation.buckets import JobProgress, bucket_of
from ares.model.cluster_link import ClusterWelcome, HeldJob, ListedBucket
from ares.model.state import TERMINAL, JobState


def held_jobs(view: View, *, settled: bool = False) -> list[tuple[str, JobProgress, HeldJob]]:
    """Without those whose end the global plane is known to have, unless it may have forgotten that."""
    found: list[tuple[str, JobProgress, HeldJob]] = []
    for job, record in view.kept.taken.items():
        taken = record.possession.taken
        if taken is None or (record.settled and not settled):
            continue
        entry = view.entries.get(job)
        if entry is None and record.settled:
            continue
        if taken.stage == "ACCEPTED" or entry is None:
            found.append((job, JobProgress(taken.epoch, stage="ACCEPTED"), _accepted(job, taken.epoch)))
            continue
        state = entry.state
        # While its processes may be there it has not ended: the global plane waits for word that they are gone.
        says = "stopping" if taken.stage == "STOPPING" else "ended" if is_over(state) else "confirmed"
        held = HeldJob(job=job, says=says, epoch=taken.epoch, fence=state.fence, seq=state.seq)
        # The first entry is its submission, which is known: so far it is where it was confirmed.
        begun = state.seq > 1 or taken.stage != "CONFIRMED"
        known = JobProgress(taken.epoch, state.fence, state.seq, taken.stage) if begun else JobProgress(taken.epoch)
        found.append((job, known, held))
    return found


def is_over(state: JobState) -> bool:
    return state.phase in TERMINAL and not state.lingering


def listed_buckets(view: View, welcome: ClusterWelcome) -> list[ListedBucket]:
    """What the global plane asked to be listed."""
    by_place: dict[int, list[HeldJob]] = {place: [] for place in welcome.differing}
    held = [job for _, _, job in held_jobs(view, settled=welcome.rebuild)]
    for job in (*held, *_refused_jobs(view)):
        if (place := bucket_of(job.job)) in by_place:
            by_place[place].append(job)
    last = welcome.differing[-1] if welcome.differing else None
    return [ListedBucket(number=place, jobs=tuple(jobs), last=place == last) for place, jobs in by_place.items()]


def _refused_jobs(view: View) -> list[HeldJob]:
    """Jobs that this cluster gave back or never took. They are listed and not compared: where the global plane agrees
    it has them elsewhere, and where it does not, word of it was lost."""
    refused = [
        (job, record.possession.refused) for job, record in view.kept.taken.items() if record.possession.taken is None
    ]
    return [HeldJob(job=job, says="refused", epoch=epoch) for job, epoch in refused if epoch]


def _accepted(job: str, epoch: int) -> HeldJob:
    return HeldJob(job=job, says="accepted", epoch=epoch)
