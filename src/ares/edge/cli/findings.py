"""What is not real, not enforced or not well on a platform, and how to mend it. Pure: answers of the API are given."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

from ares.model.isolation import BOX, shortfall

if TYPE_CHECKING:
    from ares.api.nodes import NodeView
    from ares.api.quotas import TransfersView

# ok: as it should be. note: harmless where it is wanted. warning: something is missing. failed: no work goes on.
FindingStatus = Literal["ok", "note", "warning", "failed"]
# Clocks that differ by more than this make certificates, deadlines and ages look wrong.
CLOCK_OFF_S = 2.0
_NAMED_MAX = 3


class Finding(NamedTuple):
    """One thing that was looked at. `check` is its stable name; `fix` is empty when nothing is to be done."""

    check: str
    status: FindingStatus
    message: str
    fix: str = ""


def of_nodes(nodes: "Iterable[NodeView]") -> list[Finding]:
    """What machines do not have or do not enforce, a finding for each kind with the machines it holds for."""
    known = list(nodes)
    there = [node for node in known if node.ready]
    found = [*_lost(known), *_mock_gpus(there), *_not_apart(there), *_images(there)]
    if not known:
        found.append(Finding("nodes", "failed", "no machine has joined: no job can run", "`ares agent` on a machine"))
    return found


def of_transfers(found: "TransfersView") -> list[Finding]:
    """Servers that requests from nodes stay away from; nothing where there are none."""
    if not found.breakers:
        return []
    away = sorted({f"{row.endpoint} ({row.tenant}, from {row.node})" for row in found.breakers})
    waiting = f"; jobs that wait for that: {len(found.paused)}" if found.paused else ""
    text = f"too many requests failed, so they stay away from {some(away)}{waiting}"
    return [Finding("transfers", "warning", text, "see that it answers; requests go on by themselves: `ares data top`")]


def _lost(nodes: "list[NodeView]") -> list[Finding]:
    lost = [node.name for node in nodes if not node.ready]
    if not lost:
        return [Finding("nodes", "ok", f"{len(nodes)} of {len(nodes)} machines are ready")] if nodes else []
    text = f"{some(lost)}: nothing is heard of {'it' if len(lost) == 1 else 'them'}"
    status: FindingStatus = "failed" if len(lost) == len(nodes) else "warning"
    return [Finding("nodes", status, text, "look at its agent's terminal: it says why it cannot reach the server")]


def _mock_gpus(nodes: "list[NodeView]") -> list[Finding]:
    mock = [node.name for node in nodes if any(gpu.vendor == "mock" for gpu in node.info.gpus)]
    if not mock:
        return []
    text = f"{some(mock)}: GPUs are mock: jobs are given their numbers, and there is no device behind them"
    fix = "where there are real ones, see that `nvidia-smi` or `rocm-smi` works; to have none: --set node.mock_gpu=0"
    return [Finding("mock-gpus", "note", text, fix)]


def _not_apart(nodes: "list[NodeView]") -> list[Finding]:
    where: dict[tuple[str, str, str], list[str]] = {}
    for node in nodes:
        if short := shortfall(node.info.sandbox):
            boxed = frozenset(node.info.sandbox) >= BOX
            if not boxed and not any(part.startswith("cgroup") for part in (*node.info.sandbox, *node.info.isolation)):
                short += "; nor are their limits of memory, CPU and processes enforced: no cgroups"
            check, fix = ("limits", _LIMITS_FIX) if boxed else ("sandbox", _SANDBOX_FIX)
            where.setdefault((check, short, fix), []).append(node.name)
    found = [Finding(check, "warning", f"{some(names)}: {text}", fix) for (check, text, fix), names in where.items()]
    if nodes and not found:
        found.append(Finding("sandbox", "ok", "jobs are in sandboxes, with limits on memory, CPU and processes"))
    return found


def _images(nodes: "list[NodeView]") -> list[Finding]:
    """Whether jobs can run in container images. Which ones is the operator's choice, and told by the node."""
    unable = [node.name for node in nodes if not frozenset(node.info.sandbox) >= {"images", *BOX}]
    if not unable:
        return [Finding("images", "ok", "jobs can run in container images")] if nodes else []
    text = f"{some(unable)}: jobs cannot run in container images there: no overlay mounts, or no sandbox"
    return [Finding("images", "note", text, f"Linux 5.12 or later; {_SANDBOX_FIX}")]


