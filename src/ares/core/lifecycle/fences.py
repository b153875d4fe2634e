"""Fences: what a grant and a revocation make of them, and the refusal of what carries another one."""

from ares.core.refusal import Refusal
from ares.model.state import Fence, JobState


def granted(fence: Fence, epoch: int) -> Fence:
    return Fence(epoch=max(fence.epoch, epoch), counter=fence.counter + 1)


def revoked(fence: Fence) -> Fence:
    # Only grants take a new epoch, so the revoked attempt's own fence can be told from the new one.
    return Fence(epoch=fence.epoch, counter=fence.counter + 1)


def revoked_fence(state: JobState) -> Fence:
    """The fence of the attempt that the latest revocation took away."""
    return Fence(epoch=state.fence.epoch, counter=state.fence.counter - 1)


def stale(state: JobState, fence: Fence) -> Refusal:
    message = f"job {state.id}: the report carries fence {fence}, the job's fence is {state.fence}"
    return Refusal(code="stale-fence", message=message)
