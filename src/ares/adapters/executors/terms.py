"""What the operator says about sandboxes, what the machine allows, and what that makes of one start."""

import marshal
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ares.adapters.executors.process import Caged
from ares.model.isolation import LEVELS, Isolation, stronger
from ares.model.node import Containment
from ares.ports.executor import Launch, Sandbox

# Keys to other machines, and to this one.
HIDDEN: Final = (
    "/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/ssh", "/etc/kubernetes", "/var/lib/kubelet",
    "~/.ssh", "~/.aws", "~/.azure", "~/.config/gcloud", "~/.kube", "~/.docker", "~/.gnupg", "~/.netrc",
)  # fmt: skip
_PROCESS: Final = frozenset({"pid-namespace", "private-proc", "read-only-kernel", "no-capabilities", "no-new-privs"})
_SANDBOX: Final = _PROCESS | {"mount-namespace", "ipc-namespace", "uts-namespace", "seccomp"}
_UID: Final = "uid-per-tenant"
_NETWORK: Final = "net-namespace"


@dataclass(frozen=True, slots=True)
class SandboxTerms:
    # What every attempt gets, also one that does not ask for it, as far as the machine allows.
    level: Isolation = "process"
    hidden: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    # The first user that attempts run as, when each tenant has one of its own.
    uid: int | None = None

    def orders(self, folder: str) -> bytes:
        """For the warden: see `keeper.Orders`."""
        hidden = tuple(os.path.expanduser(path) for path in (*self.hidden, *HIDDEN))
        terms = (hidden, self.writable, self.devices)
        return marshal.dumps((self.level != "any", terms, folder, -1 if self.uid is None else self.uid))


def sandbox_of(contained: Sequence[Containment], tried: Sequence[str], terms: SandboxTerms) -> Sandbox:
    parts = tuple(part for part in (*contained, *tried) if part != "none")
    have, limited = frozenset(parts), contained[-1] != "none"
    needed = {"process": _PROCESS, "sandbox": _SANDBOX if terms.uid is None else _SANDBOX | {_UID}}
    level: Isolation = "any"
    for name in LEVELS[1:]:
        if limited and needed[name] <= have:
            level = name
    return Sandbox(level, parts)


def refused(launch: Launch, sandbox: Sandbox) -> str:
    """Why it must not start here; empty when it may."""
    if stronger(launch.isolation, sandbox.level) != sandbox.level:
        parts = ", ".join(sandbox.parts) or "nothing"
        return f"it needs isolation {launch.isolation!r}, and this node offers {sandbox.level!r} by {parts}"
    if launch.network == "none" and _NETWORK not in sandbox.parts:
        return "it is to have no network, and this node cannot make network namespaces"
    return ""


def caged(launch: Launch, terms: SandboxTerms, sandbox: Sandbox) -> Caged | None:
    """None: what its slot gives to everything is enough."""
    weaker = terms.level if stronger(terms.level, sandbox.level) == sandbox.level else sandbox.level
    wanted = stronger(launch.isolation, weaker)
    offline, hardened = launch.network == "none", terms.level != "any"
    if wanted == "sandbox" or offline or (wanted == "process" and not hardened):
        boxed = wanted == "sandbox"
        uid = launch.uid if boxed and launch.uid is not None else -1
        return boxed, hardened, offline, launch.folders or (launch.cwd,), uid
    return None
