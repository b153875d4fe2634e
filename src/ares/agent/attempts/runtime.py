"""An attempt of a job with a runtime: its helper instead of its command, and what the helper says of its end."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import structs

from ares.agent.attempts.gang_place import file_of, place_of
from ares.agent.attempts.workspace import Folder
from ares.agent.files.job_files import read_bounded, write_whole
from ares.agent.helper.orders import command_of, filled
from ares.core.runtime.kind import RuntimePlan
from ares.core.runtime.kinds import plan_of
from ares.model.link import Rank, Start
from ares.model.state import ExitInfo
from ares.ports.executor import Launch

_NOTE_BYTES_MAX = 8 * 1024
# As long as a gang without a limit of its own may take to assemble.
_MEET_S = 300.0
# At least so long a rank whose program failed waits for a smaller gang, and so much longer than a lost node is noticed.
_ELASTIC_S, _SMALLER_S = 20.0, 5.0


class NoRuntime(Exception):
    """This node does not have the runtime that the job asks for."""


class _Orders(msgspec.Struct, frozen=True, rename="camel"):
    """What `ares.agent.helper.orders` reads."""

    # Whole, under the names of `RuntimePlan`.
    plan: dict[str, Any]
    command: tuple[str, ...]
    key: str
    folder: str
    meet_s: float
    elastic_s: float


class EndNote(msgspec.Struct, frozen=True):
    """What the helper says of its end. It is the job's word: it can only blame the job's own ranks, or its node."""

    message: Annotated[str, msgspec.Meta(max_length=2000)] = ""
    failure: Literal["", "staging"] = ""
    blames: Rank | None = None


_NOTHING = EndNote()


def equipped(launch: Launch, start: Start, folder: Folder, dead_after_s: float) -> Launch:
    """Writes what the attempt finds beside it: the world of its gang, and the orders of its helper, which is then what
    is launched. `dead_after_s` is the node's lease, as those of the other ranks are. Raises OSError and NoRuntime."""
    gang = start.spec.gang
    if gang is not None:
        write_whole(folder.world, file_of(start.world, start.placement.rank))
    plan = plan_of(start)
    if plan is None:
        return launch
    if isinstance(plan, str):
        raise NoRuntime(plan)
    if plan.bare:
        return _bare(launch, start, plan)
    meet_s = _MEET_S if gang is None else gang.assembly_s
    elastic_s = max(_ELASTIC_S, start.spec.lease_s + dead_after_s + _SMALLER_S)
    orders = _Orders(structs.asdict(plan), start.spec.command, start.key, folder.path, meet_s, elastic_s)
    write_whole(folder.runtime, msgspec.json.encode(orders))
    return msgspec.structs.replace(launch, argv=command_of("main", folder.runtime))


def _bare(launch: Launch, start: Start, plan: RuntimePlan) -> Launch:
    """The launcher itself as the main process, with what is known of the gang on this node."""
    world, place = start.world, place_of(start.world, start.placement.rank) or 0
    known = {
        "PLACE": str(place),
        "SIZE": str(max(1, len(world.peers))),
        "ADDRESS": (world.peers[0].address if world.peers else "") or "127.0.0.1",
        "PORT": str(world.master_port),
    }
    env = dict(zip(plan.env, filled(list(plan.env.values()), known), strict=True))
    argv = (*filled(list(plan.launcher), known), *start.spec.command)
    return msgspec.structs.replace(launch, argv=argv, env={**launch.env, **env})


def noted(ended: ExitInfo, start: Start, folder: Folder) -> tuple[ExitInfo, int | None]:
    """The end with what the helper says of it, and the rank that it blames."""
    if start.spec.runtime is None or ended.failure not in ("exit", "signal"):
        return ended, None
    try:
        note = msgspec.json.decode(read_bounded(folder.ended, _NOTE_BYTES_MAX), type=EndNote)
    except (OSError, ValueError, RecursionError):
        note = _NOTHING
    message = "; ".join(text for text in (note.message, ended.message) if text)
    return msgspec.structs.replace(ended, message=message, failure=note.failure or ended.failure), note.blames