# From this share on of so many parts, plans that collide are worth a word.
_CONFLICTS_MAX, _PARTS_MIN = 0.2, 100

_LIMITS_FIX = (
    "run the agent as root, or give its user a control group: "
    "systemd-run --user --scope -p Delegate=yes ares up (docs/concepts/sandbox.md)"
)
_SANDBOX_FIX = (
    "run the agent as root, or allow user namespaces: sysctl kernel.unprivileged_userns_clone=1, and on Ubuntu "
    "kernel.apparmor_restrict_unprivileged_userns=0 (docs/concepts/sandbox.md)"
)


def of_server(checks: Mapping[str, str], now: float) -> list[Finding]:
    """What a replica says about itself (`/readyz`), and how far its clock is from `now`, the reader's."""
    found = [_clock(checks, now), _disk(checks)]
    if checks.get("leader") == "none":
        found.append(
            Finding("leader", "failed", "no replica leads: nothing is scheduled", "wait 5 s; then see its log")
        )
    if "plugins" in checks:
        found.append(Finding("plugins", "warning", f"plugins {checks['plugins']}", "`ares plugins` says why"))
    if "planners" in checks and checks.get("leading") == "yes":
        found.append(_planners(checks))
    if "objects" in checks:
        found.append(_objects(checks))
    if "records_set_aside" in checks:
        text = f"{checks['records_set_aside']} records of the store cannot be read"
        found.append(Finding("records", "warning", text, "`ares verify` names them"))
    return [finding for finding in found if finding is not None]


def _clock(checks: Mapping[str, str], now: float) -> Finding | None:
    if "clock" not in checks:
        return None
    off = now - float(checks["clock"])
    if abs(off) <= CLOCK_OFF_S:
        return Finding("clock", "ok", f"this machine's clock and the server's are within {CLOCK_OFF_S:g} s")
    way = "ahead of" if off > 0 else "behind"
    text = f"this machine's clock is {abs(off):.0f} s {way} the server's: ages, deadlines and certificates look wrong"
    return Finding("clock", "warning", text, "set both by NTP: timedatectl set-ntp true")


def _planners(checks: Mapping[str, str]) -> Finding:
    """Plans that collide are made again: where many do, several planners cost more than they give."""
    count, parts, conflicts = (int(checks.get(name, "0")) for name in ("planners", "plan_parts", "plan_conflicts"))
    if lost := int(checks.get("planners_lost", "0")):
        text = f"{lost} of {count} planners do not answer: jobs that wait with them are not placed"
        return Finding("planners", "warning", text, "they are replaced within seconds; if not, see the server's log")
    rate = conflicts / parts if parts else 0.0
    text = f"{count} planners; {conflicts:,} of {parts:,} parts of their plans collided ({rate:.1%})"
    if parts >= _PARTS_MIN and rate > _CONFLICTS_MAX:
        return Finding("planners", "warning", text, "set fewer planners, or more pools (docs/concepts/schedule.md)")
    return Finding("planners", "ok", text)


def _objects(checks: Mapping[str, str]) -> Finding:
    where, trouble, digests = (checks.get(name, "") for name in ("objects", "objects_trouble", "objects_digests"))
    if trouble:
        fix = "see objects.endpoint, objects.bucket and objects.credentials_file of the server; files wait until then"
        return Finding("objects", "failed", f"files of jobs cannot be kept in {where}: {trouble}", fix)
    if not digests.startswith("compares"):
        return Finding("objects", "note", f"{where} {digests}", "nothing to do; writing costs a second read")
    return Finding("objects", "ok", f"files of jobs are kept in {where}, which {digests}")


def _disk(checks: Mapping[str, str]) -> Finding | None:
    if "disk_reserve" in checks:
        text = f"the server's disk is nearly full: {checks['disk_reserve']}"
        return Finding("disk", "warning", text, "free some, or lower limits.disk_reserve_mib; logs are cut until then")
    if "disk_free_mib" not in checks:
        return None
    return Finding("disk", "ok", f"{int(checks['disk_free_mib']):,} MiB are free on the server's disk")


def some(names: list[str]) -> str:
    """The first few, and how many more."""
    more = len(names) - _NAMED_MAX
    return ", ".join(names[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
