"""The agents of a run: processes of our own, each with its own home and behind its own proxy."""

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

from ares.sim.chaos.proxy import Proxy

_TERM_S = 8.0
_TAIL_LINES = 12
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


def _die_with_us() -> None:
    """A run that is killed leaves no agent behind: the kernel sees to it. One system call, nothing is allocated."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class OwnAgent:
    """Started by the main thread only: an agent dies with the thread that started it."""

    def __init__(self, name: str, run: str, folder: Path, marks: Path, server: str, tls_ca: str, seed: int) -> None:
        self.name = name
        self.proxy = Proxy(server, seed)
        self.home = folder / name
        self.log = folder / f"{name}.log"
        self.frozen = False
        self._run = run
        self._marks = marks
        self._tls_ca = tls_ca
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, join_token: str = "") -> None:
        """For the first time, with a token to join by, or again."""
        if self.alive:
            return
        self.home.mkdir(mode=0o700, exist_ok=True)
        settings = {
            "node.pool": "ares-chaos",
            "node.labels": f"ares-chaos={self._run}",
            "node.taints": f"ares-chaos={self._run}:no-schedule",
            "node.tls_ca": self._tls_ca,
            # Canaries prove by their marks when they ran: of all files of this user, that folder alone is lent to them.
            "node.sandbox.writable": str(self._marks),
            "node.sandbox.uids": "none",
        }
        command = [sys.executable, "-m", "ares", "agent", "--name", self.name, "--server", self.proxy.address]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, *(f"--set={key}={value}" for key, value in settings.items() if value)],
                env={**_plain_environment(), "ARES_HOME": str(self.home), "ARES_JOIN_TOKEN": join_token},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                # A person's Ctrl-C is for us: agents are told in their turn.
                start_new_session=True,
                preexec_fn=_die_with_us,  # noqa: PLW1509
            )  # fmt: skip
        self.frozen = False

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        if self._process is not None and self.alive:
            self._process.kill()
            self._process.wait()
        self.frozen = False

    def freeze(self) -> None:
        self._send(signal.SIGSTOP)
        self.frozen = True

    def wake(self) -> None:
        self._send(signal.SIGCONT)
        self.frozen = False

    def end(self) -> None:
        """Politely, then not."""
        if self._process is None or not self.alive:
            return
        self.wake()
        self._process.terminate()
        try:
            self._process.wait(_TERM_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(lines[-_TAIL_LINES:])

    def _send(self, number: signal.Signals) -> None:
        if self._process is not None and self.alive:
            self._process.send_signal(number)


def job_processes(home: Path) -> dict[int, str]:
    """Processes of jobs that run under a home of ours, by their environment: pid -> "JOB FENCE"."""
    found: dict[int, str] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            raw = (folder / "environ").read_bytes()
        except OSError:
            continue
        if b"ARES_JOB_ID=" not in raw:
            continue
        lines = (line.partition("=") for line in raw.decode(errors="replace").split("\0"))
        env = {name: value for name, _, value in lines}
        if Path(env.get("ARES_WORKDIR", "/")).is_relative_to(home):
            found[int(folder.name)] = f"{env['ARES_JOB_ID']} {env.get('ARES_FENCE', '')}"
    return found


def signal_all(processes: dict[int, str], number: signal.Signals) -> None:
    for pid in processes:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _plain_environment() -> dict[str, str]:
    """Nothing of this user's own Ares, above all no token."""
    return {name: value for name, value in os.environ.items() if not name.startswith("ARES_")}
