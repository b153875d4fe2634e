"""The runtimes there are, by name. Plugins add theirs when a process starts."""

from ares.core.refusal import Refusal
from ares.core.runtime.julia import JULIA
from ares.core.runtime.kind import Runtime, RuntimePlan, refused
from ares.core.runtime.mpi import MPI
from ares.core.runtime.ray import RAY
from ares.core.runtime.torch import TORCH
from ares.core.runtime.verdict import root_of
from ares.model.job import JobSpec, RuntimeWish
from ares.model.link import Start

# Those that need no helper in the job's slot.
_IN_IMAGES = ("command", "torch")
# Signals that launchers leave to the program.
_WORDS = ("SIGUSR1", "SIGUSR2")


def _plain(spec: JobSpec, wish: RuntimeWish) -> Refusal | None:
    if wish.procs is None and not wish.elastic:
        return None
    message = "runtime command starts the command as it is, once for each rank"
    return refused(message, "leave out runtime.procs and runtime.elastic, or choose another runtime")


def _as_it_is(start: Start, wish: RuntimeWish) -> None: ...


COMMAND = Runtime(_plain, _as_it_is, root_of)
RUNTIMES: dict[str, Runtime] = {"command": COMMAND, "julia": JULIA, "mpi": MPI, "ray": RAY, "torch": TORCH}


def of(spec: JobSpec) -> Runtime:
    """What a job is started by. One that is not here starts nothing: `admit` and `plan_of` say so."""
    return COMMAND if spec.runtime is None else RUNTIMES.get(spec.runtime.kind, COMMAND)


def admit(spec: JobSpec) -> Refusal | None:
    """Why the job cannot have the runtime it asks for."""
    wish = spec.runtime
    if wish is None:
        return None
    found = RUNTIMES.get(wish.kind)
    if found is None:
        return refused(unknown(wish.kind), "name one of those, or leave out runtime")
    for name, given, kind in (("flavour", wish.flavour, "mpi"), ("headCpus", wish.head_cpus, "ray")):
        if given not in ("", None) and wish.kind != kind:
            return refused(f"runtime.{name} is for {kind}, and the job asks for {wish.kind}", f"leave out {name}")
    if wish.procs == "gpus" and not spec.resources.gpus:
        message = "runtime.procs is one process for each GPU, and a rank has no GPUs"
        return refused(message, "ask for GPUs, or give a number of processes")
    if spec.image is not None and wish.kind not in _IN_IMAGES:
        message = f"runtime {wish.kind} in an image is not supported: its helper needs the node's own Python"
        return refused(message, "leave out image, use runtime torch, or start the launcher by your own command")
    return _ends(spec, wish) or found.admit(spec, wish)


def _ends(spec: JobSpec, wish: RuntimeWish) -> Refusal | None:
    """A signal that is meant as word to the program, and that a launcher takes for the order to end."""
    asked = (
        ("warn", None if spec.warn is None else spec.warn.signal),
        ("checkpointSignal", spec.preemption.checkpoint_signal),
        ("resizeSignal", None if spec.gang is None else spec.gang.resize_signal),
    )
    for name, given in asked:
        if wish.kind != "command" and given not in (None, *_WORDS):
            message = f"{name} is {given}, and launchers of runtime {wish.kind} end the program when they get that"
            return refused(message, f"set {name} to {' or '.join(_WORDS)}")
    return None


def unknown(kind: str) -> str:
    return f"no runtime is called {kind!r}; there are {', '.join(sorted(RUNTIMES))}"


def plan_of(start: Start) -> RuntimePlan | str | None:
    """What the rank's helper does; None when the command is started as it is; a text when the node cannot."""
    wish = start.spec.runtime
    if wish is None:
        return None
    found = RUNTIMES.get(wish.kind)
    return f"this node lacks the plugin: {unknown(wish.kind)}" if found is None else found.plan(start, wish)
