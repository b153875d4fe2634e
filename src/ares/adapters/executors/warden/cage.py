"""Starting a command with less than its slot has: a process of its own gives up what it must, then becomes it."""

import contextlib
import os
import resource
import signal
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, NoReturn

from ares.adapters.executors.warden import box, kernel, launch, rights, seccomp
from ares.adapters.executors.warden.inherit import go_first

_ERROR_BYTES_MAX: Final = 4000
_ALL_SIGNALS: Final = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})


class Cage(NamedTuple):
    """What an attempt is given beyond what its slot gives to all: `hardened` if that does not yet."""

    sandbox: bool
    hardened: bool
    offline: bool
    # The attempt's own directories, and who they belong to; -1: the agent's own user.
    folders: tuple[str, ...]
    uid: int
    # Whether its slot is ended last where memory is short.
    spared: bool


def spawn(cage: Cage, terms: box.Terms, argv: list[str], env: Mapping[str, str], cwd: str, null: int, log: int) -> int:
    """As `launch.spawn`, and says what could not be done instead of starting with less."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    try:
        pid = os.fork()
    except OSError as error:
        os.close(reader)
        os.close(writer)
        raise ValueError(f"cannot run {argv[0]}: {error.strerror}") from None
    if pid == 0:
        _become(cage, terms, argv, env, cwd, (null, log, writer))
    os.close(writer)
    with open(reader, "rb") as file:
        trouble = file.read()
    if trouble:
        os.waitpid(pid, 0)
        raise ValueError(trouble.decode(errors="replace"))
    return pid


def _become(
    cage: Cage, terms: box.Terms, argv: list[str], env: Mapping[str, str], cwd: str, files: tuple[int, int, int]
) -> NoReturn:
    null, log, writer = files
    try:
        os.setsid()
        if not cage.spared:
            go_first()
        enter(cage, terms)
        # Again, and only now: the directory it was in before lies outside.
        try:
            os.chdir(cwd)
        except OSError as error:
            raise ValueError(f"cannot enter the working directory {cwd}: {error.strerror}") from None
        path = launch.locate(argv[0], env)
        for number in _ALL_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for target, fd in enumerate((null, log, log)):
            os.dup2(fd, target)
        launch.become(path, argv, env)
    except BaseException as error:
        os.write(writer, str(error).encode(errors="replace")[:_ERROR_BYTES_MAX])
    finally:
        os._exit(127)


def enter(cage: Cage, terms: box.Terms) -> None:
    """Raises ValueError that names the step the kernel refused."""
    for what, step in _steps(cage, terms):
        try:
            step()
        except OSError as error:
            raise ValueError(f"cannot be kept apart: {what}: {error.strerror}") from None


def _steps(cage: Cage, terms: box.Terms) -> list[tuple[str, Callable[[], None]]]:
    groups = box.device_groups(terms) if cage.uid >= 0 else []
    steps: list[tuple[str, Callable[[], None]]] = []
    if not cage.hardened:
        steps += [("mount-namespace", kernel.own_mounts), ("read-only-kernel", box.protect_kernel)]
    if cage.offline:
        steps.append(("net-namespace", offline))
    if cage.sandbox:
        steps += [
            ("ipc-namespace", lambda: kernel.unshare(kernel.NEWIPC)),
            ("uts-namespace", lambda: kernel.unshare(kernel.NEWUTS)),
            ("mount-namespace", lambda: box.enclose(terms, cage.folders, cage.uid >= 0)),
        ]
    steps.append(("limits", _final_limits))
    if not cage.hardened:
        steps.append(("no-capabilities", rights.no_capabilities_later))
    if cage.uid >= 0:
        steps.append(("uid", lambda: _hand_over(cage, groups)))
    steps.append(("no-new-privs", rights.no_new_privileges))
    if cage.sandbox:
        steps.append(("seccomp", seccomp.refuse_calls))
    return steps


def _hand_over(cage: Cage, groups: list[int]) -> None:
    for folder in cage.folders:
        rights.give(folder, cage.uid)
    rights.become(cage.uid, groups)


def offline() -> None:
    kernel.unshare(kernel.NEWNET)
    kernel.loopback_up()


def _final_limits() -> None:
    """It cannot raise them again."""
    for which in (resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_CORE):
        soft, _ = resource.getrlimit(which)
        resource.setrlimit(which, (soft, soft))


# ---- what this machine allows


def tried(terms: box.Terms, folder: str, uid: int, namespaced: bool) -> list[str]:
    """The parts that work here, each tried in this process, which is of no use after that."""
    steps: list[tuple[tuple[str, ...], Callable[[], None]]] = []
    if namespaced:
        steps += [
            (("private-proc",), kernel.private_proc),
            (("read-only-kernel",), box.protect_kernel),
            (("net-namespace",), offline),
            (("ipc-namespace",), lambda: kernel.unshare(kernel.NEWIPC)),
            (("uts-namespace",), lambda: kernel.unshare(kernel.NEWUTS)),
            (
                ("mount-namespace", "private-tmp", "private-dev", "read-only-root"),
                lambda: box.enclose(terms, (folder,), uid >= 0),
            ),
        ]
    steps.append((("no-capabilities",), rights.no_capabilities_later))
    if uid >= 0:
        steps.append((("uid-per-tenant",), lambda: rights.become(uid, box.device_groups(terms))))
    steps += [(("no-new-privs",), rights.no_new_privileges), (("seccomp",), _filtered)]
    found = list[str]()
    for names, step in steps:
        with contextlib.suppress(OSError):
            step()
            found += names
    return found


def _filtered() -> None:
    seccomp.refuse_calls()
    try:
        kernel.unshare(kernel.NEWUSER)
    except PermissionError:
        return
    raise OSError("the filter let a new user namespace through")
