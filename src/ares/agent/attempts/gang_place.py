"""A rank's place in its gang. The program reads it from variables at its start, and from a file after a resize."""

import signal

import msgspec
import structlog

from ares.agent.attempts.attempt import Attempt
from ares.agent.files.job_files import write_whole
from ares.agent.helper import frameworks
from ares.agent.helper.frameworks import ProcessPlace
from ares.model.link import GangPeer, WorldInfo

_log = structlog.get_logger(__name__)


class _WorldFile(msgspec.Struct, frozen=True, rename="camel"):
    """What ARES_WORLD_FILE holds; `ares.job.world` reads it."""

    generation: int
    rank: int
    world_size: int
    peers: tuple[GangPeer, ...]
    master_addr: str
    master_port: int


def place_of(world: WorldInfo, rank: int) -> int | None:
    """The rank's number in the program: its index among the ranks that take part now. None: it takes no part."""
    return next((place for place, peer in enumerate(world.peers) if peer.rank == rank), None)


def variables(world: WorldInfo, rank: int) -> dict[str, str]:
    """Variables that frameworks read. Every rank is a node of its own there, with local rank 0: it
    sees only its own GPUs, and programs take the GPU with the number of their local rank."""
    if not world.peers:
        return dict(_ALONE)
    world, place = _seen_by(world, rank)
    beside, size = [peer.rank for peer in world.peers if peer.node == world.peers[place].node], len(world.peers)
    where = ProcessPlace(
        rank=place, size=size, node_rank=place, nodes=size, address=world.peers[0].address, port=world.master_port
    )
    return {
        **frameworks.variables(where),
        "ARES_RANK_ID": str(rank),
        "ARES_LOCAL_RANK": str(beside.index(rank)),
        "ARES_LOCAL_SIZE": str(len(beside)),
    }


_ALONE = {
    "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "GROUP_RANK": "0", "NODE_RANK": "0",
    "ARES_RANK_ID": "0", "ARES_LOCAL_RANK": "0", "ARES_LOCAL_SIZE": "1",
}  # fmt: skip


def file_of(world: WorldInfo, rank: int) -> bytes:
    world, place = _seen_by(world, rank)
    return msgspec.json.encode(
        _WorldFile(
            generation=world.generation,
            rank=place,
            world_size=len(world.peers),
            peers=world.peers,
            master_addr=world.peers[0].address,
            master_port=world.master_port,
        )
    )


def _seen_by(world: WorldInfo, rank: int) -> tuple[WorldInfo, int]:
    """The world and the rank's index in it. A rank that the world does not name is alone in a world of its own."""
    place = place_of(world, rank)
    return (world, place) if place is not None else (WorldInfo(peers=(GangPeer(rank=rank, node="", address=""),)), 0)


def take_world(attempt: Attempt, world: WorldInfo) -> None:
    """Tells a running rank which ranks take part now, if this world is newer than the one it knows."""
    _, rank = attempt.key
    # A rank that is not in the new world is about to be stopped.
    if attempt.ended or world.generation <= attempt.world.generation or place_of(world, rank) is None:
        return
    attempt.world = world
    try:
        write_whole(attempt.folder.world, file_of(world, rank))
    except OSError as error:
        _log.warning("agent.world_not_told", job=attempt.start.ref.job, rank=rank, why=error.strerror)
        return
    gang = attempt.start.spec.gang
    if gang is not None and gang.resize_signal is not None and attempt.running is not None:
        # A program without a handler yet would die of the signal. It reads the file after it has set the handler.
        attempt.running.tell(signal.Signals[gang.resize_signal])
