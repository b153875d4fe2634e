"""torchrun on every rank, by static rendezvous: a node's rank there is the rank's place here, always."""

from ares.core.refusal import Refusal
from ares.core.runtime.kind import WATCH, Runtime, RuntimePlan, refused
from ares.core.runtime.processes import on_one_machine, procs_of, threads
from ares.core.runtime.verdict import root_of
from ares.model.job import JobSpec, RuntimeWish
from ares.model.link import Start


def _admit(spec: JobSpec, wish: RuntimeWish) -> Refusal | None:
    elastic = spec.gang is not None and spec.gang.min_ranks is not None
    if not spec.command:
        return refused("torchrun starts the job's command, and the job has none", "name it, as in: -- python train.py")
    if wish.elastic and spec.image is not None:
        message = "an elastic gang in an image is not supported: what begins torchrun anew needs the node's own Python"
        return refused(message, "leave out image, or gang.minRanks and runtime.elastic")
    if elastic == wish.elastic:
        return None
    if elastic:
        message = "the gang may shrink and grow, and runtime.elastic is not set: torchrun would wait for lost ranks"
        return refused(message, "set runtime.elastic: true, or leave out gang.minRanks")
    return refused("runtime.elastic is for gangs that may shrink and grow", "set gang.minRanks, or leave out elastic")


def _plan(start: Start, wish: RuntimeWish) -> RuntimePlan:
    procs, command = procs_of(start, wish), start.spec.command
    python = command[0].rpartition("/")[2].startswith("python")
    launcher = (command[0], "-m", "torch.distributed.run") if python else ("torchrun",)
    env = {**(_interfaces(start) if on_one_machine(start) else {}), **threads(start, procs)}
    # One restart layer: ours. Of torchrun's own only the start is wanted.
    common = (f"--nproc_per_node={procs}", "--max_restarts=0", "--monitor_interval=0.1", "--no_python")
    if start.spec.image is not None and start.spec.gang is None:
        # No other rank has to know the port, and torchrun finds one.
        return RuntimePlan(launcher=(*launcher, "--standalone", *common), bare=True, procs=procs, env=env)
    port = "@FIRST1@" if wish.elastic else "@PORT@"
    meeting = (
        "--nnodes=@SIZE@", "--node_rank=@PLACE@", "--rdzv_backend=static",
        f"--rdzv_id={start.ref.job}.{start.ref.fence}", "--master_addr=@ADDRESS@", f"--master_port={port}",
    )  # fmt: skip
    if start.spec.image is not None:
        return RuntimePlan(launcher=(*launcher, *meeting, *common), bare=True, procs=procs, env=env)
    return RuntimePlan(
        launcher=(*launcher, *meeting, *common, WATCH),
        # In an elastic gang the ranks meet at the port that all know, and torch at another.
        everywhere=wish.elastic,
        ports=1 if wish.elastic else 0,
        elastic=wish.elastic,
        procs=procs,
        env=env,
    )


def _interfaces(start: Start) -> dict[str, str]:
    """What gloo and NCCL would take for the machine's address is not the one that the ranks know."""
    return {name: "lo" for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME") if name not in start.spec.env}


TORCH = Runtime(_admit, _plan, root_of)
