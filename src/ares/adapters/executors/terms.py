"""The sandbox of an attempt, from the operator's settings, the machine's abilities and the job's request."""

import marshal
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from ares.model.isolation import BOX, LEVELS, OWN_USER, Isolation, stronger
from ares.model.node import Containment
from ares.ports.executor import Launch, NodeFolder, Sandbox

# Credentials of this machine and of its users.
HIDDEN: Final = (
    "/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/ssh", "/etc/kubernetes", "/var/lib/kubelet",
    "~/.ssh", "~/.aws", "~/.azure", "~/.config/gcloud", "~/.kube", "~/.docker", "~/.gnupg", "~/.netrc",
)  # fmt: skip
_PROCESS: Final = frozenset({"pid-namespace", "private-proc", "read-only-kernel", "no-capabilities", "no-new-privs"})
_SANDBOX: Final = _PROCESS | {"mount-namespace", "ipc-namespace", "uts-namespace", "seccomp"}
_NETWORK: Final = "net-namespace"


_COVER: Final = "mount-namespace"
_IMAGES: Final = frozenset({"images", *BOX})


@dataclass(frozen=True, slots=True)
class SandboxTerms:
    # The level of every attempt, as far as the machine allows. A job may ask for more.
    level: Isolation = "sandbox"
    # Ares' own files. They are hidden from attempts of every level, where the machine allows it.
    own: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    # What every attempt may read beside programs, wherever it lies.
    shown: tuple[str, ...] = ()
    # What attempts in images may read of the machine.
    in_images: tuple[str, ...] = ()
    # The first user that attempts run as, when each tenant has one of its own.
    uid: int | None = None

    def orders(self, folder: str) -> bytes:
        """The settings for the warden, see `supervisor.Orders`."""
        hidden = tuple(os.path.expanduser(path) for path in (*self.hidden, *HIDDEN))
        terms = (self.own, hidden, self.writable, self.devices, (*programs(), *self.shown), self.in_images)
        return marshal.dumps((self.level != "any", terms, folder, -1 if self.uid is None else self.uid))


# The directory that `import ares` finds it in.
_ABOVE_ARES: Final = str(Path(__file__).parents[3])


def programs() -> tuple[str, ...]:
    """The Python that Ares runs with, and Ares itself. Every attempt may read them, also below a directory that is
    hidden or closed, such as /tmp in a sandbox: jobs are started with this interpreter and import `ares.job`."""
    return tuple(dict.fromkeys((sys.base_prefix, sys.prefix, _ABOVE_ARES)))


def sandbox_of(contained: Sequence[Containment], tried: Sequence[str], terms: SandboxTerms) -> Sandbox:
    parts = tuple(part for part in (*contained, *tried) if part != "none")
    have, limited = frozenset(parts), contained[-1] != "none"
    needed = {"process": _PROCESS, "sandbox": _SANDBOX if terms.uid is None else _SANDBOX | {OWN_USER}}
    level: Isolation = "any"
    for name in LEVELS[1:]:
        if limited and needed[name] <= have:
            level = name
    return Sandbox(level, parts)


def refused(launch: Launch, sandbox: Sandbox) -> str:
    """Why the attempt must not start on this node; empty when it may."""
    if stronger(launch.isolation, sandbox.level) != sandbox.level:
        parts = ", ".join(sandbox.parts) or "nothing"
        return f"it needs isolation {launch.isolation!r}, and this node offers {sandbox.level!r} by {parts}"
    if launch.network == "none" and _NETWORK not in sandbox.parts:
        return "it is to have no network, and this node cannot make network namespaces"
    if launch.image is not None and (lacking := _IMAGES - frozenset(sandbox.parts)):
        return f"it runs in an image, and this node cannot keep it in one: no {', '.join(sorted(lacking))}"
    if launch.uid is not None and OWN_USER not in sandbox.parts:
        return f"it is to run as user {launch.uid}, and this agent cannot become another user: see node.sandbox.uids"
    return ""


class Cell(NamedTuple):
    """What the first attempt makes of a slot. The slot then runs attempts with an equal cell only."""

    # The tenant.
    owner: str
    sandbox: bool
    harden: bool
    cover: bool
    offline: bool
    parents: tuple[str, ...]
    uid: int
    # The image of the only attempt it runs; empty without one.
    image: tuple[str, ...]
    # As (path, device, inode): a directory that was made anew needs another slot.
    shown: tuple[tuple[str, int, int], ...]
    kept: tuple[tuple[str, int, int], ...]
    # Limits that a slot can lower but not raise again.
    final: tuple[int, int, int]

    @property
    def cage(self) -> tuple[Any, ...]:
        """The part for the slot, see `sandbox.Cage`."""
        return self[1:-1]


def cell_of(launch: Launch, terms: SandboxTerms, sandbox: Sandbox) -> Cell:
    """The cell for an attempt: the isolation that the job or the operator asks for, as far as the machine allows."""
    have = frozenset(sandbox.parts)
    image = launch.image
    boxed = image is not None or launch.isolation == "sandbox" or (terms.level == "sandbox" and have >= BOX)
    cover = _COVER in have
    return Cell(
        owner=launch.owner,
        sandbox=boxed,
        # With any other level every slot is hardened already.
        harden=terms.level == "any" and (launch.isolation != "any" or image is not None),
        cover=cover,
        offline=launch.network == "none",
        parents=tuple(dict.fromkeys(os.path.dirname(path) for path in launch.folders)) if cover else (),
        uid=-1 if launch.uid is None else launch.uid,
        image=() if image is None else (image.root, image.layer, image.home, image.workdir),
        shown=_found(launch.shown) if cover else (),
        kept=_found(launch.kept) if cover else (),
        final=(launch.file_bytes_max, launch.processes_max, launch.open_files_max),
    )


def _found(folders: tuple[NodeFolder, ...]) -> tuple[tuple[str, int, int], ...]:
    return tuple((folder.path, folder.device, folder.inode) for folder in folders)
