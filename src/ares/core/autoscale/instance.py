"""What becomes of a machine that was bought: one step, from what is known of it."""

from typing import Literal, NamedTuple

from ares.model.scaling import InstanceRecord, ScalingPool

# "create": tell the provider, again if need be; "drain": let its node be emptied; "delete": give it back;
# "forget": there is nothing left of it.
Doing = Literal["create", "created", "ready", "drain", "delete", "forget", "wait"]


class Known(NamedTuple):
    """What is known of a machine now. `listed` None: its provider was not asked since it was created."""

    listed: bool | None
    ready: bool
    # Something is held on its node, or claimed for later.
    busy: bool
    idle_s: float
    drained: bool
    # Its pool has more than it must have.
    spare: bool
    # How long its agent has not been heard of.
    silent_s: float = 0.0
    # Why its provider will take it back soon; empty when it will not.
    warned: str = ""


class InstanceStep(NamedTuple):
    doing: Doing
    why: str = ""
    # The machine could not be had: its pool pauses before it asks for the next.
    failed: bool = False


def step(instance: InstanceRecord, pool: ScalingPool | None, known: Known, now: float) -> InstanceStep:
    """Every step may be repeated: a server that dies before it was written does it again."""
    waited = now - instance.since
    if instance.state == "leaving":
        return _leaving(known)
    if pool is None:
        return InstanceStep("drain" if known.ready else "delete", "its pool is not configured any more")
    if instance.state == "wanted":
        if waited > pool.launch_s:
            return InstanceStep("delete", f"it was not created within {pool.launch_s:g} s", failed=True)
        return InstanceStep("create")
    if known.warned and known.ready:
        # What runs there is told to save its work while there is time.
        return InstanceStep("drain", f"its provider takes it back: {known.warned}")
    if known.listed is False:
        return InstanceStep("forget", "its provider does not have it any more", failed=instance.state == "created")
    if instance.state == "created":
        if known.ready:
            return InstanceStep("ready")
        if waited > pool.register_s:
            return InstanceStep("delete", f"its agent did not register within {pool.register_s:g} s", failed=True)
        return InstanceStep("wait")
    if not known.ready:
        silent = known.silent_s > pool.register_s and not known.busy
        return InstanceStep("delete", "its agent is gone") if silent else InstanceStep("wait")
    if known.spare and not known.busy and known.idle_s > pool.idle_s:
        return InstanceStep("drain", f"nothing was held on it for {known.idle_s:.0f} s")
    return InstanceStep("wait")


def _leaving(known: Known) -> InstanceStep:
    if known.listed is False:
        return InstanceStep("forget")
    if known.busy:
        return InstanceStep("wait" if known.drained else "drain", "it is to be given back")
    return InstanceStep("delete")


def pause_s(pool: ScalingPool, failures: int) -> float:
    """How long the pool waits after so many failures in a row."""
    return min(pool.backoff_max_s, pool.backoff_s * 2 ** (failures - 1)) if failures else 0.0


def room(pool: ScalingPool, have: int) -> int:
    """How many machines more the pool may have: by its bound, and by what it may cost an hour."""
    most = pool.nodes_max
    if pool.budget_hour and pool.node_hour:
        most = min(most, int(pool.budget_hour / pool.node_hour + 1e-9))
    return max(0, most - have)
