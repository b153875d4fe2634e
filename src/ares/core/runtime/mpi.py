"""Open MPI without ssh: mpirun on the first rank, and the daemon it asks for on each other, in that rank's slot."""

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
_LOOPBACK = {"OMPI_MCA_oob_tcp_if_include": "lo", "OMPI_MCA_btl_tcp_if_include": "lo"}


def _admit(spec: JobSpec, wish: RuntimeWish) -> Refusal | None:
    if wish.elastic or (spec.gang is not None and spec.gang.min_ranks is not None):
        message = "MPI programs have the ranks they began with, and the job asks for an elastic gang"
        return refused(message, "leave out gang.minRanks and runtime.elastic")
    if wish.flavour == "mpich":
        message = "MPICH is not supported yet: in trials 2 of 5 runs hung at their end"
        fix = (
            "build with Open MPI and leave out runtime.flavour; on one machine start mpiexec.hydra by your own command"
        )
        return refused(message, fix)
    if wish.flavour not in ("", "openmpi"):
        return refused(f"no flavour of MPI is called {wish.flavour!r}", "write openmpi, or leave out runtime.flavour")
    return None


def _plan(start: Start, wish: RuntimeWish) -> RuntimePlan:
    procs = procs_of(start, wish)
    return RuntimePlan(
        launcher=("mpirun", "--host", "@HOSTS@", "-np", "@PROCS@", WATCH),
        meets=True,
        calls=True,
        # Where programs meet that are no MPI programs: the hub has the other.
        ports=1,
        procs=procs,
        env={**_ENV, **(_LOOPBACK if on_one_machine(start) else {}), **threads(start, procs)},
    )


MPI = Runtime(_admit, _plan, root_of)
