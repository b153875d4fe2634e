"""Which stretches of a job's way a transition completes, for its trace."""

from ares.model.state import TERMINAL, JobState

# (span, begins, ends)
Stretch = tuple[str, float, float]


def stretches(before: JobState, after: JobState, now: float) -> list[Stretch]:
    """Waiting ends with the grant, staging with the start, running with the end; the commit is now."""
    found: list[Stretch] = []
    if after.bound_at is not None and after.attempt > before.attempt:
        found.append(("job.queue", after.queued_at, after.bound_at))
    if after.bound_at is not None and after.started_at is not None and before.started_at != after.started_at:
        found.append(("job.stage", after.bound_at, after.started_at))
    if after.phase in TERMINAL and before.phase not in TERMINAL and after.ended_at is not None:
        found.append(("job.run", after.started_at or after.ended_at, after.ended_at))
        found.append(("job.commit", after.ended_at, now))
    return [(name, began, max(began, ended)) for name, began, ended in found]
