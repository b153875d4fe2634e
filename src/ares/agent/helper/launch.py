"""How a helper begins a process. Imports little: the launcher is begun before the rest of the helper is there."""

import contextlib
import os
import signal
import socket

from ares.agent.helper.orders import HelperOrders, HelperScene, command_of

# The variable by which a process tells to which start of the program it belongs.
START = "ARES_HELPER_START"
# What Python ignores and programs expect to die of.
_DEFAULTS = (signal.SIGPIPE, signal.SIGXFSZ)
# A kernel reads no more of a script's first line.
_FIRST_LINE_MAX = 120
# In the place of ssh for a launcher. The command is in a file of its own, for a pipe keeps only short lines together.
_RSH = """#!/bin/sh
place=${{1##*-}}
case $place in ""|*[!0-9]*) echo "ares-rsh: $1 is no rank of this job" >&2; exit 255 ;; esac
[ -p {answer}"$place" ] || {{ echo "ares-rsh: $1 is no other rank of this job" >&2; exit 255; }}
shift
printf '%s' "$*" > {asked}"$place" && printf '{{"call":%d}}\\n' "$place" > {ends}
read -r code < {answer}"$place"
exit "${{code:-255}}"
"""


def begin(argv: "list[str]", env: "dict[str, str]", *, apart: bool = False, output: int | None = None) -> int:
    """The process id. `apart`: signals to the rank's group do not reach it. Raises OSError."""
    files = [] if output is None else [(os.POSIX_SPAWN_DUP2, output, 1)]
    return os.posix_spawnp(argv[0], argv, env, file_actions=files, setsid=apart, setsigmask=(), setsigdef=_DEFAULTS)


def free_ports(count: int) -> list[int]:
    """Ports that are free now. They are held all at once, so that none is found twice."""
    held = [socket.socket() for _ in range(count)]
    for holder in held:
        holder.bind(("", 0))
    ports = [holder.getsockname()[1] for holder in held]
    for holder in held:
        holder.close()
    return ports


def prepare(orders: HelperOrders, size: int) -> None:
    """What launchers find beside the rank: programs, each a single word to them, found by PATH, and of each machine
    its own; and the pipes by which they speak to the helper."""
    boot = command_of("watch")
    line = f"#!{boot[0]} -IS\n"
    if " " in boot[0] or len(line) > _FIRST_LINE_MAX:
        text = f'#!/bin/sh\nexec {" ".join(map(_quoted, boot))} "$@"\n'
    else:
        text = f"{line}import sys; sys.argv.insert(1, {boot[5]!r}); {boot[4]}\n"
    _write(f"{orders.folder}/ares-watch", text)
    _pipe(orders.ends)
    for name, text in orders.plan["files"].items():
        _write(f"{orders.folder}/{name}", text, 0o600)
    if orders.plan["calls"]:
        words = {"asked": orders.asked, "answer": orders.answer}
        quoted = {name: _quoted(path(0)[:-1]) for name, path in words.items()}
        _write(f"{orders.folder}/ares-rsh", _RSH.format(ends=_quoted(orders.ends), **quoted))
        for place in range(1, size):
            _pipe(orders.answer(place))


def begin_early(scene: HelperScene) -> int | None:
    """The launcher that calls the other ranks takes as long to begin as they do: it need not wait for them. None where
    it cannot be, or only later."""
    plan = scene.orders.plan
    if not plan["calls"] or plan["service_first"] or scene.world.place:
        return None
    try:
        return begin([*scene.texts(plan["launcher"]), *scene.orders.command], {**scene.environment(), START: "0"})
    except OSError:
        # Tried again when there is a way to say why.
        return None


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _pipe(path: str) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkfifo(path, 0o600)


def _write(path: str, text: str, mode: int = 0o700) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8") as file:
        file.write(text)
