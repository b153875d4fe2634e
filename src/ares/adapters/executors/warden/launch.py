"""Starting the user's command."""

import errno
import os
import signal
import stat
from collections.abc import Mapping, Sequence
from typing import Any, Final

DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_ALL_SIGNALS: Final = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})


def spawn(argv: list[str], env: Mapping[str, str], actions: Sequence[Any], *, other_user: bool = False) -> int:
    """Starts the command in its own session, with the files that the actions of posix_spawn make. Errors name the
    command and what was tried. `other_user`: the command runs as the caller's real user, which differs from the
    effective one."""
    path = locate(argv[0], env)
    try:
        return os.posix_spawn(
            path, argv, env, file_actions=actions, setsid=True, setsigmask=(), setsigdef=_ALL_SIGNALS,
            resetids=other_user,
        )  # fmt: skip
    except OSError as error:
        why = _SPAWN_ERRORS.get(error.errno or 0, error.strerror)
        raise ValueError(f"cannot run {path}: {why}") from None


_SPAWN_ERRORS: Final = {
    errno.ENOENT: "no such file, or the interpreter in its first line is missing",
    errno.EACCES: "permission denied: it is not an executable file for this user",
    errno.ENOEXEC: "not a program this machine can run; a script needs an interpreter in its first line",
    errno.E2BIG: "its arguments and environment are too large for this system",
    errno.EAGAIN: "the limit on processes is reached",
    errno.ENOMEM: "out of memory",
}


def locate(command: str, env: Mapping[str, str]) -> str:
    """The path of the command. It is looked up in the job's PATH, not in the agent's."""
    if "/" in command:
        return command
    path = env.get("PATH", DEFAULT_PATH)
    for folder in path.split(":"):
        candidate = f"{folder or '.'}/{command}"
        if os.access(candidate, os.X_OK) and stat.S_ISREG(os.stat(candidate).st_mode):
            return candidate
    raise ValueError(f"command not found: {command} (looked in PATH={path})")
