"""MPI without ssh: the launcher on the first rank, and the daemon it asks for on each other, in that rank's slot.

Open MPI, or by `flavour: mpich` MPICH and its kin, which have the launcher Hydra."""

from ares.core.refusal import Refusal
from ares.core.runtime.kind import WATCH, Runtime, RuntimePlan, refused
from ares.core.runtime.processes import on_one_machine, procs_of, threads
from ares.core.runtime.verdict import root_of
from ares.model.job import JobSpec, RuntimeWish
from ares.model.link import Start

# Daemons and processes are kept to what the slot allows: no process reads another's memory there.
_ENV = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_plm": "rsh",
    "OMPI_MCA_plm_rsh_agent": "ares-rsh",
    "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
    "OMPI_MCA_orte_leave_session_attached": "1",
    # The slot has its CPUs already; several ranks of one machine would all be bound to its first ones.
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
}
# Only the variables that Hydra makes itself go with its daemons: each rank has its own of the others, and a directory.
_HYDRA = (
    "mpiexec.hydra", "-launcher", "rsh", "-launcher-exec", "ares-rsh", "-localhost", "@ADDRESS@", "-genvnone",
    "-disable-hostname-propagation", "-wdir", "/proc/self/cwd", "-hosts", "@HOSTS@", "-n", "@PROCS@", WATCH,
)  # fmt: skip
_HYDRA_LOOPBACK = {"FI_TCP_IFACE": "lo", "FI_SOCKETS_IFACE": "lo", "UCX_NET_DEVICES": "lo"}
_LOOPBACK = {"OMPI_MCA_oob_tcp_if_include": "lo", "OMPI_MCA_btl_tcp_if_include": "lo"}


def _admit(spec: JobSpec, wish: RuntimeWish) -> Refusal | None:
    if wish.elastic or (spec.gang is not None and spec.gang.min_ranks is not None):
        message = "MPI programs have the ranks they began with, and the job asks for an elastic gang"
        return refused(message, "leave out gang.minRanks and runtime.elastic")
    if wish.flavour not in ("", "openmpi", "mpich"):
        return refused(
            f"no flavour of MPI is called {wish.flavour!r}", "write openmpi or mpich, or leave out runtime.flavour"
        )
    return None


def _plan(start: Start, wish: RuntimeWish) -> RuntimePlan:
    procs, one, hydra = procs_of(start, wish), on_one_machine(start), wish.flavour == "mpich"
    env = (_HYDRA_LOOPBACK if one else {}) if hydra else {**_ENV, **(_LOOPBACK if one else {})}
    return RuntimePlan(
        launcher=_HYDRA if hydra else ("mpirun", "--host", "@HOSTS@", "-np", "@PROCS@", WATCH),
        meets=True,
        calls=True,
        # Where programs meet that are no MPI programs: the hub has the other.
        ports=1,
        procs=procs,
        env={**env, **threads(start, procs)},
    )


MPI = Runtime(_admit, _plan, root_of)
