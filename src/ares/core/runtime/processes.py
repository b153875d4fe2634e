"""How many processes a rank has, and how they share what it holds."""

from ares.model.job import RuntimeWish
from ares.model.link import Start


def procs_of(start: Start, wish: RuntimeWish) -> int:
    """By the GPUs that the rank was given: an alternative may give it others than it asked for first."""
    return wish.procs if isinstance(wish.procs, int) else max(1, len(start.placement.gpus))


def threads(start: Start, procs: int) -> dict[str, str]:
    """The rank's CPUs, shared by its processes, unless the job says otherwise."""
    if "OMP_NUM_THREADS" in start.spec.env:
        return {}
    return {"OMP_NUM_THREADS": str(max(1, start.placement.cpu_milli // 1000 // procs))}


def on_one_machine(start: Start) -> bool:
    """Whether all ranks are met on the machine's own addresses, so that no other interface may be used."""
    return bool(start.world.peers) and all(
        peer.address.startswith("127.") or peer.address in ("localhost", "::1") for peer in start.world.peers
    )
