"""What a runtime is: which jobs it takes, what it does on each rank, and which rank made the others fail."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ares.core.refusal import Refusal
from ares.model.base import Record
from ares.model.job import JobSpec, RuntimeWish
from ares.model.link import Start
from ares.model.state import RankEnd

# Texts of a plan may have tokens for what is known only on the node, and changes with the gang:
# @PLACE@ and @SIZE@ of the rank, @ADDRESS@ and @PORT@ where the first rank is met, @OWN@ the rank's address,
# @PORT1@ and so on the rank's own ports, @EACH@ the one that a process of a service has for itself, @FIRST1@ and so on
# those of the first rank, @FOLDER@ where the plan's files are, @HOSTS@ names of all ranks for a
# launcher, with the processes of each, @PROCS@ the processes of all, @WATCH@ the program that starts one process, sets
# the variables that frameworks read, and tells of its end.
WATCH = "@WATCH@"


class RuntimePlan(Record, frozen=True):
    """What the helper, the main process of a rank, does there. Standard library only, so it is told in plain values."""

    # Before the job's command, which has no tokens. With `meets` the first rank starts it when all ranks have come;
    # without, each rank does. With `everywhere` the ranks meet, and each starts it, anew in each world of the gang.
    launcher: tuple[str, ...] = ()
    meets: bool = False
    # Without a helper: the launcher is the rank's main process. For jobs in images, where no Python of Ares is.
    bare: bool = False
    everywhere: bool = False
    # Started before the program, on the first rank and on the others: a command that ends with 0 when its service is
    # ready, and leaves it running. It goes with the slot.
    service_first: tuple[str, ...] = ()
    service: tuple[str, ...] = ()
    # The service is one process for each of `procs`, and stays: it is ready when its own port listens.
    service_stays: bool = False
    # The version that the service's program must have at least, as it says by --version.
    service_least: tuple[int, ...] = ()
    # The number of the own port on which the service listens for as long as it runs.
    service_port: int = 0
    # The number of the first rank's port at which the services of the others join it: they begin when it listens.
    service_joins: int = 0
    # How many ports a rank picks for itself.
    ports: int = 0
    # The launcher runs commands on the other ranks by `ares-rsh`.
    calls: bool = False
    # When the gang changes, the program is started anew with the new world.
    elastic: bool = False
    # Processes of each rank.
    procs: int = 1
    env: dict[str, str] = {}
    # Written beside the rank before all else, by name. They have no tokens.
    files: dict[str, str] = {}


Admit = Callable[[JobSpec, RuntimeWish], Refusal | None]
Plan = Callable[[Start, RuntimeWish], RuntimePlan | str | None]
Classify = Callable[[Sequence[RankEnd]], RankEnd]


class Runtime(NamedTuple):
    # Why the job cannot have this runtime.
    admit: Admit
    # None: the command is started as it is. A text: why it cannot be started.
    plan: Plan
    # The end that made the others fail: of one rank or more, each of which failed.
    classify: Classify


def refused(message: str, fix: str) -> Refusal:
    return Refusal(code="runtime-invalid", message=message, fix=fix, path="$.spec.runtime")
