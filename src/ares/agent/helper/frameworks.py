"""Variables by which frameworks find a process's place: torch, accelerate, DeepSpeed, Lightning, Horovod, JAX.

Little is imported: each process of a job waits for that."""


class ProcessPlace:
    """One process among all of a job. A node is a rank of the gang, whatever machine it is on."""

    __slots__ = ("address", "local_rank", "local_size", "node_rank", "nodes", "port", "rank", "size")

    def __init__(
        self,
        rank: int = 0,
        size: int = 1,
        local_rank: int = 0,
        local_size: int = 1,
        node_rank: int = 0,
        nodes: int = 1,
        address: str = "",
        port: int = 0,
    ) -> None:
        self.rank = rank
        self.size = size
        self.local_rank = local_rank
        self.local_size = local_size
        self.node_rank = node_rank
        self.nodes = nodes
        self.address = address
        self.port = port


def variables(place: ProcessPlace) -> dict[str, str]:
    named: dict[str, int | str] = {
        # torch.distributed, and all that reads what torchrun sets: accelerate, Lightning, DeepSpeed.
        "RANK": place.rank,
        "WORLD_SIZE": place.size,
        "LOCAL_RANK": place.local_rank,
        "LOCAL_WORLD_SIZE": place.local_size,
        "GROUP_RANK": place.node_rank,
        "GROUP_WORLD_SIZE": place.nodes,
        "ROLE_RANK": place.rank,
        "ROLE_WORLD_SIZE": place.size,
        "NODE_RANK": place.node_rank,
        # DeepSpeed and Horovod.
        "LOCAL_SIZE": place.local_size,
        "CROSS_RANK": place.node_rank,
        "CROSS_SIZE": place.nodes,
        "HOROVOD_RANK": place.rank,
        "HOROVOD_SIZE": place.size,
        "HOROVOD_LOCAL_RANK": place.local_rank,
        "HOROVOD_LOCAL_SIZE": place.local_size,
        "HOROVOD_CROSS_RANK": place.node_rank,
        "HOROVOD_CROSS_SIZE": place.nodes,
        # jax.distributed.initialize()
        "JAX_PROCESS_ID": place.rank,
        "JAX_NUM_PROCESSES": place.size,
    }
    if place.local_size > 1:
        # Each process would take all GPUs of the rank.
        named["JAX_LOCAL_DEVICE_IDS"] = place.local_rank
    if place.port:
        named |= {
            "MASTER_ADDR": place.address,
            "MASTER_PORT": place.port,
            "JAX_COORDINATOR_ADDRESS": f"{place.address}:{place.port}",
        }
    return {name: str(value) for name, value in named.items()}


# Rank, size, and the same on its node: of Open MPI, and of Hydra.
_MPI = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
)


def by_mpi(env: dict[str, str]) -> "tuple[str, str, str, str] | tuple[()]":
    """The variables by which a launcher of MPI told the process its place; none, when it was none."""
    return next((names for names in _MPI if all(name in env for name in names)), ())


def found(env: dict[str, str], nodes: int, address: str, port: int) -> ProcessPlace:
    """The place that a launcher gave a process: torchrun by its own variables, those of MPI by theirs."""
    names = by_mpi(env)
    if names:
        rank, size, local_rank, local_size = (int(env[name]) for name in names)
        return ProcessPlace(rank, size, local_rank, local_size, rank // max(1, size // nodes), nodes, address, port)
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")
    rank, size, local_rank, local_size, node_rank = (int(env.get(name, "0")) for name in names)
    port = int(env.get("MASTER_PORT", port))
    return ProcessPlace(rank, size, local_rank, local_size, node_rank, nodes, address, port)
